"""Random problems of every kind, small enough to look at every element on every device."""

import numpy as np
from layouts import BALANCED, CEIL, LAST, NESTED, End

MOST_DEVICES = 16
MOST_ELEMENTS = 4096
DTYPES = {
    "bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f8e4m3fn": 1, "f8e5m2": 1,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
}  # and their bytes  # fmt: skip
MOVED_ALONE = {"bool", "f8e4m3fn", "f8e5m2"}  # no sums are taken of them


def choose(random, options):
    return options[int(random.integers(len(options)))]


def draw_mesh(random, names="xyzw", most=MOST_DEVICES):
    mesh = {}
    devices = 1
    for name in names[: int(random.integers(1, len(names) + 1))]:
        size = int(choose(random, [1, 2, 2, 2, 3, 4, 4, 5, 6, 8]))
        if devices * size <= most:
            mesh[name] = size
            devices *= size
    return mesh or {names[0]: 2}


def parts_of(random, mesh):
    """The axes, some of them in two parts: names and sizes."""
    parts = []
    for name, size in mesh.items():
        major = next((p for p in (2, 3) if size % p == 0 and size > p), None)
        if major is not None and random.random() < 0.3:
            parts += [(f"{name}:(1){major}", major), (f"{name}:({major}){size // major}", size // major)]
        else:
            parts.append((name, size))
    return parts


def draw_cuts(random, mesh, places, without=()):
    """A list of axes, minor to major, for each of so many places; axes may be left out."""
    parts = [part for part in parts_of(random, mesh) if part[0].split(":")[0] not in without]
    random.shuffle(parts)
    cuts = [[] for _ in range(places)]
    for name, _ in parts:
        if places and random.random() < 0.75:
            cuts[int(random.integers(places))].append(name)
    return cuts


def size_of_part(mesh, part):
    name, _, rest = part.partition(":(")
    return int(rest.split(")")[1]) if rest else mesh[name]


def tiles(mesh, axes):
    return int(np.prod([size_of_part(mesh, axis) for axis in axes], dtype=np.int64))


def even_shape(random, meshes_and_cuts, rank):
    """Sizes that all cuts divide."""
    shape = []
    for i in range(rank):
        size = int(choose(random, [1, 1, 2, 3]))
        size *= int(np.lcm.reduce([tiles(mesh, cuts[i]) for mesh, cuts in meshes_and_cuts]))
        shape.append(size)
    return shape


def is_small(problem):
    return 0 < np.prod(problem["shape"], dtype=np.int64) <= MOST_ELEMENTS


def draw_even(random):
    mesh, rank = draw_mesh(random), int(random.integers(1, 4))
    source, target = draw_cuts(random, mesh, rank), draw_cuts(random, mesh, rank)
    return {
        "mesh": mesh,
        "shape": even_shape(random, [(mesh, source), (mesh, target)], rank),
        "src": source,
        "dst": target,
    }


def draw_uneven(random):
    mesh, rank = draw_mesh(random), int(random.integers(1, 4))
    shape = [int(random.integers(0 if random.random() < 0.05 else 1, 14)) for _ in range(rank)]
    rules = [CEIL, NESTED, BALANCED, LAST]
    problem = {"mesh": mesh, "shape": shape, "src": draw_cuts(random, mesh, rank), "dst": draw_cuts(random, mesh, rank)}
    if random.random() < 0.7:
        problem["uneven"] = choose(random, [*rules, {"src": choose(random, rules), "dst": choose(random, rules)}])
    return problem


def draw_view(random):
    """Dimensions as factors, perhaps other ones at each end; strided and cyclic layouts are among them."""
    mesh, rank = draw_mesh(random), int(random.integers(1, 3))
    shape = [int(choose(random, [4, 6, 8, 12, 16, 24])) for _ in range(rank)]
    problem = {"mesh": mesh, "shape": shape}
    for side in ("src", "dst"):
        view = [draw_factors(random, size) for size in shape]
        problem[side] = draw_cuts(random, mesh, sum(map(len, view)))
        if any(len(factors) > 1 for factors in view) or random.random() < 0.2:
            problem[f"{side}_view"] = view
    if random.random() < 0.2:
        summed = choose(random, list(mesh))
        problem["src"] = [[axis for axis in axes if axis.split(":")[0] != summed] for axes in problem["src"]]
        problem["src_sum"] = [summed]
    if random.random() < 0.2:
        problem["uneven"] = choose(random, [CEIL, NESTED, BALANCED])
    return problem


def draw_factors(random, size):
    factors = []
    while size > 1 and random.random() < 0.6:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        factors.append(int(choose(random, divisors)))
        size //= factors[-1]
    return [*factors, size]


def draw_cyclic(random):
    """Block-cyclic over a grid of processes, to other blocks: rounds x processes x block."""
    mesh = draw_mesh(random, "xy", 8)
    names = list(mesh)
    blocks = [int(choose(random, [1, 2, 3])) for _ in range(2)]
    shape, problem = [], {"mesh": mesh}
    for i in range(2):
        count = mesh[names[i]] if i < len(names) else 1
        shape.append(int(choose(random, [1, 2, 3])) * count * blocks[0] * blocks[1])
    problem["shape"] = shape
    for side, block in zip(("src", "dst"), blocks, strict=True):
        view, cuts = [], []
        for i in range(2):
            count = mesh[names[i]] if i < len(names) else 1
            view.append([shape[i] // (count * block), count, block])
            cuts += [[], [names[i]] if i < len(names) else [], []]
        problem[side], problem[f"{side}_view"] = cuts, view
    return problem


def draw_form(random):
    """Blocks dealt out in turn and listed tiles, with ghost zones, and other orders in memory."""
    mesh, rank = draw_mesh(random, "xyz", 8), int(random.integers(1, 4))
    problem = {"mesh": mesh, "shape": [int(random.integers(1, 14)) for _ in range(rank)]}
    if random.random() < 0.4:
        problem["uneven"] = choose(random, [CEIL, NESTED, BALANCED, LAST])
    for side in ("src", "dst"):
        problem[side] = draw_cuts(random, mesh, rank)
        counts = [tiles(mesh, axes) for axes in problem[side]]
        kinds = [choose(random, ["cyclic", "cyclic", "tiles", "rule"]) for _ in range(rank)]
        blocks, lists = [None] * rank, [None] * rank
        for i, (count, kind) in enumerate(zip(counts, kinds, strict=True)):
            if kind == "cyclic":
                block, first = int(random.integers(1, 5)), int(random.integers(count))
                blocks[i] = block if first == 0 else [block, first]
            if kind == "tiles":
                lists[i] = np.bincount(random.integers(count, size=problem["shape"][i]), minlength=count).tolist()
        if "cyclic" in kinds:
            problem[f"{side}_cyclic"] = blocks
        if "tiles" in kinds:
            problem[f"{side}_tiles"] = lists
        if random.random() < 0.3:
            problem[f"{side}_order"] = random.permutation(rank).tolist()
    for side, chance in (("src", 0.3), ("dst", 0.7)):
        if random.random() < chance:
            draw_halo(random, problem, side)
    return problem


def draw_halo(random, problem, side):
    """Ghost zones around the tiles of one side, where these are one interval."""
    end = End(problem, side)
    halo, wraps = [], []
    for i, size in enumerate(problem["shape"]):
        most = max(int(end.held(index)[i].sum()) for index in range(end.mesh.size))
        wrap = bool(random.random() < 0.5)
        room = size if most == size or not wrap else (size - most) // 2
        width = [int(random.integers(0, min(3, room) + 1)) for _ in range(2)]
        halo.append([0, 0] if end.cyclic[i] is not None or random.random() < 0.3 else width)
        wraps.append(wrap)
    problem[f"{side}_halo"] = halo
    if any(wraps):
        problem[f"{side}_wrap"] = wraps


def draw_sum(random):
    mesh, rank = draw_mesh(random), int(random.integers(0, 3))
    axes = list(mesh)
    random.shuffle(axes)
    summed = axes[: int(random.integers(1, len(axes) + 1))]
    kept = [axis for axis in summed if random.random() < 0.2]
    source, target = draw_cuts(random, mesh, rank, summed), draw_cuts(random, mesh, rank, kept)
    shape = even_shape(random, [(mesh, source), (mesh, target)], rank)
    if random.random() < 0.3:
        shape = [size + int(random.integers(0, 3)) for size in shape]
    problem = {"mesh": mesh, "shape": shape, "src": source, "dst": target, "src_sum": summed}
    if kept:
        problem["dst_sum"] = kept
    if random.random() < 0.4:
        problem["reduce"] = choose(random, ["sum", "max", "min"])
    return problem


def draw_meshes(random):
    """Another mesh at the target, other orders of devices, or some devices of the world alone."""
    mesh, other, rank = draw_mesh(random), draw_mesh(random, "abc"), int(random.integers(1, 4))
    source, target = draw_cuts(random, mesh, rank), draw_cuts(random, other, rank)
    problem = {"mesh": mesh, "dst_mesh": other, "src": source, "dst": target}
    problem["shape"] = even_shape(random, [(mesh, source), (other, target)], rank)
    if random.random() < 0.3:
        problem["shape"] = [int(random.integers(1, 12)) for _ in range(rank)]
    for side, one in (("src", mesh), ("dst", other)):
        if random.random() < 0.5:
            devices = tiles(one, one)
            world = devices + int(random.integers(0, 4))
            problem[f"{side}_devices"] = [int(d) for d in random.permutation(world)[:devices]]
    return problem


def draw_boxes(random):
    """Listed at one end or both, for every device of the world."""
    rank, world = int(random.integers(1, 3)), int(random.integers(1, 7))
    shape = [int(random.integers(1, 12)) for _ in range(rank)]
    problem = {"shape": shape, "src_boxes": draw_listed(random, shape, world)}
    if random.random() < 0.5:
        problem["dst_boxes"] = draw_listed(random, shape, world)
    else:
        mesh = draw_mesh(random, "xyz", world) if world > 1 else {"x": 1}
        if tiles(mesh, mesh) > world:
            mesh = {"x": world}
        problem["mesh"] = mesh
        problem["dst"] = draw_cuts(random, mesh, rank)
        problem["dst_devices"] = [int(d) for d in random.permutation(world)[: tiles(mesh, mesh)]]
    return problem


def draw_listed(random, shape, world):
    """The array cut into a grid at random places; every box has a holder or several."""
    boxes = [[] for _ in range(world)]
    cuts = [sorted({0, size, *map(int, random.integers(0, size + 1, size=2))}) for size in shape]
    for cell in np.ndindex(*[len(cut) - 1 for cut in cuts]):
        low = [cut[i] for cut, i in zip(cuts, cell, strict=True)]
        high = [cut[i + 1] for cut, i in zip(cuts, cell, strict=True)]
        for device in random.permutation(world)[: int(random.integers(1, 3))]:
            boxes[int(device)].append([low, high])
    return boxes


KINDS = {
    "even": draw_even,
    "uneven": draw_uneven,
    "view": draw_view,
    "cyclic": draw_cyclic,
    "form": draw_form,
    "sum": draw_sum,
    "meshes": draw_meshes,
    "boxes": draw_boxes,
}


def draw_problem(random, kinds=tuple(KINDS)):
    while True:
        kind = choose(random, kinds)
        problem = {"id": kind, **KINDS[kind](random)}
        problem["dtype"] = choose(random, list(DTYPES))
        has_no_order = problem.get("reduce") in ("max", "min") and problem["dtype"] in ("c64", "c128")
        if has_no_order or ("src_sum" in problem and problem["dtype"] in MOVED_ALONE):
            problem["dtype"] = "f32"
        if is_small(problem) or 0 in problem["shape"]:
            return problem
