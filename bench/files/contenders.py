"""The contenders of rechunk.py, each run in a process of its own: python contenders.py NAME SOURCE TARGET CHUNKS CAP."""

import itertools
import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import zarr


def open_target(source, target, chunks):
    """An empty array like the source, in other chunks."""
    return zarr.create_array(
        target, shape=source.shape, dtype=source.dtype, chunks=chunks, compressors=source.compressors, zarr_format=2
    )


def boxes(shape, extents):
    """Slices of blocks that cover an array."""
    ranges = [range(0, size, extent) for size, extent in zip(shape, extents, strict=True)]
    for corner in itertools.product(*ranges):
        yield tuple(slice(at, min(at + e, n)) for at, e, n in zip(corner, extents, shape, strict=True))


def regions(shape, chunks, element, cap):
    """Blocks of whole target chunks, along the last dimensions first, as large as a third of the cap."""
    region = list(chunks)
    for i in reversed(range(len(shape))):
        while region[i] < shape[i] and 2 * numpy.prod(region) * element < cap / 3:
            region[i] = min(2 * region[i], -(-shape[i] // chunks[i]) * chunks[i])
    return tuple(int(extent) for extent in region)


def loop(source_path, target_path, chunks, cap):
    """What a good engineer writes for one case: regions of target chunks, read as slices and written, on 2 threads."""
    source = zarr.open_array(source_path, mode="r")
    target = open_target(source, target_path, chunks)
    if source.compressors:

        def read(box):
            return source[box]

    else:
        # Chunk files are mapped, so that only what is wanted of them is read.
        counts = [-(-n // c) for n, c in zip(source.shape, source.chunks, strict=True)]
        files = {
            number: numpy.memmap(
                f"{source_path}/" + ".".join(map(str, number)), source.dtype, mode="r", shape=source.chunks
            )
            for number in itertools.product(*(range(count) for count in counts))
        }

        def read(box):
            out = numpy.empty([s.stop - s.start for s in box], source.dtype)
            spans = [range(s.start // c, (s.stop - 1) // c + 1) for s, c in zip(box, source.chunks, strict=True)]
            for number in itertools.product(*spans):
                low = [max(s.start, k * c) for s, k, c in zip(box, number, source.chunks, strict=True)]
                high = [min(s.stop, (k + 1) * c) for s, k, c in zip(box, number, source.chunks, strict=True)]
                inside = tuple(
                    slice(a - k * c, b - k * c) for a, b, k, c in zip(low, high, number, source.chunks, strict=True)
                )
                to = tuple(slice(a - s.start, b - s.start) for a, b, s in zip(low, high, box, strict=True))
                out[to] = files[number][inside]
            return out

    def move(box):
        target[box] = read(box)

    region = regions(source.shape, chunks, source.dtype.itemsize, cap / 2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(move, boxes(source.shape, region)))


def tensorstore(source_path, target_path, chunks, cap):
    import tensorstore as ts

    context = ts.Context({"cache_pool": {"total_bytes_limit": cap // 2}, "data_copy_concurrency": {"limit": 2}})
    open_zarr_array = zarr.open_array(source_path, mode="r")
    open_target(open_zarr_array, target_path, chunks)
    where = {"driver": "zarr", "kvstore": {"driver": "file", "path": source_path}}
    source = ts.open(where, context=context, open=True).result()
    where = {"driver": "zarr", "kvstore": {"driver": "file", "path": target_path}}
    target = ts.open(where, context=context, open=True).result()
    region = regions(source.shape, chunks, source.dtype.numpy_dtype.itemsize, cap)
    for box in boxes(source.shape, region):
        target[box].write(source[box]).result()


def dask(source_path, target_path, chunks, cap):
    import dask
    import dask.array

    source = dask.array.from_zarr(source_path)
    target = open_target(zarr.open_array(source_path, mode="r"), target_path, chunks)
    dask.config.set(scheduler="threads", num_workers=2)
    dask.array.store(source.rechunk(chunks), target, lock=False)


def cubed(source_path, target_path, chunks, cap):
    import cubed

    # Beside what it allows itself, it counts what a process has before it begins.
    spec = cubed.Spec(work_dir=f"{target_path}.work", allowed_mem=cap, reserved_mem=cap // 2)
    array = cubed.from_zarr(source_path, spec=spec).rechunk(chunks)
    cubed.to_zarr(array, target_path, executor=cubed.runtime.create.create_executor("threads"))
    shutil.rmtree(f"{target_path}.work", ignore_errors=True)


def rechunker(source_path, target_path, chunks, cap):
    """Needs zarr-python 2, so it has an environment of its own."""
    from rechunker import rechunk

    plan = rechunk(zarr.open_array(source_path, mode="r"), chunks, cap, target_path, temp_store=f"{target_path}.work")
    plan.execute(scheduler="threads", num_workers=2)
    shutil.rmtree(f"{target_path}.work", ignore_errors=True)


CONTENDERS = {"loop": loop, "tensorstore": tensorstore, "dask": dask, "cubed": cubed, "rechunker": rechunker}

if __name__ == "__main__":
    name, source_path, target_path, chunks, cap = sys.argv[1:]
    CONTENDERS[name](source_path, target_path, tuple(json.loads(chunks)), int(cap))
