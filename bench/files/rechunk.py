"""Times of `retile rechunk` against a plain loop, cp and packaged tools, with their memory and what they read.

Every result is compared with the source before its time counts. Contenders run in turn, each in a process of its own, on
files that are in the page cache; the fastest of the repetitions counts. Codecs, their levels and shuffles are the
source's for all. A run is over when what it has written is on the disk: retile waits for that, the others are waited
for (`sync -f`).
"""

import argparse
import concurrent.futures
import importlib.util
import json
import math
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import numcodecs
import numpy
import zarr

HERE = pathlib.Path(__file__).resolve().parent
CASES = {  # shape, source chunks, target chunks
    "maps to series": ((8760, 181, 360), (24, 181, 360), (8760, 10, 10)),
    "columns to rows": ((24000, 24000), (24000, 100), (100, 24000)),
    "cubes to pencils": ((1024, 768, 768), (128, 128, 128), (1024, 16, 16)),
}


def scaled(case, scale):
    """The case with smaller arrays and chunks: by the cube root or the square root in each dimension."""
    factor = scale ** (1 / len(case[0]))
    return tuple(tuple(max(1, round(size * factor)) for size in sizes) for sizes in case)


def make_source(path, case, codec):
    shape, chunks, _ = case
    compressors = None if codec == "none" else numcodecs.Blosc(cname="lz4", clevel=5)
    array = zarr.create_array(path, shape=shape, dtype="f4", chunks=chunks, compressors=compressors, zarr_format=2)
    random = numpy.random.default_rng(1)
    rows = max(1, (1 << 26) // (4 * math.prod(shape[1:])))
    rows = max(chunks[0], rows // chunks[0] * chunks[0])
    for at in range(0, shape[0], rows):
        block = numpy.cumsum(random.integers(-3, 4, (min(rows, shape[0] - at), *shape[1:]), dtype="i1"), axis=-1)
        array[at : at + rows] = block.astype("f4") / 8


def differs(source_path, target_path):
    """Whether some element differs, slab by slab."""
    source, target = zarr.open_array(source_path, mode="r"), zarr.open_array(target_path, mode="r")
    rows = max(source.chunks[0], (1 << 28) // (4 * math.prod(source.shape[1:])))
    return any(
        not numpy.array_equal(source[at : at + rows], target[at : at + rows]) for at in range(0, source.shape[0], rows)
    )


def apart(function, *arguments):
    """Calls a function in a process of its own: the peak of a child is never below its parent's memory."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def use_memory(folder, size):
    """Writes so many bytes into the page cache and gives them up: where a virtual machine returns free memory to its
    host, whoever comes first after a pause would pay for getting it back."""
    with open(f"{folder}/memory", "wb") as file:
        for _ in range(size >> 22):
            file.write(bytes(1 << 22))
    os.remove(f"{folder}/memory")


def run(command, time_limit, folder):
    """Wall-clock seconds until all is on the disk, and the peak resident bytes of a command; nothing where it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    timer = threading.Timer(time_limit, process.kill)
    timer.start()
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    subprocess.run(["sync", "-f", folder], check=True)
    seconds = time.perf_counter() - start
    if status != 0:
        return None, errors.strip().splitlines()[-1:] or [f"status {status}"]
    return (seconds, usage.ru_maxrss * 1024), None


def commands(arguments, source, target, chunks):
    """The contenders that are there, by name."""
    text = ",".join(map(str, chunks))
    cap = str(arguments.max_bytes)
    found = {
        "retile": [arguments.retile, "rechunk", source, target, "--chunks", text, "--max-bytes", cap, "--threads", "2"],
        "cp": ["cp", "-r", source, target],
    }
    pythons = {name: sys.executable for name in ("tensorstore", "dask", "cubed") if importlib.util.find_spec(name)}
    pythons["loop"] = sys.executable
    if arguments.rechunker:
        pythons["rechunker"] = arguments.rechunker
    for name, python in pythons.items():
        found[name] = [python, str(HERE / "contenders.py"), name, source, target, json.dumps(chunks), cap]
    wanted = arguments.contenders.split(",") if arguments.contenders else list(found)
    return {name: command for name, command in found.items() if name in wanted}


def measure(arguments, name, codec):
    case = scaled(CASES[name], arguments.scale)
    source, target = f"{arguments.folder}/{name.replace(' ', '-')}-{codec}.zarr", f"{arguments.folder}/target.zarr"
    if not (arguments.keep and os.path.exists(source)):
        shutil.rmtree(source, ignore_errors=True)
        apart(make_source, source, case, codec)
    best, peaks, faults = {}, {}, {}
    for _ in range(arguments.repeat):
        for contender, command in commands(arguments, source, target, case[2]).items():
            shutil.rmtree(target, ignore_errors=True)
            shutil.rmtree(f"{target}.work", ignore_errors=True)
            use_memory(arguments.folder, 2 * 4 * math.prod(case[0]))
            os.sync()
            result, fault = run(command, arguments.time_limit, arguments.folder)
            if result and contender != "cp" and contender not in best and apart(differs, source, target):
                result, fault = None, ["the result is wrong"]
            if fault:
                faults[contender] = fault[0]
                continue
            best[contender] = min(result[0], best.get(contender, math.inf))
            peaks[contender] = max(result[1], peaks.get(contender, 0))
    if not arguments.keep:
        shutil.rmtree(source)
    shutil.rmtree(target, ignore_errors=True)
    return case, best, peaks, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retile", default="build/release/retile")
    parser.add_argument("--folder", default="build/bench-files")
    parser.add_argument("--max-bytes", type=int, default=256 << 20)
    parser.add_argument("--scale", type=float, default=1, help="of the arrays' sizes")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cases", help="some of: " + ", ".join(CASES))
    parser.add_argument("--codecs", default="none,blosc")
    parser.add_argument("--contenders", help="some of: retile,cp,loop,tensorstore,dask,cubed,rechunker")
    parser.add_argument("--keep", action="store_true", help="keep the sources, and use those of an earlier run")
    parser.add_argument("--rechunker", help="the Python of an environment with rechunker, which needs zarr-python 2")
    parser.add_argument("--time-limit", type=float, default=300, help="seconds of one run")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    print(f"cap {arguments.max_bytes} bytes, {os.cpu_count()} cores, zarr {zarr.__version__}")
    ratios = {}
    for codec in arguments.codecs.split(","):
        for name in arguments.cases.split(",") if arguments.cases else CASES:
            case, best, peaks, faults = measure(arguments, name, codec)
            print(f"\n{name}, {codec}: {case[0]} in {case[1]} to {case[2]}, {4 * math.prod(case[0]) / 1e9:.2f} GB")
            for contender, seconds in sorted(best.items(), key=lambda item: item[1]):
                ratio = seconds / best["retile"] if "retile" in best else math.nan
                ratios.setdefault((codec, contender), []).append(ratio)
                peak = peaks[contender] / (1 << 20)
                print(f"  {contender:12} {seconds:8.2f} s {ratio:7.2f} of retile's time, peak {peak:7.0f} MiB")
            for contender, fault in faults.items():
                print(f"  {contender:12} failed: {fault}")
            sys.stdout.flush()
    print("\ngeometric means of times over retile's")
    for (codec, contender), values in ratios.items():
        print(f"  {codec:6} {contender:12} {math.exp(sum(map(math.log, values)) / len(values)):7.2f}")


if __name__ == "__main__":
    main()
