"""Arrays of numpy, torch or anything with DLPack, as libkvloupe.so reads them: where they lie, without a copy, unless that is on a GPU or
the numbers of a row do not follow each other."""
import ctypes

import numpy as np

from .errors import KvloupeError, one_line
from .library import BFLOAT16, FLOAT16, FLOAT32, Array

TYPES = "float32, float16 or bfloat16"
# DLPack 1.0, dlpack.h: kDLFloat, kDLBfloat; kDLCPU and host memory that a GPU may read, too.
_DTYPES = {(2, 32): FLOAT32, (2, 16): FLOAT16, (4, 16): BFLOAT16}
_HOST = {1, 3, 11}


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _refused(name, why, what_to_do):
    return KvloupeError(f"{name} cannot be used", why, what_to_do)


def borrow(given, name):
    """(Array, owner): the array stays valid while `owner` lives."""
    return _of_numpy(given, name) if isinstance(given, np.ndarray) else _of_dlpack(given, name)


# In the byte order of this computer.
_KINDS = {np.dtype("float32"): FLOAT32, np.dtype("float16"): FLOAT16}


def _of_numpy(given, name):
    kind = _KINDS.get(given.dtype)
    if kind is None:
        if given.dtype.name != "bfloat16":  # of the package ml_dtypes
            raise _refused(name, f"its numbers are {given.dtype.str if given.dtype.kind in 'fiub' else given.dtype}", f"give {TYPES}")
        kind = BFLOAT16
    if given.ndim != 3:
        raise _refused(name, f"its shape is {given.shape}", "give three axes: heads, tokens, head_dim")
    given = _readable(given)
    (first, second, third), size = given.strides, given.itemsize
    return _array(given.__array_interface__["data"][0], given.shape, (first // size, second // size, third // size), kind), given


def _readable(given):
    """A copy where the numbers of a row do not follow each other, lie backwards, or not at multiples of their size."""
    size = given.itemsize
    lies_well = given.flags.aligned and all(stride >= 0 and stride % size == 0 for stride in given.strides)
    return given if lies_well and (given.strides[2] == size or given.shape[2] < 2) else given.copy(order="C")


def _of_dlpack(given, name):
    if not hasattr(given, "__dlpack__"):
        raise _refused(name, f"it is of type {type(given).__name__}", "give an array of numpy or torch, or anything with __dlpack__")
    try:
        capsule = _capsule_of(given)
        address = _pointer_of(capsule, b"dltensor")
    except Exception as error:
        raise _refused(name, f"DLPack does not give it: {one_line(error)}", "pass a copy in the memory of the CPU") from None
    tensor = _DLTensor.from_address(address)
    if tensor.device_type not in _HOST:
        raise _refused(name, "it is not in the memory of the CPU", "pass a copy there, such as tensor.cpu()")
    kind = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if kind is None:
        raise _refused(name, f"its numbers are {getattr(given, 'dtype', 'of another type')}", f"give {TYPES}")
    if tensor.ndim != 3:
        raise _refused(name, f"its shape is {tuple(tensor.shape[i] for i in range(tensor.ndim))}", "give three axes: heads, tokens, head_dim")
    shape = [tensor.shape[i] for i in range(3)]
    strides = [tensor.strides[i] for i in range(3)] if tensor.strides else [shape[1] * shape[2], shape[2], 1]
    address = (tensor.data or 0) + tensor.byte_offset
    if address and strides[2] != 1 and shape[2] > 1 and min(shape) > 0 and min(strides) >= 0:
        copied = _copy_of(address, shape, strides, tensor.bits // 8)
        return _array(copied.ctypes.data, shape, (shape[1] * shape[2], shape[2], 1), kind), copied
    return _array(address, shape, strides, kind), capsule


def _copy_of(address, shape, strides, size):
    """Of numbers whatever they are, so that those that numpy does not have are copied, too. Strides count numbers."""
    count = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides))
    memory = (ctypes.c_char * (count * size)).from_address(address)
    return np.ndarray(shape, f"u{size}", memory, strides=[stride * size for stride in strides]).copy(order="C")


def _capsule_of(given):
    """What lies elsewhere, as on a GPU, is copied to the memory of the CPU."""
    if hasattr(given, "detach"):
        given = given.detach()  # gradients are no matter here
        return (given if given.device.type == "cpu" else given.cpu()).__dlpack__()
    device = given.__dlpack_device__()[0] if hasattr(given, "__dlpack_device__") else None
    if device is None or device in _HOST:
        return given.__dlpack__()
    try:
        return given.__dlpack__(dl_device=(1, 0), copy=True)
    except TypeError:
        return given.__dlpack__()  # It is of before DLPack 1.0: said below.


def _array(address, shape, strides, kind):
    return Array(address or None, tuple(shape), tuple(strides), kind, 0)
