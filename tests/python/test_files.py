"""Stores that retile writes, read by zarr-python bit by bit, and the other way round."""

import numpy
import pytest

import retile

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
random_stores = pytest.importorskip("random_stores")

CAP = 4 << 30  # of the whole process, in which other tests have loaded frameworks
SHAPE = (37, 22, 15)
CODECS_3 = {
    "none": None,
    "zstd": zarr.codecs.ZstdCodec(level=3),
    "gzip": zarr.codecs.GzipCodec(level=1),
    "blosc": zarr.codecs.BloscCodec(cname="lz4", clevel=5),
    "bitshuffle": zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
    "crc32c": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()],
}
CODECS_2 = {
    "none": None,
    "blosc": numcodecs.Blosc("zstd", 3),
    "zstd": numcodecs.Zstd(),
    "lz4": numcodecs.LZ4(),
    "zlib": numcodecs.Zlib(),
    "gzip": numcodecs.GZip(),
}
TYPES = ["<f4", ">f8", "<i2", "|u1", "|b1", "<c8", "<f2", ">i4", "<u8"]


def made_array(dtype, shape=SHAPE):
    values = numpy.random.default_rng(3).integers(0, 2 if dtype == "|b1" else 100, shape)
    return values.astype(dtype)


def same(path, array):
    """Whether the array at the path has the same bits."""
    read = zarr.open_array(path, mode="r")
    return read.shape == array.shape and read[...].astype(array.dtype).tobytes() == array.tobytes()


@pytest.mark.parametrize("codec", CODECS_3)
@pytest.mark.parametrize("chunks", [(10, 22, 4), (37, 1, 15), (5, 5, 5)])
def test_zarr3_of_every_codec(tmp_path, codec, chunks):
    array = made_array("<f4")
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    zarr.create_array(
        source, data=array, chunks=(8, 9, 15), compressors=CODECS_3[codec], dimension_names=("t", "y", "x")
    )
    retile.rechunk(source, target, chunks=chunks, max_bytes=CAP, verify=True)
    assert same(target, array)
    written = zarr.open_array(target, mode="r")
    assert written.chunks == chunks
    assert written.metadata.dimension_names == ("t", "y", "x")
    assert written.compressors == zarr.open_array(source, mode="r").compressors


@pytest.mark.parametrize("codec", CODECS_2)
@pytest.mark.parametrize("order", ["C", "F"])
def test_zarr2_of_every_codec(tmp_path, codec, order):
    array = made_array("<f4")
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    filters = [numcodecs.Shuffle(4)] if codec == "zlib" else None
    stored = zarr.create_array(
        source, shape=SHAPE, dtype="f4", chunks=(8, 9, 15), compressors=CODECS_2[codec], filters=filters, order=order,
        zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["t", "y", "x"]},
    )  # fmt: skip
    stored[...] = array
    retile.rechunk(source, target, chunks={"t": 37, "x": 4}, max_bytes=CAP, verify=True)
    assert same(target, array)
    written = zarr.open_array(target, mode="r")
    assert written.chunks == (37, 9, 4)
    assert written.attrs["_ARRAY_DIMENSIONS"] == ["t", "y", "x"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("version", [2, 3])
def test_types_and_byte_orders(tmp_path, dtype, version):
    array = made_array(dtype)
    source, target, other, file = (tmp_path / name for name in ("a.zarr", "b.zarr", "c.zarr", "d.npy"))
    zarr.create_array(source, data=array, chunks=(8, 9, 15), zarr_format=version)
    retile.rechunk(source, target, chunks=(7, 7, 7), max_bytes=CAP)
    assert same(target, array)
    retile.rechunk(target, other, chunks=(20, 3, 15), max_bytes=CAP, format=f"zarr{5 - version}", codec="zstd")
    assert same(other, array)
    retile.rechunk(other, file, chunks=(1, 1, 1), max_bytes=CAP)
    assert numpy.load(file).tobytes() == array.astype(numpy.load(file).dtype).tobytes()


@pytest.mark.parametrize("fill", [0, 1.5, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("version", [2, 3])
def test_missing_chunks_are_fill_values(tmp_path, fill, version):
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    stored = zarr.create_array(source, shape=(20, 20), dtype="f4", chunks=(5, 5), fill_value=fill, zarr_format=version)
    stored[:5, :5] = 3
    retile.rechunk(source, target, chunks=(20, 8), max_bytes=CAP, verify=True)
    assert numpy.array_equal(zarr.open_array(target, mode="r")[...], stored[...], equal_nan=True)


def test_shards(tmp_path):
    array = made_array("<i4")
    source, target, back = (tmp_path / name for name in ("a.zarr", "b.zarr", "c.zarr"))
    zarr.create_array(source, data=array, chunks=(4, 5, 5), shards=(8, 10, 15))
    retile.rechunk(source, target, chunks=(37, 2, 3), shards=(37, 8, 15), max_bytes=CAP, verify=True)
    assert same(target, array)
    assert zarr.open_array(target, mode="r").shards == (37, 8, 15)
    retile.rechunk(target, back, chunks=(10, 22, 1), max_bytes=CAP, codec="blosc")
    assert same(back, array)


@pytest.mark.parametrize("version", [2, 3])
def test_groups_with_consolidated_metadata(tmp_path, version):
    array = made_array("<f4")
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=version, attributes={"title": "t"})
    group.create_array("u", data=array, chunks=(8, 9, 15), attributes={"unit": "m"})
    group.create_group("inner").create_array("v", data=array[0], chunks=(22, 15))
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    retile.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(37, 4, 4), max_bytes=CAP)
    read = zarr.open_consolidated(tmp_path / "b.zarr", mode="r")
    assert dict(read.attrs) == {"title": "t"}
    assert read["u"].chunks == (37, 4, 4) and dict(read["u"].attrs) == {"unit": "m"}
    assert read["inner/v"].chunks == (22, 15)
    assert numpy.array_equal(read["u"][...], array) and numpy.array_equal(read["inner/v"][...], array[0])


def test_arrays_of_no_and_many_dimensions(tmp_path):
    for number, shape in enumerate([(), (1,), (5,), (2, 3, 4, 5, 2), (0, 4)]):
        array = numpy.arange(int(numpy.prod(shape))).reshape(shape).astype("i8")
        source, target = tmp_path / f"a{number}.zarr", tmp_path / f"b{number}.zarr"
        zarr.create_array(source, data=array, chunks=tuple(max(1, n // 2) for n in shape))
        if shape:
            retile.rechunk(source, target, chunks=tuple(max(1, n) for n in shape), max_bytes=CAP, verify=True)
            assert numpy.array_equal(zarr.open_array(target, mode="r")[...], array)


@pytest.mark.parametrize("seed", range(24))
def test_random_stores(seed):
    random_stores.run_case(seed)


@pytest.mark.parametrize("seed", range(5000, 5006))
def test_runs_that_are_killed(seed):
    random_stores.run_case(seed, kill=True)


def test_plans_and_refusals(tmp_path):
    array = made_array("<f4")
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    zarr.create_array(source, data=array, chunks=(8, 9, 15))
    plan = retile.rechunk(source, target, chunks=(37, 2, 3), max_bytes=CAP, dry_run=True)
    assert plan[0]["read_bytes"] >= plan[0]["least_read_bytes"] and not target.exists()
    with pytest.raises(retile.MemoryLimitError, match="the smallest cap that works is"):
        retile.rechunk(source, target, chunks=(37, 2, 3), max_bytes=1000)
    report = retile.rechunk(source, target, chunks=(37, 2, 3), max_bytes=CAP)
    assert report["peak_bytes"] > 0
    with pytest.raises(retile.InputError, match="exists"):
        retile.rechunk(source, target, chunks=(37, 2, 3), max_bytes=CAP)
    retile.rechunk(zarr.open_array(source, mode="r"), target, chunks=(37, 22, 1), max_bytes=CAP, overwrite=True)
    assert same(target, array)


def test_the_pages_code_runs():
    from test_docs import run_blocks

    assert run_blocks("from-zarr.md") == 1
