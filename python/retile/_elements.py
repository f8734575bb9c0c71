"""Types of elements, as retile names them."""

from typing import Any

from retile import _retile
from retile._errors import InputError

# retile's names by NumPy's, which are also PyTorch's.
ELEMENT_TYPES = dict(_retile.element_types())
_TEXTS = ELEMENT_TYPES | {name: name for name in ELEMENT_TYPES.values()}
# Types without a name in retile are moved as bits.
_ELEMENTS_OF_SIZE = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}


def element_type(dtype: Any) -> str:
    """retile's name of an element type: given by that name, as a type of PyTorch, or as anything that NumPy accepts."""
    if isinstance(dtype, str) and dtype in _TEXTS:
        return _TEXTS[dtype]
    if str(type(dtype)) != "<class 'torch.dtype'>":
        dtype = _numpy_dtype(dtype)
    found = ELEMENT_TYPES.get(str(dtype).removeprefix("torch.")) or _ELEMENTS_OF_SIZE.get(dtype.itemsize)
    if found is None:
        raise InputError(f"elements of {dtype} have {dtype.itemsize} bytes\nhint: those of 1, 2, 4, 8 and 16 are moved")
    return found


def _numpy_dtype(given: Any) -> Any:
    import numpy

    try:
        dtype = numpy.dtype(given)
    except (SyntaxError, TypeError, ValueError):
        dtype = None
    if given is None or dtype is None or dtype.hasobject:  # NumPy takes None for float64, and any class for an object
        names = ", ".join(ELEMENT_TYPES.values())
        raise InputError(f"{given!r} is no element type\nhint: one of: {names}, or what numpy.dtype() takes")
    return dtype
