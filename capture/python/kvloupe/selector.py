"""The methods of KVLoupe in your program."""
import ctypes
import operator
import os
import threading

import numpy as np

from .blocks import Blocks
from .borrowed import borrow
from .errors import KvloupeError
from .library import BlockMasks, Chunk, Model, check, library
from .spec_facts import check_spec

PHASES = {"prefill": 0, "decode": 1}
AXES = ("kv_head", "q_head", "subgroup")
LAYER_TYPES = {"full": 0, "sliding": 1, "nope": 2}


class Selector:
    """What a method keeps of queries, keys and values that you hold, chunk by chunk.

        selector = kvloupe.Selector("quoka:budget_tokens=256", layers=24, q_heads=16, kv_heads=4, head_dim=64)
        for past, m in chunks:
            for layer in range(24):
                rows = selector.select(layer, q, k, v, past)

    spec           a method SPEC, as the program takes it; `spec` says it with all parameters
    layers, q_heads, kv_heads, head_dim    of the model
    softmax_scale  what the products of queries and keys are multiplied by; 1/sqrt(head_dim) by default
    windows        how many keys a query sees, its own included: a number, or one for each layer, 0 for all
    softcap        of the logits, as in Gemma 2; 0 for none
    sink_logits    learned sinks, [layers, q_heads]
    rope_theta, rope_interleaved    how the rotary embedding turns heads; only learned gates ask for it
    layer_types    of each layer "full", "sliding" or "nope" (not rotated), all full by default; only learned gates ask for it
    model_hash     SHA-256 of the model's file (`kvloupe info`), by which basis=auto finds its basis
    threads        0: all cores

    row_axis ("kv_head", "q_head" or "subgroup"), num_rows and q_heads_per_row say what a row speaks for. Any thread may call; calls
    on one selector wait for each other. Raises KvloupeError.
    """

    def __init__(self, spec, *, layers, q_heads, kv_heads, head_dim, softmax_scale=None, windows=None, softcap=0.0, sink_logits=None,
                 rope_theta=0.0, rope_interleaved=False, layer_types=None, model_hash=None, threads=0):
        self._handle, self._lock, self._process = None, threading.RLock(), os.getpid()
        check_spec(spec)
        model = Model(size=ctypes.sizeof(Model), num_layers=_whole(layers, "layers"), num_q_heads=_whole(q_heads, "q_heads"),
                      num_kv_heads=_whole(kv_heads, "kv_heads"), head_dim=_whole(head_dim, "head_dim"), rope_interleaved=bool(rope_interleaved),
                      softmax_scale=_positive(softmax_scale, "softmax_scale"), softcap=_real(softcap, "softcap"),
                      rope_theta=_real(rope_theta, "rope_theta"), model_hash=_hash(model_hash))
        kept = [*_shape_softmax(model, windows, sink_logits), *_set_layer_types(model, layer_types)]
        self._library, handle = library(), ctypes.c_void_p()
        check(self._library, self._library.kvloupe_selector_create(spec.encode(), ctypes.byref(model), _whole(threads, "threads"), ctypes.byref(handle)))
        del kept
        self._take(handle)

    def _take(self, handle):
        self._handle = handle
        self.spec = self._library.kvloupe_selector_spec(handle).decode()
        axis, rows, heads = ctypes.c_int32(), ctypes.c_int64(), ctypes.c_int64()
        check(self._library, self._library.kvloupe_selector_layout(handle, ctypes.byref(axis), ctypes.byref(rows), ctypes.byref(heads)))
        self.row_axis, self.num_rows, self.q_heads_per_row = AXES[axis.value], rows.value, heads.value

    def select(self, layer, q, k, v, past, phase="prefill", *, ends_prefill=False, probe_q=None, novelty=None):
        """A list of int32 arrays, one a row, which are views of one array: the positions that the chunk's queries attend to beside the
        chunk itself, ascending.

        q              [q_heads, m, head_dim], after norms and rotary embedding
        k, v           [kv_heads, past + m, head_dim], as cached; the first `past` are those of the calls before. v may be None for
                       a method that reads no values
        past           how many keys come before the chunk
        phase          "prefill" or "decode"
        ends_prefill   whether the chunk is the last of the prompt (flash_prefill:last_full_blocks)
        probe_q, novelty    of infinipot: queries of its probe text [q_heads, n, head_dim], -log P of each token [past + m]

        float32, float16 or bfloat16, of numpy, torch or anything with DLPack. Float32 keys and values are read where they lie; other
        types, and arrays whose rows are apart, are widened into a copy for the call. What lies on a GPU is copied from there.
        """
        if phase not in PHASES:
            raise KvloupeError(f"{phase!r} is no phase", "a chunk is of the prompt or decoded", 'give "prefill" or "decode"')
        chunk = Chunk(size=ctypes.sizeof(Chunk), layer=_whole(layer, "layer"), past=_whole(past, "past", 63), phase=PHASES[phase],
                      ends_prefill=bool(ends_prefill))
        owners = []
        for name, given in (("q", q), ("k", k), ("v", v), ("probe_q", probe_q)):
            if given is None and name in ("v", "probe_q"):
                continue
            array, owner = borrow(given, name)
            setattr(chunk, name, array)
            owners.append(owner)
        if novelty is not None:
            owners.append(_set_novelty(chunk, novelty))
        with self._open() as handle:
            check(self._library, self._library.kvloupe_selector_select(handle, ctypes.byref(chunk)))
            del owners
            return self._rows(handle)

    def alive(self, layer):
        """Of methods that evict: what is alive in the layer after its last chunk, a list of int32 arrays."""
        with self._open() as handle:
            check(self._library, self._library.kvloupe_selector_alive(handle, _whole(layer, "layer")))
            return self._rows(handle)

    def blocks(self):
        """Of block methods: which blocks the last chunk's query blocks keep, each query head its own (kvloupe.blocks.Blocks); None where
        the chunk attends to all of its candidates. With lowering=native they attend to these blocks, less keys after a query and
        outside of its window; with another lowering to the rows."""
        masks = BlockMasks(size=ctypes.sizeof(BlockMasks))
        with self._open() as handle:
            check(self._library, self._library.kvloupe_selector_blocks(handle, ctypes.byref(masks)))
            if masks.kept is None:
                return None
            shape = masks.num_q_heads, masks.num_query_blocks, masks.num_key_blocks
            kept, forced = (_copied(at, shape) for at in (masks.kept, masks.forced))
            abstains = _copied(masks.abstains, shape[1:2]) if masks.abstains else np.zeros(shape[1], bool)
        return Blocks(masks.block_size, masks.past, kept, forced, abstains)

    @property
    def dense_reason(self):
        """Why the last chunk attends to all of its candidates: "empty_past", "fits_budget" or "method_rule"; None where the method chose."""
        with self._open() as handle:
            said = self._library.kvloupe_selector_dense_reason(handle)
        return said.decode() if said else None

    def reset(self, past=0, chunk=0):
        """Forgets all chunks. The next ones begin at position `past` and are counted from `chunk` on; methods that evict begin at 0 alone."""
        with self._open() as handle:
            check(self._library, self._library.kvloupe_selector_reset(handle, _whole(past, "past", 63), _whole(chunk, "chunk", 63)))

    def fork(self):
        """Another selector that has seen all that this one has. What either sees from then on does not concern the other."""
        copy, handle = object.__new__(type(self)), ctypes.c_void_p()
        copy._handle, copy._lock, copy._process, copy._library = None, threading.RLock(), os.getpid(), self._library
        with self._open() as own:
            check(self._library, self._library.kvloupe_selector_fork(own, ctypes.byref(handle)))
        copy._take(handle)
        return copy

    def close(self):
        """Gives the memory back. Also done by `with`, and when the selector is no longer held."""
        if self._process != os.getpid():
            self._handle = None  # the parent's; the lock may be held for good
            return
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                self._library.kvloupe_selector_destroy(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __repr__(self):
        return f"<kvloupe.Selector {getattr(self, 'spec', '')}{'' if self._handle else ' (closed)'}>"

    def __reduce__(self):
        raise KvloupeError("a selector cannot be copied or stored", "its state is in the library", "call its fork()")

    def _open(self):
        return _Held(self)

    def _rows(self, handle):
        address, ends = ctypes.c_void_p(), ctypes.c_void_p()
        check(self._library, self._library.kvloupe_selector_rows(handle, ctypes.byref(address), ctypes.byref(ends)))
        offsets = np.frombuffer(ctypes.string_at(ends, 8 * (self.num_rows + 1)), np.int64).tolist()
        positions = np.empty(offsets[-1], np.int32)
        ctypes.memmove(positions.__array_interface__["data"][0], address, positions.nbytes)
        return [positions[begin:end] for begin, end in zip(offsets, offsets[1:])]


class _Held:
    """The handle, while no other thread has it."""

    def __init__(self, selector):
        self.selector = selector

    def __enter__(self):
        if self.selector._process != os.getpid():  # before the lock, which may be held for good
            raise KvloupeError("the selector cannot be used in this process", "it was made in the one from which this one was forked", "make a selector after the fork")
        self.selector._lock.acquire()
        if self.selector._handle is None:
            self.selector._lock.release()
            raise KvloupeError("the selector cannot be used", "it was closed", "make another one")
        return self.selector._handle

    def __exit__(self, *_):
        self.selector._lock.release()


def _copied(address, shape):
    """bool, of the bytes that stand there."""
    return np.frombuffer(ctypes.string_at(address, int(np.prod(shape))), np.uint8).reshape(shape) != 0


def _whole(value, name, bits=31):
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise KvloupeError(f"{name}={value!r} is no number", "it is a whole number", f"give {name}=3, say") from None
    if not -(1 << bits) <= number < 1 << bits:
        raise KvloupeError(f"{name}={number} is out of range", f"it fits {bits} bits", "give a smaller one")
    return number


def _real(value, name):
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise KvloupeError(f"{name}={value!r} is no number", "it is a real number", "give another") from None


def _positive(value, name):
    if value is None:
        return 0.0
    number = _real(value, name)
    if not 0 < number < float("inf"):
        raise KvloupeError(f"{name}={value!r} cannot be used", "it is above 0 and finite", "leave it out for 1/sqrt(head_dim)")
    return number


def _hash(value):
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise KvloupeError(f"model_hash={value!r} is none", "it is text", "give the SHA-256 that kvloupe info says")
    return value.encode()


def _float32(given):
    """Numpy has no bfloat16, torch does."""
    return np.ascontiguousarray(given.detach().float().cpu() if hasattr(given, "detach") else given, dtype=np.float32)


def _shape_softmax(model, windows, sink_logits):
    """Fills these members and returns what they point at."""
    kept = []
    if windows is not None:
        if hasattr(windows, "__len__"):
            sizes = list(windows)
            if len(sizes) != model.num_layers:
                raise KvloupeError("windows cannot be used", f"it has {len(sizes)} numbers for {model.num_layers} layers", "give one a layer, 0 for all keys")
        else:
            # The library refuses more layers before it reads these.
            sizes = [windows] * min(model.num_layers, 1 << 20)
        kept.append((ctypes.c_int32 * max(1, len(sizes)))(*(_whole(size, "windows") for size in sizes)))
        model.windows = kept[-1]
    if sink_logits is not None:
        try:
            logits = _float32(sink_logits)
        except (TypeError, ValueError):
            raise KvloupeError("sink_logits cannot be used", "it is no array of numbers", "give [layers, q_heads]") from None
        if logits.shape != (model.num_layers, model.num_q_heads):
            raise KvloupeError("sink_logits cannot be used", f"its shape is {logits.shape}", f"give {(model.num_layers, model.num_q_heads)}")
        model.sink_logits = logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        kept.append(logits)
    return kept


def _set_layer_types(model, layer_types):
    """Fills the member and returns what it points at."""
    if layer_types is None:
        return []
    given = list(layer_types) if hasattr(layer_types, "__iter__") else []
    if len(given) != model.num_layers or any(not isinstance(type, str) or type not in LAYER_TYPES for type in given):
        raise KvloupeError("layer_types cannot be used", f"it has one of {', '.join(LAYER_TYPES)} for each of {model.num_layers} layers", "give what info says of them")
    kept = (ctypes.c_int32 * max(1, len(given)))(*(LAYER_TYPES[type] for type in given))
    model.layer_types = kept
    return [kept]


def _set_novelty(chunk, novelty):
    try:
        values = _float32(novelty)
    except (TypeError, ValueError):
        raise KvloupeError("novelty cannot be used", "it is no array of numbers", "give [past + m]") from None
    if values.shape != (chunk.past + chunk.q.shape[1],):
        raise KvloupeError("novelty cannot be used", f"its shape is {values.shape}", f"give {(chunk.past + chunk.q.shape[1],)}")
    chunk.novelty = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return values


