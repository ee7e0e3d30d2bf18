"""A method of your own in C: a function of a shared library, as core/c_api/kvloupe.h declares it (kvloupe_method)."""
import ctypes
import os

import numpy as np

from .errors import KvloupeError, one_line

# KVLOUPE_ABI_VERSION that a library exports as kvloupe_plugin_abi.
ABI = 1
# Floats before and after the scores of a cell: a method that writes past its end is seen.
GUARD = 1024
MARK = np.float32(-1.5e-33)


class Cell(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("layer", ctypes.c_int32), ("chunk", ctypes.c_int32), ("num_rows", ctypes.c_int32),
                ("num_q_heads", ctypes.c_int32), ("num_kv_heads", ctypes.c_int32), ("head_dim", ctypes.c_int32), ("v_head_dim", ctypes.c_int32),
                ("past", ctypes.c_int64), ("m", ctypes.c_int64), ("q", ctypes.c_void_p), ("k", ctypes.c_void_p), ("v", ctypes.c_void_p)]


class Method:
    """A function of (layer, chunk, q, k, v): the function `name` of the library; `rows` is "kv_head" or "q_head"."""

    def __init__(self, path, name, rows):
        self.path, self._name, self._rows = path, name, rows
        self._function = _function_of(path, name)

    def __call__(self, layer, chunk, q, k, v):
        num_rows, past = len(k) if self._rows == "kv_head" else len(q), k.shape[1]
        q, k, v = (np.ascontiguousarray(array, dtype=np.float32) for array in (q, k, v))
        held = np.full(2 * GUARD + num_rows * past, MARK, np.float32)
        scores = held[GUARD : GUARD + num_rows * past]
        scores.fill(np.nan)
        cell = Cell(ctypes.sizeof(Cell), layer, chunk, num_rows, len(q), len(k), q.shape[2], v.shape[2], past, q.shape[1],
                    q.ctypes.data, k.ctypes.data, v.ctypes.data)
        code = self._function(ctypes.byref(cell), scores.ctypes.data)
        if code != 0:
            raise RuntimeError(f"{self._name} returned {code}")
        if (held[:GUARD] != MARK).any() or (held[GUARD + num_rows * past :] != MARK).any():
            raise RuntimeError(f"{self._name} wrote outside of its {num_rows} x {past} scores")
        scores = scores.reshape(num_rows, past)
        if np.isnan(scores).all(axis=1).any():
            raise RuntimeError(f"{self._name} wrote no score in row {int(np.isnan(scores).all(axis=1).argmax())}")
        return scores


def _function_of(path, name):
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise KvloupeError(f"cannot read {path}", "there is no such file", "give LIBRARY.so:FUNCTION")
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise KvloupeError(f"cannot load {path}", one_line(error), "build it as a shared library for this machine") from None
    try:
        version = ctypes.c_uint32.in_dll(library, "kvloupe_plugin_abi").value
    except ValueError:
        raise KvloupeError(f"{path} is no plug-in of KVLoupe", "it has no kvloupe_plugin_abi", "write KVLOUPE_PLUGIN in one of its files, in C++ inside extern \"C\"") from None
    if version != ABI:
        raise KvloupeError(f"{path} cannot be used", f"it was built for version {version} of the interface, this is version {ABI}", "build it again with this kvloupe.h")
    try:
        function = getattr(library, name)
    except AttributeError:
        raise KvloupeError(f"{path} has no function {name}", "it exports none of that name", "name one that it exports, in C++ as extern \"C\"") from None
    function.restype, function.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]
    return function
