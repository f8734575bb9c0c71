"""Random stores, rechunked by the command and compared bit by bit with what zarr-python and NumPy read.

    python tests/python/random_stores.py --cases 1000 --seed 0

Formats, types, orders, codecs, shards, missing chunks, threads and caps are drawn; caps begin at the smallest that works,
which the command is asked for. Every run must keep its cap, as the system counts memory. With `--kill`, runs are killed at
random times and resumed. The first case that fails is named with its seed and left where it is.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numcodecs
import numpy
import zarr

COMMAND = os.environ.get("RETILE_COMMAND", str(Path(__file__).parents[2] / "build" / "release" / "retile"))
TYPES = ["<f4", ">f8", "<i2", "|u1", "|b1", "<c8", "<f2", ">i4", "<u8"]
TEXTS = ["|S5", "<U3", "<M8[s]"]  # of Zarr v2 and .npy files
CODECS_2 = [
    lambda draw: None,
    lambda draw: numcodecs.Blosc(
        draw.choice(["lz4", "zstd", "zlib", "blosclz"]), draw.randint(0, 9), draw.randint(-1, 2)
    ),
    lambda draw: numcodecs.Blosc("lz4", 5, 1, blocksize=draw.choice([256, 1024, 4096])),
    lambda draw: numcodecs.Zstd(draw.randint(0, 5)),
    lambda draw: numcodecs.LZ4(),
    lambda draw: numcodecs.Zlib(draw.randint(0, 9)),
    lambda draw: numcodecs.GZip(draw.randint(1, 9)),
]
CODECS_3 = [
    lambda draw: None,
    lambda draw: zarr.codecs.ZstdCodec(level=draw.randint(0, 5), checksum=draw.random() < 0.5),
    lambda draw: zarr.codecs.GzipCodec(level=draw.randint(0, 9)),
    lambda draw: zarr.codecs.BloscCodec(cname=draw.choice(["lz4", "zstd"]), clevel=draw.randint(1, 9)),
    lambda draw: zarr.codecs.BloscCodec(cname="lz4", clevel=5, blocksize=draw.choice([256, 1024, 4096])),
    lambda draw: [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()],
]
TARGET_CODECS_2 = ["keep", "none", "blosc", "blosc:zstd:3", "zstd:1", "lz4", "zlib:1", "gzip:1"]
TARGET_CODECS_3 = ["keep", "none", "blosc:lz4:9", "zstd", "zstd:9", "gzip:1"]


class Case:
    """One array, how it is stored, and what it is to become."""

    def __init__(self, seed, folder):
        self.draw = draw = random.Random(seed)
        self.folder = folder
        self.source, self.target = folder / "source", folder / "target"
        most = draw.choice([200, 20_000, 20_000, 4_000_000])  # elements
        rank = draw.randint(1, 4)
        self.shape = tuple(draw.randint(1, max(1, int(2 * most ** (1 / rank)))) for _ in range(rank))
        self.format = draw.choice(["npy", 2, 3, 3])
        self.dtype = draw.choice(TYPES + TEXTS if self.format != 3 else TYPES)
        self.array = self._make_source()
        self.arguments = self._choose_target()

    def _sizes(self, shape):
        return tuple(self.draw.randint(max(1, n // 20), n) for n in shape)

    def _make_source(self):
        draw, shape = self.draw, self.shape
        values = numpy.random.default_rng(draw.randrange(1 << 30))
        array = values.integers(0, 2 if self.dtype == "|b1" else draw.choice([3, 100]), shape).astype(self.dtype)
        if self.format == "npy":
            self.source = self.folder / "source.npy"
            numpy.save(self.source, numpy.asfortranarray(array) if draw.random() < 0.5 else array)
            return array
        options = {"shape": shape, "dtype": array.dtype, "chunks": self._sizes(shape), "zarr_format": self.format}
        if self.format == 2:
            codec = draw.choice(CODECS_2)(draw)
            filters = [numcodecs.Shuffle(array.itemsize)] if draw.random() < 0.2 and array.dtype.kind in "iuf" else None
            options |= {"order": draw.choice("CF"), "filters": filters, "compressors": codec}
        else:
            options["compressors"] = draw.choice(CODECS_3)(draw)
            if draw.random() < 0.3:
                options["shards"] = tuple(
                    c * draw.randint(1, 1 + n // c) for c, n in zip(options["chunks"], shape, strict=True)
                )
        stored = zarr.create_array(self.source, **options)
        stored[...] = array
        if draw.random() < 0.3 and self.dtype in TYPES:  # some chunks were never written
            names = ("zarr.json", ".zarray", ".zattrs")
            for file in sorted(path for path in self.source.rglob("*") if path.is_file() and path.name not in names):
                if draw.random() < 0.5:
                    file.unlink()
            array = zarr.open_array(self.source, mode="r")[...]
        return array

    def _choose_target(self):
        draw = self.draw
        chunks = self._sizes(self.shape)
        arguments = ["--chunks", ",".join(map(str, chunks)), "--threads", str(draw.randint(1, 4))]
        if draw.random() < 0.3:
            arguments.append("--verify")
        kinds = ["npy", 2] if self.dtype in TEXTS else ["npy", 2, 3, 3]
        kind = draw.choice(kinds)
        if kind == "npy":
            self.target = self.folder / "target.npy"
            return arguments
        codec = draw.choice(TARGET_CODECS_2 if kind == 2 else TARGET_CODECS_3)
        if codec == "keep" and self.format != kind:
            codec = "zstd"
        if kind == 3 and draw.random() < 0.4:
            shards = [c * draw.randint(1, 1 + n // c) for c, n in zip(chunks, self.shape, strict=True)]
            arguments += [
                "--shards",
                ",".join(str(min(s, n) if s >= n else s) for s, n in zip(shards, self.shape, strict=True)),
            ]
        return [*arguments, "--format", f"zarr{kind}", "--codec", codec]

    def command(self, cap, *more):
        return [COMMAND, "rechunk", str(self.source), str(self.target), *self.arguments, "--max-bytes", str(cap), *more]

    def run(self, cap, *more):
        return subprocess.run(self.command(cap, *more), capture_output=True, text=True, timeout=600, check=False)

    def smallest_cap(self):
        refused = self.run(1)
        found = re.search(r"the smallest cap that works is (\d+)", refused.stderr)
        assert refused.returncode == 1 and found, refused.stderr
        return int(found[1])

    def check(self):
        """Moves the array under a cap that is drawn, and compares."""
        smallest = self.smallest_cap()
        cap = smallest + self.draw.choice([0, 0, 1 << 16, 1 << 20, 1 << 26])
        plan = json.loads(self.run(cap, "--json", "--dry-run").stdout)
        if plan["read_bytes"] > 50 * plan["least_read_bytes"]:  # as it may be with the smallest cap, and takes as long
            cap = smallest + (1 << 28)
        done = self.run(cap, "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["peak_bytes"] <= cap, report
        self.compare()
        return cap == smallest

    def check_killed(self):
        """Kills the run at random times, and goes on until it ends."""
        smallest = self.smallest_cap()
        kills = 0
        while True:
            more = ["--resume"] if (self.folder / "target.unfinished").exists() else []
            process = subprocess.Popen(
                self.command(smallest, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            time.sleep(self.draw.random() * 0.05)
            if process.poll() is None and kills < 5:
                process.kill()
                kills += 1
            _, errors = process.communicate()
            if process.returncode == 0:
                break
            assert process.returncode == -9, errors
            if self.target.exists():  # killed after it was complete
                break
        leftovers = sorted(path.name for path in self.folder.iterdir() if path not in (self.source, self.target))
        assert all(name.startswith(".retile-") for name in leftovers), leftovers
        self.compare()
        return kills

    def compare(self):
        is_npy = self.target.suffix == ".npy"
        read = numpy.load(self.target) if is_npy else zarr.open_array(self.target, mode="r")[...]
        assert read.shape == self.array.shape
        assert read.astype(self.array.dtype).tobytes() == self.array.tobytes()


def run_case(seed, kill=False):
    """What the case counts: whether its cap was the smallest, or how often it was killed."""
    folder = Path(tempfile.mkdtemp(prefix="retile-"))
    try:
        case = Case(seed, folder)
        result = case.check_killed() if kill else case.check()
    except BaseException:
        print(f"case {seed} failed: {folder}")
        raise
    shutil.rmtree(folder)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    total = 0
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        total += run_case(seed, arguments.kill)
    print(f"{arguments.cases} cases, {total} {'kills' if arguments.kill else 'of them with the smallest cap'}")


if __name__ == "__main__":
    main()
