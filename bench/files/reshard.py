"""Times of `retile reshard` against cp: a model in files of safetensors to one file for each rank, and back.

The model that comes back is compared with the first one before times count. Contenders run in turn, each in a process of
its own, on files that are as much in the page cache as it holds; the fastest of the repetitions counts. A run is over
when what it has written is on the disk.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import struct

import numpy
import rechunk


def tensors_of(layers, hidden):
    """Names and shapes of a transformer's matrices, two bytes an element, and the dimension that ranks share out."""
    tensors = {"embed": ((32 * hidden // 4, hidden), 0)}
    for layer in range(layers):
        for name, shape, cut in (
            ("q_proj", (hidden, hidden), 0),
            ("k_proj", (hidden // 4, hidden), 0),
            ("v_proj", (hidden // 4, hidden), 0),
            ("o_proj", (hidden, hidden), 1),
            ("gate_proj", (4 * hidden, hidden), 0),
            ("up_proj", (4 * hidden, hidden), 0),
            ("down_proj", (hidden, 4 * hidden), 1),
        ):
            tensors[f"layers.{layer}.{name}"] = (shape, cut)
    return tensors


def write_model(path, tensors):
    header, offset = {}, 0
    for name, (shape, _) in tensors.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    source = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for written in range(0, offset, 1 << 26):
            file.write(source.bytes(min(1 << 26, offset - written)))
    return offset


def write_layouts(path, tensors, ranks):
    with open(path, "w") as file:
        for name, (shape, cut) in tensors.items():
            sizes = [f"{size // ranks}{{x}}{size}" if i == cut else str(size) for i, size in enumerate(shape)]
            file.write(json.dumps({"name": name, "mesh": {"x": ranks}, "layout": f"[{', '.join(sizes)}]"}) + "\n")


def differs(first, second):
    """Whether some tensor of a file differs from that of another, tensor by tensor."""

    def header_of(file):
        length = struct.unpack("<Q", file.read(8))[0]
        return 8 + length, json.loads(file.read(length))

    with open(first, "rb") as one, open(second, "rb") as other:
        one_start, one_header = header_of(one)
        other_start, other_header = header_of(other)
        for name, tensor in one_header.items():
            one.seek(one_start + tensor["data_offsets"][0])
            other.seek(other_start + other_header[name]["data_offsets"][0])
            size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
            if one.read(size) != other.read(size):
                return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retile", default="build/release/retile")
    parser.add_argument("--folder", default="build/bench-files")
    parser.add_argument("--max-bytes", default="1GiB")
    parser.add_argument(
        "--layers", type=int, default=28, help="layers of the model, about 270 MB each at the usual width"
    )
    parser.add_argument("--hidden", type=int, default=3072, help="width of its matrices")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder)
    model, ranks, whole, copy = (str(folder / name) for name in ("model.safetensors", "ranks", "whole", "copy"))
    layouts = str(folder / "layouts.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors_of(arguments.layers, arguments.hidden)
    size = rechunk.apart(write_model, model, tensors)
    write_layouts(layouts, tensors, arguments.ranks)
    cap = ["--max-bytes", arguments.max_bytes, "--threads", "2"]
    commands = {
        "to ranks": ([arguments.retile, "reshard", model, "--to", layouts, "--out", ranks, *cap], ranks),
        "to one model": ([arguments.retile, "reshard", ranks, "--from", layouts, "--out", whole, *cap], whole),
        "cp": (["cp", model, copy], copy),
    }
    best, peaks = {}, {}
    for repetition in range(arguments.repeat):
        for name, (command, target) in commands.items():
            shutil.rmtree(target, ignore_errors=True)
            pathlib.Path(copy).unlink(missing_ok=True)
            rechunk.use_memory(arguments.folder, 4 << 30)
            os.sync()
            result, fault = rechunk.run(command, 600, arguments.folder)
            if fault:
                raise SystemExit(f"{name}: {fault[0]}")
            best[name] = min(result[0], best.get(name, math.inf))
            peaks[name] = max(result[1], peaks.get(name, 0))
        if repetition == 0 and rechunk.apart(differs, model, f"{whole}/model.safetensors"):
            raise SystemExit("the model that came back is another one")
    print(f"{size / 1e9:.2f} GB in {len(tensors)} tensors, {arguments.ranks} ranks, cap {arguments.max_bytes}")
    for name, seconds in best.items():
        peak = peaks[name] / (1 << 20)
        print(f"  {name:12} {seconds:7.2f} s, {best['cp'] / seconds:5.2f} of cp's speed, peak {peak:5.0f} MiB")
    shutil.rmtree(ranks)
    shutil.rmtree(whole)
    for path in (model, layouts, copy):
        os.remove(path)


if __name__ == "__main__":
    main()
