"""Random problems of `retile rechunk` under a cap: what it has in memory at most, and what it reads and writes.

An array goes from one random chunking to the next, with random codecs and shards, and is compared with what it was at the
end. Every run is within the cap, as the system counts it, or is refused before anything is written.
"""

import argparse
import concurrent.futures
import filecmp
import json
import math
import multiprocessing
import os
import random
import shutil
import subprocess


def make_array(path, shape):
    """A .npy file of numbers that compress like measured ones, slab by slab."""
    import numpy

    array = numpy.lib.format.open_memmap(path, "w+", "f4", shape)
    source = numpy.random.default_rng(1)
    rows = max(1, (1 << 25) // (4 * math.prod(shape[1:])))
    for at in range(0, shape[0], rows):
        steps = source.integers(-3, 4, (min(rows, shape[0] - at), *shape[1:]), dtype="i1")
        array[at : at + rows] = numpy.cumsum(steps, axis=-1) / 8
    array.flush()


def draw_chunks(draw, shape, least, most):
    """Extents of a chunk of `least` to `most` bytes, each in proportion to random weights of its logarithm."""
    while True:
        bytes_wanted = math.exp(draw.uniform(math.log(least), math.log(most)))
        weights = [draw.random() for _ in shape]
        share = math.log(bytes_wanted / 4) / sum(weights)
        chunks = [max(1, min(n, round(math.exp(share * w)))) for n, w in zip(shape, weights, strict=True)]
        files = math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))
        if least <= 4 * math.prod(chunks) <= most and files < 20000:
            return chunks


def run(command):
    """Exit status, standard output, errors and the peak resident bytes of a command."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = process.stdout.read().decode(), process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), output, errors, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retile", default="build/release/retile")
    parser.add_argument("--folder", default="build/bench-files")
    parser.add_argument("--max-bytes", type=int, default=256 << 20)
    parser.add_argument("--shape", default="8760,181,360")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shape = tuple(map(int, arguments.shape.split(",")))
    draw = random.Random(arguments.seed)
    os.makedirs(arguments.folder, exist_ok=True)
    first = f"{arguments.folder}/first.npy"
    # In a process of its own: the peak of a child is never below its parent's memory.
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(make_array, first, shape).result()
    print(f"cap {arguments.max_bytes} bytes, array of {4 * math.prod(shape)} bytes, seed {arguments.seed}")
    source, counts = first, {"kept": 0, "refused": 0, "broken": 0, "one pass": 0, "one pass, each byte once": 0}
    for number in range(arguments.count):
        target = f"{arguments.folder}/{number % 2}.zarr"
        shutil.rmtree(target, ignore_errors=True)
        chunks = draw_chunks(draw, shape, arguments.max_bytes >> 12, arguments.max_bytes >> 2)
        codec = draw.choice(["none", "blosc:lz4:5", "zstd:1", "blosc:zstd:1"])
        command = [arguments.retile, "rechunk", source, target, "--chunks", ",".join(map(str, chunks)), "--format"]
        command += ["zarr3", "--codec", codec, "--threads", "2", "--json", "--max-bytes", str(arguments.max_bytes)]
        if draw.random() < 0.25:
            shards = [c * max(1, min(4, n // c)) for n, c in zip(shape, chunks, strict=True)]
            command += ["--shards", ",".join(map(str, shards))]
        status, output, errors, _ = run([*command, "--dry-run"])
        words = f"{number:3} {codec:12} {tuple(chunks)!s:20}"
        if status == 1 and "the smallest cap that works" in errors and not os.path.exists(target):
            counts["refused"] += 1
            print(f"{words} refused: {errors.splitlines()[-1]}", flush=True)
            continue
        plan = json.loads(output)
        status, output, errors, peak = run(command)
        if status != 0:
            raise SystemExit(f"{' '.join(command)}\n{errors}")
        report = json.loads(output)
        counts["kept" if peak <= arguments.max_bytes else "broken"] += 1
        read = report["read_bytes"] / plan["least_read_bytes"]
        written = report["written_bytes"] / plan["least_written_bytes"]
        if len(plan["passes"]) == 1:
            counts["one pass"] += 1
            counts["one pass, each byte once"] += read == 1 and written == 1
        seconds = f"{report['seconds']:6.2f} s"
        passes = f"passes {len(plan['passes'])} (at least {plan['least_passes']})"
        print(
            f"{words} {seconds}, peak {peak >> 20:4} MiB, {passes}, read {read:.3f}, written {written:.3f}", flush=True
        )
        if source != first:
            shutil.rmtree(source)
        source = target
    last = f"{arguments.folder}/last.npy"
    status, _, errors, _ = run([arguments.retile, "rechunk", source, last, "--chunks", "-1", "--overwrite"])
    is_same = status == 0 and filecmp.cmp(first, last, shallow=False)
    print(f"\n{counts}; in the end the array is {'the same' if is_same else 'another: ' + errors}")
    for path in (first, last):
        if os.path.exists(path):
            os.remove(path)
    if source != first:
        shutil.rmtree(source)


if __name__ == "__main__":
    main()
