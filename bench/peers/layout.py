"""Problems as data: which box each device holds, and the values in it."""

import math

# Whole numbers below these are exact in their types.
VALUE_LIMITS = {"i8": 2**7, "f16": 2**11, "bf16": 2**8}


def device_count(problem):
    return math.prod(problem["mesh"].values())


def device_coordinates(mesh, device):
    """By axis name. Devices are numbered row-major over the mesh, its first axis slowest."""
    coordinates = {}
    for axis, size in reversed(mesh.items()):
        device, coordinates[axis] = divmod(device, size)
    return coordinates


def box_of(problem, layout, device):
    """The part of the array that a device holds, as slices. Axes of a dimension go from minor to major."""
    coordinates = device_coordinates(problem["mesh"], device)
    box = []
    for size, axes in zip(problem["shape"], layout, strict=True):
        tile_number, tiles = 0, 1
        for axis in axes:
            tile_number += coordinates[axis] * tiles
            tiles *= problem["mesh"][axis]
        tile = size // tiles
        box.append(slice(tile_number * tile, (tile_number + 1) * tile))
    return tuple(box)


def values_of(problem, box):
    """Made-up elements of a box, as whole numbers: those of neighbours differ, and an element's depends on its place
    in the whole array alone."""
    import numpy  # here, so that a peer whose packages are missing can say so

    shape = problem["shape"]
    place = numpy.zeros((), dtype=numpy.uint32)
    for dimension, part in enumerate(box):
        stride = math.prod(shape[dimension + 1 :]) % 2**32
        along = numpy.arange(part.start, part.stop, dtype=numpy.uint64).astype(numpy.uint32) * numpy.uint32(stride)
        place = place[..., None] + along
    mixed = place * numpy.uint32(2654435761) >> numpy.uint32(8)
    return mixed % numpy.uint32(VALUE_LIMITS.get(problem["dtype"], 2**24))
