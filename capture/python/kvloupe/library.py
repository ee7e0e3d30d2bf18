"""libkvloupe.so: where it is, and its functions (core/c_api/kvloupe.h) by ctypes."""
import ctypes
import functools
import os
import threading

from .errors import KvloupeError
from .installed import prefixes

NAME = "libkvloupe.so"
ABI = 1
_loading = threading.Lock()

FLOAT32, FLOAT16, BFLOAT16 = range(3)


class Model(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("num_layers", ctypes.c_int32), ("num_q_heads", ctypes.c_int32), ("num_kv_heads", ctypes.c_int32),
                ("head_dim", ctypes.c_int32), ("rope_interleaved", ctypes.c_int32), ("softmax_scale", ctypes.c_double), ("softcap", ctypes.c_double),
                ("rope_theta", ctypes.c_double), ("windows", ctypes.POINTER(ctypes.c_int32)), ("sink_logits", ctypes.POINTER(ctypes.c_float)),
                ("model_hash", ctypes.c_char_p), ("layer_types", ctypes.POINTER(ctypes.c_int32))]


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 3), ("strides", ctypes.c_int64 * 3), ("dtype", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


class BlockMasks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("num_q_heads", ctypes.c_int32), ("block_size", ctypes.c_int64), ("past", ctypes.c_int64),
                ("num_query_blocks", ctypes.c_int64), ("num_key_blocks", ctypes.c_int64), ("kept", ctypes.c_void_p), ("forced", ctypes.c_void_p), ("abstains", ctypes.c_void_p)]


class Chunk(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("layer", ctypes.c_int32), ("past", ctypes.c_int64), ("phase", ctypes.c_int32),
                ("ends_prefill", ctypes.c_int32), ("q", Array), ("k", Array), ("v", Array), ("probe_q", Array),
                ("novelty", ctypes.POINTER(ctypes.c_float))]


def _file():
    named = os.environ.get("KVLOUPE_LIBRARY")
    if named:
        return named
    for prefix in prefixes():
        if (prefix / "lib" / NAME).is_file():
            return str(prefix / "lib" / NAME)
    raise KvloupeError("the methods of KVLoupe cannot be used here", f"{NAME} was not found",
                       "build it (./kvloupe.sh) or install it, and name its file in KVLOUPE_LIBRARY, or the program in KVLOUPE_PROGRAM")


def library():
    """Its functions; loaded once. Raises KvloupeError where it is missing or of another version."""
    with _loading:
        return _load(_file())


@functools.lru_cache(maxsize=None)
def _load(file):
    try:
        loaded = ctypes.CDLL(file)
        version = loaded.kvloupe_abi_version
        version.restype, version.argtypes = ctypes.c_uint32, []
    except (OSError, AttributeError) as error:
        raise KvloupeError(f"the library {file} cannot be used", " ".join(str(error).split()), "name another file in KVLOUPE_LIBRARY, or build it again") from None
    if version() != ABI:
        raise KvloupeError(f"the library {file} cannot be used", f"it has version {version()} of its interface, this package speaks version {ABI}",
                           "use the library and the package of one version")
    selector, number = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
            ("version", ctypes.c_char_p, []),
            ("last_error", ctypes.c_char_p, []),
            ("spec_facts", ctypes.c_int, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]),
            ("selector_create", ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(Model), ctypes.c_int32, ctypes.POINTER(selector)]),
            ("selector_fork", ctypes.c_int, [selector, ctypes.POINTER(selector)]),
            ("selector_destroy", None, [selector]),
            ("selector_spec", ctypes.c_char_p, [selector]),
            ("selector_select", ctypes.c_int, [selector, ctypes.POINTER(Chunk)]),
            ("selector_alive", ctypes.c_int, [selector, ctypes.c_int32]),
            ("selector_layout", ctypes.c_int, [selector, ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(number), ctypes.POINTER(number)]),
            ("selector_rows", ctypes.c_int, [selector, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p)]),
            ("selector_blocks", ctypes.c_int, [selector, ctypes.POINTER(BlockMasks)]),
            ("selector_dense_reason", ctypes.c_char_p, [selector]),
            ("selector_reset", ctypes.c_int, [selector, number, number])):
        try:
            function = getattr(loaded, "kvloupe_" + name)
        except AttributeError as error:
            raise KvloupeError(f"the library {file} cannot be used", f"it is older than this package: {error}", "use the library and the package of one version") from None
        function.restype, function.argtypes = result, arguments
    return loaded


def check(loaded, code):
    """Raises what the last call of this thread said."""
    if code == 0:
        return
    said = loaded.kvloupe_last_error().decode("utf-8", "replace")
    parts = said.split("; ", 2)
    raise KvloupeError(*parts) if len(parts) == 3 else KvloupeError("the library failed", said, "report this with what you did")
