"""Files of HDF5 and NetCDF-4 as sources, and stores that xarray and tensorstore read."""

import numpy
import pytest

import retile

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

CAP = 4 << 30  # of the whole process, in which other tests have loaded frameworks
SHAPE = (37, 22, 15)
TYPES = ["<f4", ">f8", "<i2", "|u1", "|b1", "<c8", "<f2", ">i4", "<u8", "|S5"]
FILTERS = {
    "contiguous": {},
    "chunks": {"chunks": (8, 9, 15)},
    "deflate": {"chunks": (8, 9, 15), "compression": "gzip", "compression_opts": 4},
    "shuffle": {"chunks": (8, 9, 4), "compression": "gzip", "shuffle": True},
}


def made_array(dtype, shape=SHAPE):
    values = numpy.random.default_rng(3).integers(0, 2 if dtype == "|b1" else 100, shape)
    return values.astype(dtype)


def rechunked(source, target, **options):
    retile.rechunk(source, target, **{"max_bytes": CAP, "verify": True, **options})
    return zarr.open(target, mode="r")


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_filter(tmp_path, dtype, filters):
    array = made_array(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("deep/inside", data=array, **FILTERS[filters])
    version = "zarr2" if dtype == "|S5" else "zarr3"
    (plan,) = retile.rechunk(
        tmp_path / "a.h5", tmp_path / "b", chunks=SHAPE, max_bytes=CAP, format=version, dry_run=True
    )
    assert plan["formats"] == ["hdf5", version] and plan["read_bytes"] >= array.nbytes
    read = rechunked(tmp_path / "a.h5" / "deep" / "inside", tmp_path / "b.zarr", chunks=(37, 5, 5), format=version)
    assert read.chunks == (37, 5, 5)
    assert read[...].astype(array.dtype).tobytes() == array.tobytes()


def test_a_file_is_a_group(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=1024) as file:
        file.attrs.update(title="all", versions=[1, 2], nothing=numpy.nan)
        file["one"] = made_array("<f4")
        file.create_dataset("three", data=made_array("<f4"), chunks=(8, 9, 15))
        file["deep/two"] = made_array("<i8", (40,))
        file["deep"].attrs["level"] = 2
        file["deep/two"].attrs["units"] = "m"
        file["deep/again"] = file  # a cycle
        file["elsewhere"] = h5py.SoftLink("/one")
    group = rechunked(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(16, 16, 16))
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["deep", "deep/two", "one", "three"]
    assert (group.attrs["title"], group.attrs["versions"], group["deep"].attrs["level"]) == ("all", [1, 2], 2)
    assert numpy.isnan(group.attrs["nothing"])
    assert group["deep/two"].attrs["units"] == "m"
    for name, expected in ("one", "<f4"), ("three", "<f4"), ("deep/two", "<i8"):
        assert (group[name][...] == made_array(expected, group[name].shape)).all(), name


def test_chunks_that_were_never_written_or_not_compressed(tmp_path):
    noise = numpy.random.default_rng(1).integers(0, 1 << 30, (64, 64), dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        sparse = file.create_dataset("sparse", (64, 64), "<f8", chunks=(8, 8), compression="gzip", fillvalue=-2.5)
        sparse[3:20, 5:9] = 7
        filtered = file.create_dataset("noise", data=noise, chunks=(16, 16), compression="gzip", shuffle=True)
        tile = noise[16:32, 48:].tobytes()
        filtered.id.write_direct_chunk((16, 48), tile, filter_mask=0b11)  # no filter was of use
        shuffled = numpy.frombuffer(noise[:16, :16].tobytes(), "u1").reshape(-1, 4).T.tobytes()
        filtered.id.write_direct_chunk((0, 0), shuffled, filter_mask=0b10)
        file.create_dataset("untouched", (9,), "<i4", fillvalue=5)
        expected = sparse[...]
    group = rechunked(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(64, 10))
    assert group["sparse"].fill_value == -2.5 and (group["sparse"][...] == expected).all()
    assert (group["noise"][...] == noise).all()
    assert (group["untouched"][...] == 5).all()


@pytest.mark.parametrize("version", ["zarr2", "zarr3"])
def test_netcdf_is_read_by_xarray_afterwards(tmp_path, version):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    values = numpy.linspace(-3, 300, 24 * 10 * 12).reshape(24, 10, 12)
    values[3, 4, 5] = numpy.nan
    dataset = xarray.Dataset(
        {
            "heat": (("time", "lat", "lon"), values, {"units": "K"}),
            "count": (("lat", "bare"), made_array("<i4", (10, 3))),
        },
        {"time": numpy.arange("2001-01-01", "2001-01-25", dtype="M8[D]"), "lat": numpy.arange(10.0)},
        {"title": "a year"},
    )
    packed = {
        "dtype": "i2",
        "scale_factor": 0.01,
        "_FillValue": -9999,
        "zlib": True,
        "shuffle": True,
        "chunksizes": (6, 5, 12),
    }
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"heat": packed, "lat": {"_FillValue": numpy.nan}})
    retile.rechunk(
        tmp_path / "a.nc",
        tmp_path / "b.zarr",
        chunks={"time": 24, "lat": 5},
        max_bytes=CAP,
        format=version,
        verify=True,
    )
    expected = xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf")
    read = xarray.open_zarr(tmp_path / "b.zarr", consolidated=False)
    xarray.testing.assert_identical(read.load(), expected.load())
    assert numpy.isnan(read["heat"].values[3, 4, 5]) and zarr.open(tmp_path / "b.zarr")["heat"].chunks == (24, 5, 12)


@pytest.mark.parametrize("codec", ["none", "blosc", "zstd"])
@pytest.mark.parametrize("version", ["zarr2", "zarr3"])
def test_tensorstore_reads_what_is_written(tmp_path, version, codec):
    tensorstore = pytest.importorskip("tensorstore")
    array = made_array("<f4")
    numpy.save(tmp_path / "a.npy", array)
    retile.rechunk(
        tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(5, 22, 4), max_bytes=CAP, format=version, codec=codec
    )
    spec = {"driver": version.replace("zarr2", "zarr"), "kvstore": {"driver": "file", "path": str(tmp_path / "b.zarr")}}
    assert (tensorstore.open(spec).result().read().result() == array).all()


def test_attributes_that_others_would_not_write_do_no_harm(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("a", data=made_array("<f4"))
        array.attrs["units"] = numpy.bytes_(b"\xb0C")  # no UTF-8
        array.attrs["_FillValue"] = numpy.arange(1000, dtype="<f8")
        array.attrs["DIMENSION_LIST"] = numpy.zeros(3, dtype=[("a", "S4000")])
        file.attrs["title"] = numpy.bytes_(b"caf\xe9")
    group = rechunked(path, tmp_path / "b.zarr", chunks=(16, 16, 16))
    assert dict(group.attrs) == {"title": "caf?"}
    assert dict(group["a"].attrs) == {"units": "?C"}
    assert group["a"].metadata.dimension_names is None
    assert (group["a"][...] == made_array("<f4")).all()


def refusal(path, name):
    with pytest.raises(retile.InputError) as error:
        retile.rechunk(path, path.parent / name, chunks=(2,), max_bytes=CAP)
    assert not (path.parent / name).exists()
    return str(error.value)


def test_what_is_not_known_is_named(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["texts"] = ["a", "bcd"]
        file.create_dataset("summed", data=made_array("<f4"), chunks=SHAPE, fletcher32=True)
        file.create_dataset("packed", data=made_array("<i4"), chunks=SHAPE, compression="lzf")
        file["records"] = numpy.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        file.create_group("empty")
        file.create_dataset("endless", (1 << 40,), "u1", chunks=(1,))
    assert "'texts' of" in refusal(path / "texts", "b") and "texts of any length" in refusal(path / "texts", "b")
    assert "a.h5/summed: fletcher32: a filter '3' is not known" in refusal(path / "summed", "b")
    assert "lzf" in refusal(path / "packed", "b")
    assert "records" in refusal(path / "records", "b")
    assert "has no 'nothing'" in refusal(path / "nothing", "b")
    assert "has no arrays" in refusal(path / "empty", "b")
    assert "has more than 16777216 chunks" in refusal(path / "endless", "b")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=made_array("<f4"), chunks=(8, 9, 15), compression="gzip")
    whole = path.read_bytes()
    for size in (9, 100, 2000, len(whole) - 100):
        path.write_bytes(whole[:size])
        with pytest.raises((retile.InputError, RuntimeError)):
            retile.rechunk(path, tmp_path / "b.zarr", chunks=(37, 5, 5), max_bytes=CAP)
        assert not (tmp_path / "b.zarr").exists()
