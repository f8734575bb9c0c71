"""Types of elements, as retile names them."""

from typing import Any

# By NumPy's names, which are PyTorch's too.
ELEMENT_TYPES = {
    "int8": "i8", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
# What has no name of its own is moved as bits.
_ELEMENTS_OF_SIZE = {1: "i8", 2: "f16", 4: "i32", 8: "f64", 16: "c128"}


def element_type(dtype: Any) -> str:
    """Of a name of retile's, a type of NumPy's or PyTorch's, or what NumPy takes for one."""
    if isinstance(dtype, str) and dtype in ELEMENT_TYPES.values():
        return dtype
    if not hasattr(dtype, "itemsize"):
        import numpy

        dtype = numpy.dtype(dtype)
    return ELEMENT_TYPES.get(str(dtype).removeprefix("torch.")) or _ELEMENTS_OF_SIZE[dtype.itemsize]
