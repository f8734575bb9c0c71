#!/usr/bin/env python3
"""Random redistributions through the C interface, on the ranks of an MPI job and against NumPy: several runs at once, in
memory of the ranks' own, packed and strided, and in the engine's.

    mpirun -n 4 tests/soak/ranks.py build/release/libretile_c_mpi.so --seconds 60

Every rank draws the same problems. What each device holds is worked out anew here: lists of indices, dimension by dimension.
"""

import argparse
import ctypes
import sys
import time

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy (Debian's python3-numpy)")
    sys.exit(77)

ELEMENTS = {"u8": np.uint8, "i16": np.int16, "f32": np.float32, "f64": np.float64, "c128": np.complex128}


class Memory(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("offsets", ctypes.c_void_p), ("strides", ctypes.c_void_p)]


class Library:
    """The functions of retile/c.h. Handles are freed with their owners, all ranks alike."""

    def __init__(self, path):
        self.mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)  # Open MPI's
        self.mpi.MPI_Init(None, None)
        self.retile = ctypes.CDLL(path)
        self.retile.retile_error_message.restype = ctypes.c_char_p
        numbers = (ctypes.c_int(), ctypes.c_int())
        world = ctypes.byref(ctypes.c_byte.in_dll(self.mpi, "ompi_mpi_comm_world"))
        self.mpi.MPI_Comm_rank(world, ctypes.byref(numbers[0]))
        self.mpi.MPI_Comm_size(world, ctypes.byref(numbers[1]))
        self.rank, self.size = (number.value for number in numbers)
        self.engine = self.make("retile_engine_mpi_fortran", 0)  # MPI_COMM_WORLD

    def call(self, name, *arguments):
        if getattr(self.retile, name)(*arguments) != 0:
            raise ValueError(self.retile.retile_error_message().decode())

    def make(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def free(self, kind, handle):
        getattr(self.retile, f"retile_{kind}_free")(handle)

    def end(self):
        self.free("engine", self.engine)
        self.mpi.MPI_Finalize()


# ---- Layouts: their text, and by device the lists of indices that its tile has.


def intervals(random, size, count):
    """Neighbouring intervals, and the text of their cut by the axis that is to be filled in; the rule of the layout."""
    kind = random.integers(3)
    if kind == 0:
        tile = -(-size // count)
        return [(min(i * tile, size), min((i + 1) * tile, size)) for i in range(count)], f"{tile}{{AXIS}}{size}", ""
    if kind == 1:
        sizes = [size // count + (i < size % count) for i in range(count)]
        ends = np.cumsum([0, *sizes])
        return list(zip(ends[:-1], ends[1:], strict=True)), f"{-(-size // count)}{{AXIS}}{size}", " balanced"
    ends = np.sort(random.integers(0, size + 1, count - 1))
    ends = [0, *map(int, ends), size]
    sizes = [b - a for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return list(zip(ends[:-1], ends[1:], strict=True)), f"({','.join(map(str, sizes))}){{AXIS}}{size}", ""


def draw_dimension(random, size, count, is_target):
    """What each coordinate along an axis holds of a dimension, the text, and the layout's rule.

    Ghost zones of sources have index -1: what is in them is that of another element.
    """
    if random.integers(3) == 0:
        block = int(random.integers(1, size + 2))
        first = int(random.integers(count))
        held = [np.flatnonzero((np.arange(size) // block + first) % count == i) for i in range(count)]
        return held, f"{size} cyclic {block}{{AXIS}}" + (f" from {first}" if first else ""), ""
    bounds, text, rule = intervals(random, size, count)
    if random.integers(2 if is_target else 4) > 0:
        return [np.arange(a, b) for a, b in bounds], text, rule
    before, after = (int(width) for width in random.integers(0, 3, 2))
    wraps = bool(random.integers(2))
    held = []
    for a, b in bounds:
        wide = np.arange(a - before, b + after) if a < b else np.arange(0)
        own = (wide >= a) & (wide < b)
        kept = (wide >= 0) & (wide < size) | wraps
        held.append(np.where(own | is_target, wide % size, -1)[kept])
    return held, f"{text} halo ({before},{after})" + (" wrap" if wraps else ""), rule


def draw_cut(random, shape, mesh, is_target):
    axes = list(mesh)
    random.shuffle(axes)
    cuts = [axes.pop() if axes and random.integers(3) else None for _ in shape]
    texts, helds, rule = [], [], ""
    for size, axis in zip(shape, cuts, strict=True):
        held, text, wanted = [np.arange(size)], str(size), ""
        if axis is not None:
            held, text, wanted = draw_dimension(random, size, mesh[axis], is_target)
            while wanted and rule != wanted and any(cuts[: len(texts)]):  # a layout has one rule
                held, text, wanted = draw_dimension(random, size, mesh[axis], is_target)
        rule = rule or wanted
        if (
            rule
            and axis is not None
            and not wanted
            and "{AXIS}" in text
            and text[0] not in "("
            and "cyclic" not in text
        ):
            return draw_cut(random, shape, mesh, is_target)
        texts.append(text.replace("AXIS", axis or ""))
        helds.append(held)
    devices = []
    for coordinates in np.ndindex(*mesh.values()):
        place = dict(zip(mesh, coordinates, strict=True))
        devices.append([held[place[axis] if axis else 0] for held, axis in zip(helds, cuts, strict=True)])
    order = list(range(len(shape)))
    text = f"[{', '.join(texts)}]"
    if is_target and len(shape) > 1 and random.integers(4) == 0:
        random.shuffle(order)
        text += f" order [{', '.join(map(str, order))}]"
    return text + rule, devices, order


def draw_boxes(random, shape, count):
    """Slabs of the first dimension, listed for any devices: each device's one after the other."""
    ends = [0, *sorted(set(map(int, random.integers(1, shape[0] + 1, 3)))), shape[0]]
    slabs = [(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True) if a < b]
    owners = [int(owner) for owner in random.integers(0, count, len(slabs))]
    rest = "".join(f", 0:{size}" for size in shape[1:])
    lists = [[slab for slab, owner in zip(slabs, owners, strict=True) if owner == i] for i in range(count)]
    text = "; ".join(" ".join(f"[{a}:{b}{rest}]" for a, b in boxes) for boxes in lists)
    rows = [np.concatenate([np.arange(0), *(np.arange(a, b) for a, b in boxes)]).astype(int) for boxes in lists]
    devices = [[one, *(np.arange(size) for size in shape[1:])] for one in rows]
    return f"[{', '.join(map(str, shape))}] boxes {{{text}}}", devices, list(range(len(shape)))


def draw_mesh(random, size):
    first = int(random.choice([i for i in range(1, size + 1) if size % i == 0]))
    return {"a": first, "b": size // first}


# ---- Fields: an array under way.


class Side:
    """The tile of this rank in memory: packed in an order of dimensions, or with strides that are drawn."""

    def __init__(self, library, random, indices, order, element, may_stride):
        self.library = library
        self.shape = tuple(len(one) for one in indices)
        self.memory = None
        item = np.dtype(element).itemsize
        lies = list(order)
        padding = [0] * len(self.shape)
        if may_stride and random.integers(2):
            random.shuffle(lies)
            padding = [int(width) for width in random.integers(0, 3, len(self.shape))]
        allocated = [self.shape[i] + padding[i] for i in lies]
        self.engine_memory = ctypes.c_void_p()
        if random.integers(3) == 0:
            self.whole = self.allocate(allocated, element)
        else:
            self.whole = np.zeros(allocated, element)
        self.view = self.whole[tuple(slice(0, self.shape[i]) for i in lies)].transpose(np.argsort(lies))
        if may_stride:
            strides = [item] * len(self.shape)
            for above, below in zip(lies[-2::-1], lies[:0:-1], strict=True):
                strides[above] = strides[below] * max(1, self.shape[below] + padding[below])
            self.strides = (ctypes.c_int64 * len(strides))(*strides)
            self.memory = Memory(1, None, ctypes.addressof(self.strides))

    def allocate(self, shape, element):
        """An array in memory of the engine's."""
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(element).itemsize
        size = ctypes.c_size_t(count)
        self.library.call("retile_engine_allocate", self.library.engine, size, ctypes.byref(self.engine_memory))
        memory = (ctypes.c_byte * count).from_address(self.engine_memory.value)
        return np.frombuffer(memory, element).reshape(shape)

    def release(self):
        self.library.call("retile_engine_release", self.library.engine, self.engine_memory)

    def pointer(self):
        return (ctypes.c_void_p * 1)(self.whole.ctypes.data)


class Field:
    def __init__(self, library, random, own):
        self.library = library
        mesh = draw_mesh(random, library.size)
        shape = [int(size) for size in random.choice([1, 2, 3, 5, 8, 13, 30], random.integers(1, 4))]
        if random.integers(12) == 0:
            shape[-1] *= 1000  # long rows, of several messages
        name = str(random.choice(list(ELEMENTS)))
        ends = []
        for is_target in (False, True):
            is_listed = random.integers(5) == 0
            ends.append(
                draw_boxes(random, shape, library.size) if is_listed else draw_cut(random, shape, mesh, is_target)
            )
        self.words = f"{mesh} {name} {ends[0][0]} -> {ends[1][0]}"
        self.indices = [devices[library.rank] for _, devices, _ in ends]
        count = int(np.prod(shape))
        self.array = (np.arange(count) % 251).astype(ELEMENTS[name]).reshape(shape)
        strided = [bool(random.integers(2)) and "boxes" not in text for text, _, _ in ends]
        self.sides = [
            Side(library, own, indices, order, ELEMENTS[name], may_stride)
            for indices, (_, _, order), may_stride in zip(self.indices, ends, strided, strict=True)
        ]
        text = ",".join(f"{axis}={size}" for axis, size in mesh.items()).encode()
        made = library.make("retile_mesh_parse", text)
        layouts = [library.make("retile_layout_parse", made, end[0].encode()) for end in ends]
        plan = library.make("retile_plan_create", *layouts, name.encode(), None)
        memory = [None if side.memory is None else ctypes.byref(side.memory) for side in self.sides]
        self.run = library.make("retile_run_create", plan, library.engine, *memory)
        for kind, handle in [("plan", plan), ("layout", layouts[0]), ("layout", layouts[1]), ("mesh", made)]:
            library.free(kind, handle)

    def fill(self, turn):
        source, target = self.sides
        source.whole[...] = 77
        source.view[...] = (self.array + turn)[np.ix_(*self.indices[0])]
        target.whole[...] = 99
        self.turn = turn

    def start(self, name):
        self.library.call(name, self.run, self.sides[0].pointer(), self.sides[1].pointer())

    def check(self):
        target = self.sides[1]
        if not np.array_equal(target.view, (self.array + self.turn)[np.ix_(*self.indices[1])]):
            raise ValueError("elements are wrong")
        target.view[...] = 99
        if not np.all(target.whole == 99):
            raise ValueError("something beside the target's elements was written")


def run_case(library, seed, number, counts):
    random = np.random.default_rng([seed, number])
    own = np.random.default_rng([seed, number, library.rank])
    fields = []
    try:
        for _ in range(3):
            try:
                fields.append(Field(library, random, own))
            except ValueError as refusal:
                if "halo" not in str(refusal):  # wraps round too often, or meets a layout that has none
                    raise
                counts["refused"] += 1
        for turn in range(3):
            for field in fields:
                field.fill(turn)
            if turn == 0:
                for field in fields:
                    field.start("retile_run_execute")
            else:
                for field in fields:
                    field.start("retile_run_start")
                for i in own.permutation(len(fields)):
                    library.call("retile_run_wait", fields[i].run)
            for field in fields:
                field.check()
        counts["problems"] += len(fields)
        counts["executions"] += 3 * len(fields)
    except Exception as failure:
        print(f"FAILED rank {library.rank}, --seed {seed} --first {number}: {failure}", file=sys.stderr)
        for field in fields:
            print(f"  {field.words}", file=sys.stderr, flush=True)
        library.mpi.MPI_Abort(ctypes.byref(ctypes.c_byte.in_dll(library.mpi, "ompi_mpi_comm_world")), 1)
    for field in fields:
        library.free("run", field.run)
        for side in field.sides:
            side.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libretile_c_mpi.so")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--cases", type=int, default=1 << 40, help="end after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    options = parser.parse_args()
    library = Library(options.library)
    counts = {"problems": 0, "executions": 0, "refused": 0}
    begin = time.monotonic()
    number = options.first
    is_over = ctypes.c_int(0)
    world = ctypes.byref(ctypes.c_byte.in_dll(library.mpi, "ompi_mpi_comm_world"))
    integer = ctypes.byref(ctypes.c_byte.in_dll(library.mpi, "ompi_mpi_int"))
    while not is_over.value and number - options.first < options.cases:
        run_case(library, options.seed, number, counts)
        number += 1
        is_over.value = time.monotonic() - begin > options.seconds
        library.mpi.MPI_Bcast(ctypes.byref(is_over), 1, integer, 0, world)
    if library.rank == 0:
        words = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        print(f"{library.size} ranks, seed {options.seed}: {number - options.first:,} cases, {words}")
    library.end()


if __name__ == "__main__":
    main()
