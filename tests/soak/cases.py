"""Kinds of cases. Each draws what it needs, asks the command, and throws Failure where the answer is wrong."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from command import Failure, lines_of, problem_text, shown
from layouts import Ends, Mesh
from mutations import mutated
from problems import DTYPES, choose, draw_problem
from replay import Wrong, check_statements, replay_plan, require
from search import least_cost

PLANNERS = ["auto", "paper", "wide", "direct", "lean", "gather-slice"]
COST_MODELS = ["paper", "volume"]


def check_plan(problem, plan, arguments, retile):
    try:
        ends = Ends(problem)
        replay = replay_plan(plan, ends)
        check_statements(plan, replay, ends)
    except Wrong as wrong:
        raise Failure(str(wrong), shown([retile.path, *arguments], problem_text([problem]))) from None


def plans(retile, random, counts):
    """Plans by every planner under every cost model, replayed element by element."""
    problems = [draw_problem(random) for _ in range(20)]
    for i, problem in enumerate(problems):
        problem["id"] += f"-{i}"
    by_id = {problem["id"]: problem for problem in problems}
    for planner in PLANNERS:
        for model in COST_MODELS:
            arguments = ["plan", "--problems", "-", "--json", "--planner", planner, "--cost", model]
            for plan in lines_of(retile, arguments, problems):
                check_plan(by_id[plan["id"]], plan, arguments, retile)
                counts.add("plans")


def optima(retile, random, counts):
    """What `paper` proves and calls optimal, against exhaustive search."""
    drawn = (draw_problem(random, ("even",)) for _ in range(20))
    searched = [(problem, least) for problem in drawn if (least := least_cost(problem)) is not None]
    arguments = ["plan", "--problems", "-", "--json", "--planner", "paper"]
    found = lines_of(retile, arguments, [problem for problem, _ in searched]) if searched else []
    for (problem, least), plan in zip(searched, found, strict=True):
        cost = plan["cost"]
        counts.add("searched")
        command = shown([retile.path, *arguments], problem_text([problem]))
        if cost["lower_bound"] > least:
            raise Failure(f"a plan costs {least}, below the lower bound: {cost}", command)
        if cost["optimal"] and cost["total"] > least:
            raise Failure(f"a plan costs {least}, below what is called optimal: {cost}", command)


def verdicts(retile, random, counts):
    """Changed plans: those that do something else, or say what is not so, must be refused."""
    problems = [draw_problem(random) for _ in range(4)]
    planner, model = choose(random, PLANNERS), choose(random, COST_MODELS)
    arguments = ["plan", "--problems", "-", "--json", "--planner", planner, "--cost", model]
    stated = lines_of(retile, arguments, problems)
    changed = []
    for problem, plan in zip(problems, stated, strict=True):
        ends = Ends(problem)
        for _ in range(25):
            other = mutated(random, plan)
            other["id"] = f"m{len(changed)}"
            changed.append((other, is_right(other, ends)))
    done = verify(retile, [plan for plan, _ in changed])
    passed = {line["id"] for line in map(json.loads, done.stdout.splitlines()) if line["verified"]}
    for plan, right in changed:
        counts.add("mutations")
        if plan["id"] in passed and not right:
            raise Failure("verify passes what is wrong", shown([retile.path, "verify", "-"], json.dumps(plan)))
        counts.add("mutations refused", plan["id"] not in passed)
    for problem, plan in zip(problems, stated, strict=True):
        unchanged = verify(retile, [plan])
        if unchanged.returncode != 0:
            command = shown([retile.path, *arguments], problem_text([problem]))
            raise Failure(unchanged.stderr, f"{command} | {retile.path} verify -")


def verify(retile, plans):
    """The verdict on all of them; where that fails, the one that makes it fail."""
    try:
        return retile.run(["verify", "-", "--json"], problem_text(plans))
    except Failure:
        if len(plans) == 1:
            raise
        for plan in plans:
            verify(retile, [plan])
        raise


def is_right(plan, ends):
    try:
        check_statements(plan, replay_plan(plan, ends), ends)
        for before, after in itertools.pairwise(plan["steps"]):
            require(before["local_out"] == after["local_in"], "local_in is not local_out before it")
    except Wrong:
        return False
    except (KeyError, TypeError, ValueError, IndexError):
        return False
    return True


def runs(retile, random, counts):
    """Data moved on threads and by the reference engine; the command compares every element."""
    problems = [draw_problem(random) for _ in range(8)]
    arguments = ["run", "--problems", "-", "--json", "--planner", choose(random, PLANNERS)]
    arguments += ["--engine", choose(random, ["threads", "threads", "reference"]), "--seed", str(random.integers(1000))]
    if random.random() < 0.3:
        arguments.append("--donate")
    check_runs(retile, arguments, problems, 0)
    counts.add("runs", len(problems))


def limits(retile, random, counts):
    """Runs within a memory limit: it is kept, or refused with the smallest that works."""
    problem = draw_problem(random)
    arguments = ["run", "--problems", "-", "--json", "--engine", choose(random, ["threads", "reference"])]
    text = problem_text([problem])

    def run(limit):
        limited = [*arguments, "--memory-limit", str(limit)]
        done = retile.run(limited, text)
        command = shown([retile.path, *limited], text)
        smallest = re.search(r"the smallest limit that works is ([\d,]+) byte", done.stderr)
        if done.returncode == 1 and smallest is not None:
            return int(smallest[1].replace(",", "")), command
        if done.returncode != 0 or json.loads(done.stdout)["peak_bytes"]["measured"] > limit:
            raise Failure(f"a limit is not kept: {done.stdout}{done.stderr}", command)
        return None, command

    counts.add("limits")
    ends = Ends(problem)
    larger = max(int(ends.source.sizes.max()), int(ends.target.sizes.max())) * DTYPES[problem["dtype"]]
    smallest, command = run(max(1, int(larger * random.uniform(0.8, 3))))
    if smallest is None:
        return
    counts.add("limits refused")
    if run(smallest)[0] is not None:
        raise Failure(f"the smallest limit that works, {smallest}, does not", command)
    if smallest > 1 and run(smallest - 1)[0] is None:
        raise Failure(f"less works than the smallest limit that works, {smallest}", command)


def check_runs(retile, arguments, problems, ranks):
    reports = lines_of(retile, arguments, problems, ranks)
    for problem, report in zip(problems, reports, strict=True):
        memory = report["peak_bytes"]
        if not report["verified"] or memory["measured"] > memory["predicted"]:
            raise Failure(f"a wrong run: {report}", shown([retile.path, *arguments], problem_text([problem]), ranks))


def programs(retile, random, counts):
    """A program that moves an array of ours there and back: its bytes come out as they went in."""
    while True:
        problem = draw_problem(random, ("even",))
        if problem["dtype"] in ("f32", "f64", "i32"):
            break
    mesh = ", ".join(f"{name}: {size}" for name, size in problem["mesh"].items())
    types = [type_text(problem, side) for side in ("src", "dst")]
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"retile-soak-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    try:
        element = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[problem["dtype"]]
        array = random.integers(0, 1 << 20, size=problem["shape"]).astype(element)
        np.save(folder / "a.npy", array if random.random() < 0.5 else np.asfortranarray(array))
        text = f"mesh {{{mesh}}}\nfn main(a : {types[0]}) -> {types[1]} {{\n"
        text += f"  b = redistribute a as {types[1]}\n  return b\n}}\n"
        (folder / "p.spmd").write_text(text)
        arguments = [
            "run",
            str(folder / "p.spmd"),
            "--arg",
            f"a={folder}/a.npy",
            "--out",
            f"b={folder}/b.npy",
            "--verify",
        ]
        done = retile.run(arguments)
        if done.returncode != 0 or not np.array_equal(np.load(folder / "b.npy"), array):
            raise Failure(f"{done.stderr}\n{text}", shown([retile.path, *arguments], ""))
    finally:
        shutil.rmtree(folder)
    counts.add("programs")


def type_text(problem, side):
    mesh = Mesh(problem["mesh"])
    dimensions = []
    for size, axes in zip(problem["shape"], problem[side], strict=True):
        count = int(np.prod([mesh.digit(axis, 0)[1] for axis in axes], dtype=np.int64))
        cut = "{" + ",".join(axes) + "}"
        dimensions.append(f"{size // count}{cut}{size}" if axes else str(size))
    return f"{problem['dtype']}[{', '.join(dimensions)}]"


def ranks(retile, random, counts):
    """Data moved by MPI ranks."""
    size = int(random.integers(2, 5))
    problems = [p for p in (draw_problem(random) for _ in range(60)) if Ends(p).world % size == 0][:12]
    arguments = ["run", "--problems", "-", "--json", "--planner", choose(random, PLANNERS)]
    arguments += ["--transport", choose(random, ["auto", "collectives", "messages"])]
    check_runs(retile, arguments, problems, size)
    counts.add("runs on ranks", len(problems))


def draw_manifest(random):
    """Arrays on one world of devices, none of them a sum: transfers take no sums."""
    world = int(choose(random, [2, 4, 6, 8]))
    arrays = []
    while len(arrays) < int(random.integers(1, 8)):
        array = draw_problem(random, ("even", "uneven", "view", "cyclic", "form", "meshes"))
        if Ends(array).world <= world and 0 not in array["shape"] and "src_sum" not in array:
            del array["id"]
            arrays.append({"name": f"w{len(arrays)}", **array})
    return arrays, max(Ends(array).world for array in arrays)


def transfers(retile, random, counts, on_ranks=False):
    """Manifests: what each device receives is what it lacks, within the cap; then all of it is moved and compared."""
    arrays, world = draw_manifest(random)
    arguments = ["transfer", "-", "--json"]
    divisors = [n for n in range(1, world + 1) if world % n == 0]
    if random.random() < 0.4:
        arguments += ["--hosts", str(choose(random, divisors))]
    if random.random() < 0.4:
        arguments.append("--in-place")
        for array in arrays:  # row-major, in place
            array.pop("src_order", None)
            array.pop("dst_order", None)
    size = max(n for n in divisors if n <= 4) if on_ranks else 0
    cap = str(choose(random, [64, 1000, 4096, 65536, 1 << 20]))
    planned, cap, command = within_cap(retile, [*arguments, "--dry-run"], arrays, cap, 0, counts)
    check_transfer(arrays, world, planned, int(cap), command)
    # What ranks stage counts in place: they may need a larger cap.
    report, _, command = within_cap(retile, arguments, arrays, cap, size, counts)
    memory = report["peak_bytes"]
    if not report["verified"] or memory["measured"] > memory["predicted"]:
        raise Failure(f"a wrong transfer: {report}", command)
    counts.add("transfers on ranks" if size else "transfers")


def within_cap(retile, arguments, arrays, cap, ranks, counts):
    """The answer to a transfer within this cap, or, where it is too small, within the smallest that is said to work; with the
    cap and the command."""
    text = problem_text(arrays)
    capped = [*arguments, "--max-bytes", cap]
    done = retile.run(capped, text, ranks)
    smallest = re.search(r"the smallest cap that works (?:in place )?is ([\d,]+)", done.stderr)
    if done.returncode == 1 and smallest is not None:
        counts.add("caps refused")
        cap = smallest[1].replace(",", "")
        capped[-1] = cap
        done = retile.run(capped, text, ranks)
    command = shown([retile.path, *capped], text, ranks)
    if done.returncode != 0:
        raise Failure(done.stderr[:800], command)
    return json.loads(done.stdout), cap, command


def check_transfer(arrays, world, plan, cap, command):
    lacked = np.zeros(world, dtype=np.int64)
    for array in arrays:
        ends = Ends(array)
        lacking = ends.target_masks & ~ends.source_masks
        lacked[: ends.world] += lacking.reshape(ends.world, -1).sum(axis=1) * DTYPES[array["dtype"]]
    expectations = {
        "received is not what is lacked": plan["received_bytes"] == lacked.tolist(),
        "the floor is not what is lacked": plan["floor_bytes"] == lacked.tolist(),
        "more or less is sent than received": sum(plan["sent_bytes"]) == lacked.sum(),
        "the busiest sends less than it must": max(plan["sent_bytes"]) >= plan["sent_bound_bytes"],
        "more is staged than the cap": max(plan["staging_bytes"]) <= cap,
        "more is held in place than the cap": plan.get("in_place", {}).get("beyond_bytes", 0) <= cap,
    }
    for words, holds in expectations.items():
        if not holds:
            raise Failure(f"{words}: {json.dumps(plan)}, lacked {lacked.tolist()}", command)


def rank_transfers(retile, random, counts):
    transfers(retile, random, counts, on_ranks=True)


def kills(retile, random, counts):
    """A rank that is killed ends the job within seconds, and leaves nothing in /dev/shm."""
    size = int(random.integers(2, 5))
    before = set(os.listdir("/dev/shm"))
    elements = 1 << int(random.integers(10, 20))
    array = {"name": "w", "mesh": {"x": size}, "shape": [elements * size, size], "src": [["x"], []], "dst": [[], ["x"]]}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(json.dumps(array) + "\n")
        file.flush()
        arguments = choose(random, [["run", "--problems", file.name], ["transfer", file.name]])
        kill_one(retile, random, size, [*arguments, "--repeat", "1000000"])
    if not wait_for(lambda: not left_over(before), 10):
        command = shown([retile.path, *arguments], json.dumps(array), size)
        raise Failure(f"left in /dev/shm: {sorted(left_over(before))}", command)
    counts.add("ranks killed")


def kill_one(retile, random, size, arguments):
    command = [*retile.mpirun, "-np", str(size), retile.path, *arguments]
    words = shown(command, "")
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        started = wait_for(lambda: len(ranks_of(job.pid, retile.path)) == size, 60)
        time.sleep(float(random.uniform(0.0, 1.5)))
        victims = ranks_of(job.pid, retile.path)
        if not started or not victims:
            raise Failure("the job did not start, or ended by itself", words)
        victim = choose(random, victims)
        os.kill(victim, signal.SIGKILL)
        try:
            _, errors = job.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            raise Failure(f"rank {victims.index(victim)} was killed, and the job goes on", words) from None
    finally:
        if job.poll() is None:
            end_job(job, retile.path)
    if job.returncode == 0 or not errors.strip():
        raise Failure(f"a killed rank is not told: status {job.returncode}, {errors!r}", words)


def end_job(job, program):
    for process in (*ranks_of(job.pid, program), job.pid):
        os.kill(process, signal.SIGKILL)
    job.communicate()


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def ranks_of(launcher, program):
    """The processes below the launcher that run the program."""
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue

    def is_below(process):
        return process == launcher or (process in parents and is_below(parents[process]))

    def runs_program(process):
        try:
            return Path(f"/proc/{process}/exe").samefile(program)
        except OSError:
            return False

    return sorted(process for process in parents if is_below(process) and runs_program(process))


def left_over(before):
    """Files of shared memory that came since, and that no process has in use."""
    new = set(os.listdir("/dev/shm")) - before
    for maps in Path("/proc").glob("[0-9]*/maps"):
        if not new:
            break
        try:
            text = maps.read_text()
        except OSError:
            continue
        new = {name for name in new if f"/dev/shm/{name}" not in text}
    return new


# Kinds, and their shares of the time.
KINDS = {
    plans: 40,
    optima: 5,
    verdicts: 20,
    runs: 8,
    limits: 5,
    programs: 4,
    ranks: 8,
    transfers: 8,
    rank_transfers: 4,
    kills: 3,
}
NEED_MPI = (ranks, rank_transfers, kills)
