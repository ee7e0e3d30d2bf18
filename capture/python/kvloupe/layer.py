"""One captured layer of a trace: lazy arrays, and the attention that they imply."""
import math
import operator

import numpy as np

from .errors import KvloupeError
from .stored import Defect, attribute, float_attribute, int_attribute, member, open_dataset, read

STORED = ("float16", "float32")
FAR_APART = 4


def _sound(dataset, box):
    try:
        return read(dataset, box)
    except Defect as defect:
        raise KvloupeError("a layer cannot be read", str(defect), "the file is damaged; record it again") from None


def _whole_key(key):
    """An index for each of the three axes."""
    key = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, item in enumerate(key) if item is Ellipsis]
    if len(dots) > 1 or len(key) - len(dots) > 3:
        raise IndexError("there are three axes: heads, tokens, channels")
    at = dots[0] if dots else len(key)
    key[at : at + 1] = [slice(None)] * (3 - len(key) + len(dots))
    return key


class _Axis:
    """An index of one axis: what of it is read (`stored`), and where in that it is (`within`), as numpy takes it."""

    def __init__(self, item, length):
        self.is_list = False
        if isinstance(item, slice):
            self._take_slice(*item.indices(length))
        elif hasattr(item, "__index__") and np.ndim(item) == 0 and not isinstance(item, (bool, np.bool_)):
            at = int(_inside(np.array([operator.index(item)]), length)[0])
            self.stored, self.within = slice(at, at + 1), 0
        else:
            self._take_list(_positions(item, length))

    def _take_slice(self, begin, end, step):
        count = len(range(begin, end, step))
        last = begin + (count - 1) * step
        if count == 0:
            self.stored, self.within = slice(0, 0), slice(None)
        elif step > 0:
            self.stored, self.within = slice(begin, last + 1, step), slice(None)
        else:
            self.stored, self.within = slice(last, begin + 1, -step), slice(None, None, -1)

    def _take_list(self, positions):
        self.is_list = True
        begin, end = (int(positions.min()), int(positions.max()) + 1) if positions.size else (0, 0)
        self.around, self.within_around = slice(begin, end), positions - begin
        self.stored, self.within = self.around, self.within_around
        distinct, within = np.unique(positions, return_inverse=True)
        if FAR_APART * distinct.size < end - begin:  # else HDF5 reads the range sooner than each by itself
            self.stored, self.within = distinct, within


def _positions(item, length):
    """Of a list or a mask, from 0 on."""
    given = np.asarray(item)
    if given.shape == (0,) and given.dtype.kind == "f":  # as numpy reads []
        given = given.astype(np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iub":
        raise IndexError("an axis takes a number, a slice, a list of numbers or a mask of its length; take np.asarray(array)[..] for others")
    if given.dtype.kind != "b":
        return _inside(given.astype(np.int64), length)
    if len(given) != length:
        raise IndexError(f"a mask of {len(given)} for an axis of {length}")
    return np.flatnonzero(given)


def _inside(positions, length):
    outside = positions[(positions < -length) | (positions >= length)]
    if outside.size:
        raise IndexError(f"index {outside[0]} of {length}")
    return np.where(positions < 0, positions + length, positions)


class HeadArray:
    """q, k or v, [heads, T, head_dim]: indexed like an array, read from the file where it is."""

    def __init__(self, dataset, num_tokens):
        self._dataset = dataset
        self.shape = (dataset.shape[0], num_tokens, dataset.shape[2])
        self.dtype = dataset.dtype.newbyteorder("=")
        self.ndim = 3

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        """Room beyond the tokens is no part of it. What is read is a box around it; the key goes on to numpy, which picks from that."""
        axes = [_Axis(item, length) for item, length in zip(_whole_key(key), self.shape)]
        lists = [axis for axis in axes if axis.is_list]
        # HDF5 picks along one axis alone.
        box = tuple(axis.around if axis in lists[1:] else axis.stored for axis in axes)
        return self._read(box)[tuple(axis.within_around if axis in lists[1:] else axis.within for axis in axes)]

    def _read(self, box):
        return _sound(self._dataset, box)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[:, :, :], dtype=dtype)


class Layer:
    """softmax_scale, window (0: none), softcap (0: none), sinks (None or [q heads]) say what its softmax is."""

    def __init__(self, file, number, model, chunks, query_offsets):
        group = member(file, f"/layers/{number}")
        self.number = number
        self.scale = model["softmax_scale"]
        self.group_size = model["num_q_heads"] // model["num_kv_heads"]
        self.num_q_heads, self.num_tokens = model["num_q_heads"], chunks[-1].end if chunks else 0
        self._chunks, self._query_offsets = chunks, query_offsets
        self.window = int_attribute(group, "window") or 0
        self.softcap = float_attribute(group, "softcap") or 0.0
        self.sinks = attribute(group, "sink_logit")
        self._check_softmax(group)
        shapes = dict(q=model["num_q_heads"], k=model["num_kv_heads"], v=model["num_kv_heads"])
        self.arrays = {}
        for name, heads in shapes.items():
            if member(group, name) is None:
                continue
            dataset = open_dataset(group, name, "float", 3)
            num_rows = self.num_tokens if name != "q" or query_offsets is None else int(query_offsets[-1])
            if dataset.shape[0] != heads or dataset.shape[2] != model["head_dim"] or dataset.shape[1] < num_rows:
                raise Defect(f"{dataset.name} has shape {dataset.shape} where {(heads, num_rows, model['head_dim'])} is needed")
            if dataset.dtype.newbyteorder("=").name not in STORED:
                raise Defect(f"{dataset.name} is neither float16 nor float32")
            self.arrays[name] = HeadArray(dataset, num_rows)
        self._lse = None
        if member(group, "lse") is not None:
            dataset = open_dataset(group, "lse", "float", 2)
            if dataset.shape[0] == self.num_q_heads and dataset.shape[1] >= self.num_tokens:
                self._lse = dataset

    def _check_softmax(self, group):
        where = f"of {group.name}; the layer is left out"
        if self.window < 0 or (self.window == 0 and "window" in group.attrs):
            raise Defect(f"{self.window} is no window {where}")
        if not math.isfinite(self.softcap) or self.softcap < 0 or (self.softcap == 0 and "softcap" in group.attrs):
            raise Defect(f"{self.softcap} is no softcap {where}")
        if self.sinks is not None:
            self.sinks = np.atleast_1d(np.asarray(self.sinks, dtype=np.float64))
            if self.sinks.shape != (self.num_q_heads,) or not np.isfinite(self.sinks).all():
                raise Defect(f"sink_logit does not hold a finite number for each query head {where}")

    def array(self, name):
        if name not in self.arrays:
            raise KvloupeError(f"layer {self.number} has no {name}", "it was recorded without qkv", "record again with store qkv")
        if name == "q":
            self._first_query(0, self.num_tokens)
        return self.arrays[name]

    def queries(self, begin, end, head=slice(None)):
        """[q heads, end - begin, head_dim] of these tokens, or of one head."""
        first = self._first_query(begin, end)
        if "q" not in self.arrays:
            return self.array("q")
        return self.arrays["q"][head, first : first + end - begin]

    def _first_query(self, begin, end):
        """Where the queries of these tokens begin in q."""
        if self._query_offsets is None or begin == end:
            return begin
        has = np.diff(self._query_offsets) > 0
        touched = [index for index, chunk in enumerate(self._chunks) if chunk.begin < end and begin < chunk.end]
        for index in touched:
            if not has[index]:
                those = ", ".join(str(chunk) for chunk in np.flatnonzero(has)) or "none"
                raise KvloupeError(f"the queries of chunk {index} are not in the trace", f"those of these chunks alone were stored: {those}",
                                   'name one of these, or record again with queries="all"')
        return int(self._query_offsets[touched[0]]) + begin - self._chunks[touched[0]].begin

    def first_visible(self, position):
        return max(0, position - self.window + 1) if self.window else 0

    def lse(self, q_head=None):
        """[q heads, T] or of one head [T]; computed where the trace has none."""
        if self._lse is not None:
            head = slice(None) if q_head is None else q_head
            return _sound(self._lse, (head, slice(0, self.num_tokens))).astype(np.float32)
        heads = range(self.num_q_heads) if q_head is None else [q_head]
        rows = np.stack([self._computed_lse(head) for head in heads])
        return rows if q_head is None else rows[0]

    def _computed_lse(self, q_head):
        pieces = []
        for begin in range(0, self.num_tokens, 256):
            logits = self._logits(q_head, begin, min(begin + 256, self.num_tokens))
            pieces.append(self._log_sum(logits, q_head))
        return np.concatenate(pieces).astype(np.float32) if pieces else np.zeros(0, np.float32)

    def _log_sum(self, logits, q_head):
        largest = logits.max(axis=1, initial=-np.inf if self.sinks is None else self.sinks[q_head])
        total = np.exp(logits - largest[:, None]).sum(axis=1)
        if self.sinks is not None:
            total += np.exp(self.sinks[q_head] - largest)
        return largest + np.log(total)

    def _logits(self, q_head, begin, end):
        """[end - begin, end] in fp64, minus infinity where a query does not see the key."""
        q = self.queries(begin, end, q_head).astype(np.float64)
        k = self.array("k")[q_head // self.group_size, :end].astype(np.float64)
        logits = self.scale * (q @ k.T)
        if self.softcap:
            logits = self.softcap * np.tanh(logits / self.softcap)
        rows, keys = np.arange(begin, end)[:, None], np.arange(end)[None, :]
        hidden = keys > rows
        if self.window:
            hidden |= keys <= rows - self.window
        logits[hidden] = -np.inf
        return logits

    def attention(self, q_head, begin, end):
        """Probabilities [end - begin, end] of the rows begin to end, over the keys from 0: float32. A sink's share is missing."""
        logits = self._logits(q_head, begin, end)
        return np.exp(logits - self._log_sum(logits, q_head)[:, None]).astype(np.float32)
