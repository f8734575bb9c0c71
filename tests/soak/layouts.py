"""What docs/formats.md and docs/layouts.md say of problems, written down anew with NumPy: which elements each device holds.

An array's elements are looked at as masks: booleans of the array's shape, one mask for each device of the world. Parts of a
sum are stacked: a dimension in front for each of their axes. Where the target's halo wraps, the array that is moved goes on
beyond its ends (`margins`): there, its elements are there once more.
"""

import re

import numpy as np

CEIL, NESTED, BALANCED, LAST = "ceil", "nested", "balanced", "last"


def split(begin, end, count, index, rule):
    """The piece of [begin, end) with this index among `count`."""
    size = end - begin
    if rule == LAST:
        shorter = count - size % count
        first = index * (size // count) + max(0, index - shorter)
        return begin + first, begin + first + size // count + (index >= shorter)
    if rule == BALANCED:
        longer = size % count
        first = index * (size // count) + min(index, longer)
        return begin + first, begin + first + size // count + (index < longer)
    tile = -(-size // count)
    return min(begin + index * tile, end), min(begin + (index + 1) * tile, end)


class Mesh:
    """Named axes; devices are numbered row-major, the first axis slowest."""

    def __init__(self, axes):
        self.axes = dict(axes)
        self.size = int(np.prod(list(self.axes.values()), dtype=np.int64))

    def digit(self, part, index):
        """The device's coordinate along an axis or a part of one, `x:(p)k`, and its size."""
        name, major, size = re.fullmatch(r"(\w+)(?::\((\d+)\)(\d+))?", part).groups()
        coordinates = np.unravel_index(index, tuple(self.axes.values())) if self.axes else ()
        coordinate = int(coordinates[list(self.axes).index(name)])
        if major is None:
            return coordinate, self.axes[name]
        below = self.axes[name] // (int(major) * int(size))
        return coordinate // below % int(size), int(size)


def coordinate_along(mesh, axes, index):
    """The device's coordinate along the axes together, minor to major, and how many there are."""
    coordinate = 0
    count = 1
    for digit, base in (mesh.digit(part, index) for part in axes):
        coordinate += digit * count
        count *= base
    return coordinate, count


def tile(mesh, size, axes, rule, index):
    """The interval of a factor that the axes, minor to major, leave to the mesh's device with this index."""
    if rule == NESTED:
        interval = (0, size)
        for digit, count in reversed([mesh.digit(part, index) for part in axes]):
            interval = split(*interval, count, digit, rule)
        return interval
    coordinate, count = coordinate_along(mesh, axes, index)
    return split(0, size, count, coordinate, rule)


def beyond(size, margin):
    """The elements of a dimension that goes on beyond its ends."""
    return np.arange(-margin[0], size + margin[1]) % size


def grown(held, halo, wraps):
    """What a tile and its ghost zones hold of a dimension; where they wrap, of the dimension that goes on."""
    before, after = halo
    size = len(held)
    longer = np.zeros(size + before + after, dtype=bool)
    if held.any():
        low, high = np.flatnonzero(held)[[0, -1]]
        longer[low : high + 1 + before + after] = True
    return longer if wraps else longer[before : before + size]


class End:
    """A problem's source or target."""

    def __init__(self, problem, side):
        self.is_source = side == "src"
        self.shape = tuple(problem["shape"])
        rank = len(self.shape)
        self.boxes = problem.get(f"{side}_boxes")
        self.halo = problem.get(f"{side}_halo") or [[0, 0]] * rank
        self.wrap = problem.get(f"{side}_wrap") or [False] * rank
        self.sum_axes = []
        if self.boxes is not None:
            self.device_count = len(self.boxes)
            return
        mesh = problem.get("mesh", {})
        self.mesh = Mesh(mesh if side == "src" else problem.get("dst_mesh", mesh))
        self.view = problem.get(f"{side}_view") or [[size] for size in self.shape]
        self.cyclic = problem.get(f"{side}_cyclic") or [None] * rank
        self.tiles = problem.get(f"{side}_tiles") or [None] * rank
        self.axes = problem[side]
        rule = problem.get("uneven", CEIL)
        self.rule = rule if isinstance(rule, str) else rule.get(side, CEIL)
        named = problem.get(f"{side}_sum", [])
        # In the mesh's order; along an axis of one device there is nothing to add up.
        self.sum_axes = [axis for axis, size in self.mesh.axes.items() if axis in named and size > 1]
        self.devices = problem.get(f"{side}_devices") or list(range(self.mesh.size))
        self.device_count = max(self.devices) + 1

    def margins(self):
        """By dimension, how far the array that is moved goes on beyond its ends."""
        return [tuple(halo) if wraps else (0, 0) for halo, wraps in zip(self.halo, self.wrap, strict=True)]

    def masks(self, world, margins):
        """By device, of the stacked array."""
        parts = tuple(self.mesh.axes[axis] for axis in self.sum_axes)
        shape = [size + sum(margin) for size, margin in zip(self.shape, margins, strict=True)]
        masks = np.zeros((world, *parts, *shape), dtype=bool)
        self.sizes = np.zeros(world, dtype=np.int64)  # elements of memory
        if self.boxes is not None:
            for device, boxes in enumerate(self.boxes):
                for low, high in boxes:
                    held = [np.arange(n) >= a for n, a in zip(self.shape, low, strict=True)]
                    held = [one & (np.arange(len(one)) < b) for one, b in zip(held, high, strict=True)]
                    masks[device] |= self.mask(held, margins, device)
            return masks
        for index, device in enumerate(self.devices):
            place = tuple(self.mesh.digit(axis, index)[0] for axis in self.sum_axes)
            masks[(device, *place)] = self.mask(self.held(index), margins, device)
        return masks

    def mask(self, held, margins, device):
        """Of a tile, by what it holds of each dimension."""
        whole = np.ones((), dtype=bool)
        elements = 1
        for i, one in enumerate(held):
            has_halo = any(self.halo[i])
            whole_tile = grown(one, self.halo[i], self.wrap[i]) if has_halo else one
            elements *= int(whole_tile.sum())
            if has_halo and not self.is_source:  # ghost zones of a source are not read
                one = whole_tile
            elif any(margins[i]):
                one = one[beyond(self.shape[i], margins[i])]
            whole = np.multiply.outer(whole, one)
        self.sizes[device] += elements
        return whole

    def held(self, index):
        """What the device with this index in the mesh holds of each dimension, without ghost zones."""
        dimensions = []
        axes = iter(self.axes)
        for i, factors in enumerate(self.view):
            held = np.ones(1, dtype=bool)
            for size in factors:
                held = np.outer(held, self.held_of_factor(i, size, next(axes), index)).ravel()
            dimensions.append(held)
        return dimensions

    def held_of_factor(self, dimension, size, axes, index):
        coordinate, count = coordinate_along(self.mesh, axes, index)
        if self.cyclic[dimension] is not None:
            dealt = self.cyclic[dimension]
            block, first = dealt if isinstance(dealt, list) else (dealt, 0)
            return (np.arange(size) // block + first) % count == coordinate
        if self.tiles[dimension] is not None:
            ends = np.cumsum([0, *self.tiles[dimension]])
            begin, end = ends[coordinate], ends[coordinate + 1]
        else:
            begin, end = tile(self.mesh, size, axes, self.rule, index)
        return (np.arange(size) >= begin) & (np.arange(size) < end)


class Ends:
    """Source and target of a problem, on one world."""

    def __init__(self, problem):
        self.source = End(problem, "src")
        self.target = End(problem, "dst")
        self.shape = self.source.shape
        self.world = max(self.source.device_count, self.target.device_count)
        self.reduce = problem.get("reduce", "sum")
        self.margins = self.target.margins()
        self.source_masks = self.source.masks(self.world, self.margins)
        self.target_masks = self.target.masks(self.world, self.margins)
        self.is_sum = bool(self.source.sum_axes or self.target.sum_axes)
        # Dimensions of the stacked source that the target does not have.
        self.reduced = tuple(i for i, axis in enumerate(self.source.sum_axes) if axis not in self.target.sum_axes)

    def moved(self, array):
        """An array as it goes on beyond its ends, without the dimensions of a sum."""
        for i, (size, margin) in enumerate(zip(self.shape, self.margins, strict=True)):
            if any(margin):
                array = array.take(beyond(size, margin), axis=i)
        return array

    def floor(self):
        """The most elements that some device must receive; None for sums, whose floor is an argument of its own."""
        if self.is_sum:
            return None
        lacking = self.target_masks & ~self.source_masks
        numbers = self.moved(np.arange(int(np.prod(self.shape, dtype=np.int64))).reshape(self.shape))
        return max(len(np.unique(numbers[one])) for one in lacking)


def most_held(masks):
    """Elements of the device that holds the most."""
    return int(masks.reshape(len(masks), -1).sum(axis=1).max())
