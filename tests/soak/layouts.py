"""What docs/formats.md and docs/layouts.md say of problems, written down anew with NumPy: which elements each device holds.

An array's elements are looked at as masks: booleans of the array's shape, one mask for each device of the world. Parts of a
sum are stacked: a dimension in front for each of their axes.
"""

import re

import numpy as np

CEIL, NESTED, BALANCED = "ceil", "nested", "balanced"


def split(begin, end, count, index, rule):
    """The piece of [begin, end) with this index among `count`."""
    size = end - begin
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


def tile(mesh, size, axes, rule, index):
    """The interval of a factor that the axes, minor to major, leave to the mesh's device with this index."""
    digits = [mesh.digit(part, index) for part in axes]
    if rule == NESTED:
        interval = (0, size)
        for digit, count in reversed(digits):
            interval = split(*interval, count, digit, rule)
        return interval
    coordinate = 0
    count = 1
    for digit, base in digits:
        coordinate += digit * count
        count *= base
    return split(0, size, count, coordinate, rule)


class End:
    """A problem's source or target."""

    def __init__(self, problem, side):
        self.shape = tuple(problem["shape"])
        self.boxes = problem.get(f"{side}_boxes")
        self.sum_axes = []
        if self.boxes is not None:
            self.device_count = len(self.boxes)
            return
        mesh = problem.get("mesh", {})
        self.mesh = Mesh(mesh if side == "src" else problem.get("dst_mesh", mesh))
        self.view = problem.get(f"{side}_view") or [[size] for size in self.shape]
        self.axes = problem[side]
        rule = problem.get("uneven", CEIL)
        self.rule = rule if isinstance(rule, str) else rule.get(side, CEIL)
        named = problem.get(f"{side}_sum", [])
        # In the mesh's order; along an axis of one device there is nothing to add up.
        self.sum_axes = [axis for axis, size in self.mesh.axes.items() if axis in named and size > 1]
        self.devices = problem.get(f"{side}_devices") or list(range(self.mesh.size))
        self.device_count = max(self.devices) + 1

    def masks(self, world):
        """By device, of the stacked array."""
        parts = tuple(self.mesh.axes[axis] for axis in self.sum_axes)
        masks = np.zeros((world, *parts, *self.shape), dtype=bool)
        if self.boxes is not None:
            for device, boxes in enumerate(self.boxes):
                for low, high in boxes:
                    masks[(device, *map(slice, low, high))] = True
            return masks
        for index, device in enumerate(self.devices):
            place = tuple(self.mesh.digit(axis, index)[0] for axis in self.sum_axes)
            masks[(device, *place)] = self.mask(index)
        return masks

    def mask(self, index):
        """Of the device with this index in the mesh."""
        whole = np.ones((), dtype=bool)
        axes = iter(self.axes)
        for factors in self.view:
            held = np.ones(1, dtype=bool)
            for size in factors:
                begin, end = tile(self.mesh, size, next(axes), self.rule, index)
                inside = np.zeros(size, dtype=bool)
                inside[begin:end] = True
                held = np.outer(held, inside).ravel()
            whole = np.multiply.outer(whole, held)
        return whole


class Ends:
    """Source and target of a problem, on one world."""

    def __init__(self, problem):
        self.source = End(problem, "src")
        self.target = End(problem, "dst")
        self.shape = self.source.shape
        self.world = max(self.source.device_count, self.target.device_count)
        self.reduce = problem.get("reduce", "sum")
        self.source_masks = self.source.masks(self.world)
        self.target_masks = self.target.masks(self.world)
        self.is_sum = bool(self.source.sum_axes or self.target.sum_axes)
        # Dimensions of the stacked source that the target does not have.
        self.reduced = tuple(i for i, axis in enumerate(self.source.sum_axes) if axis not in self.target.sum_axes)

    def floor(self):
        """The most elements that some device must receive; None for sums, whose floor is an argument of its own."""
        if self.is_sum:
            return None
        lacking = self.target_masks & ~self.source_masks
        return int(lacking.reshape(self.world, -1).sum(axis=1).max())


def most_held(masks):
    """Elements of the device that holds the most."""
    return int(masks.reshape(len(masks), -1).sum(axis=1).max())
