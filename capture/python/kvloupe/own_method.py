"""Selections of a method that KVLoupe does not have: asked of a function, and checked."""
import operator
import re

import numpy as np

from . import plugin
from .errors import KvloupeError, one_line
from .runs import DENSE_FALLBACK

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
AXES = ("kv_head", "q_head")
ARRAYS = ("numpy", "torch")


class OutOfMemory(KvloupeError):
    """Of a method. What it may have is known to who called it."""


def check_name(name):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise KvloupeError(f"{name!r} is no name for a method", "it takes 1 to 64 letters, digits and _ . + -, and begins with one of the first two",
                           "give another name")
    return f"custom:{name}"


class Cells:
    """What one layer keeps: the cells of FORMAT.md, section 6, numbered chunk * rows + row, as they are added."""

    def __init__(self):
        self.flags, self.offsets, self.positions = [], [0], []
        self.scores = []  # of the candidates of each cell that chooses, where all of them were chosen by scores

    @classmethod
    def of(cls, flags, offsets, positions, scores=None):
        cells = cls()
        cells.flags, cells.offsets, cells.positions = list(flags), list(offsets), [positions]
        cells.scores = None if scores is None else [scores]
        return cells

    def add(self, kept, dense, scores=None):
        self.flags.append(DENSE_FALLBACK if dense else 0)
        self.positions.append(np.zeros(0, np.int32) if dense else kept)
        self.offsets.append(self.offsets[-1] + len(self.positions[-1]))
        if not dense and scores is None:
            self.scores = None
        elif not dense and self.scores is not None:
            self.scores.append(scores)

    def arrays(self):
        arrays = dict(offsets=np.array(self.offsets, "<i8"), flags=np.array(self.flags, "u1"),
                      positions=np.concatenate(self.positions or [[]]).astype("<i4"))
        if self.scores:
            arrays["scores"] = np.concatenate(self.scores).astype("<f4")
        return arrays


def select_layers(trace, select, axis, budget, layers, arrays="numpy"):
    """{layer: Cells} of a function `select(layer, chunk, q, k, v)`, which gets these arrays."""
    check_function(select, axis, budget)
    given = _Tensors if arrays == "torch" else _Arrays
    return {layer: _select_layer(trace, select, num_rows(trace, axis), budget, layer, given) for layer in layers_of(trace, layers)}


def check_arrays(arrays):
    if not isinstance(arrays, str) or arrays not in ARRAYS:
        raise KvloupeError(f"arrays={arrays!r} is unknown", "a function gets arrays of numpy or tensors of torch", f"give one of {ARRAYS}")
    if arrays == "torch":
        try:
            import torch  # noqa: F401
        except ImportError:
            raise KvloupeError('arrays="torch" cannot be used', "torch is not installed", "pip install torch, or take arrays of numpy") from None


def check_function(select, axis, budget):
    check_axis(axis)
    if not callable(select):
        raise KvloupeError(f"{select!r} selects nothing", "it cannot be called", "pass a function of (layer, chunk, q, k, v)")
    check_budget(budget)


def check_budget(budget):
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, np.integer)) or budget < 1):
        raise KvloupeError(f"{budget!r} is no budget", "it is a number of keys, 1 or more", "give another, or none")


def check_axis(axis):
    if axis not in AXES:
        raise KvloupeError(f'rows="{axis}" is unknown', "a method keeps a set for each KV head or for each query head", f"give one of {AXES}")


def num_rows(trace, axis):
    return trace.model["num_kv_heads" if axis == "kv_head" else "num_q_heads"]


def layers_of(trace, layers):
    wanted = trace.layers if layers is None else _whole_numbers(layers)
    for layer in wanted:
        trace.layer(layer)  # refuses one that was not recorded
    if not wanted:
        raise KvloupeError(f"{trace.path} has no layer to select in", "none was recorded or named", "name one of " + str(trace.layers))
    return wanted


def _whole_numbers(layers):
    try:
        listed = list(layers) if hasattr(layers, "__iter__") else [layers]
        if isinstance(layers, str) or any(isinstance(layer, bool) for layer in listed):
            raise TypeError
        return sorted({operator.index(layer) for layer in listed})
    except TypeError:
        raise KvloupeError(f"layers={layers!r} names no layers", "they are numbers", "write layers=21 or layers=[20, 21]") from None


class _Arrays:
    """Queries, keys and values of a layer as a function gets them. It must not change them: the next chunk sees them, too."""

    def __init__(self, arrays):
        self._arrays = arrays
        for values in arrays:
            values.flags.writeable = False

    def of(self, chunk):
        return [rows[:, begin:end] for rows, (begin, end) in zip(self._arrays, ((chunk.begin, chunk.end), (0, chunk.begin), (0, chunk.begin)))]

    def check_unchanged(self, where):
        pass


class _Tensors(_Arrays):
    def __init__(self, arrays):
        import torch
        with torch.inference_mode(False):  # whose tensors do not count
            self._arrays = [torch.from_numpy(values) for values in arrays]

    def check_unchanged(self, where):
        # Tensors cannot be made read-only. They count what is written to them and to what shares their memory.
        if any(tensor._version for tensor in self._arrays):
            raise KvloupeError(f"the method changed its arrays in {where}", "they are what the next chunk sees, too", "change a copy, such as k.clone()")


def _select_layer(trace, select, rows, budget, layer, form):
    stored, cells = trace.layer(layer), Cells()
    q, k, v = (np.asarray(stored.array(name)[:, :, :], dtype=np.float32) for name in "qkv")
    for name, values in zip("qkv", (q, k, v)):
        if not np.isfinite(values).all():
            raise KvloupeError(f"{name} of layer {layer} holds values that are not finite", "nothing can be ranked by them", "record it again, or leave the layer out")
    arrays = form([q, k, v])
    for index, chunk in enumerate(trace.chunks):
        chosen = choose(select, layer, index, arrays.of(chunk), rows, stored.first_visible(chunk.begin), budget)
        arrays.check_unchanged(f"layer {layer}, chunk {index}")
        for kept, scores in chosen or [(None, None)] * rows:
            cells.add(kept, dense=chosen is None, scores=scores)
    return cells


def choose(select, layer, chunk, given, rows, first, budget):
    """What the function keeps of the past, which is as long as the keys of given = (q, k, v), from the position `first` on: for each
    row (positions, scores or None). None where there is nothing to choose."""
    past = given[1].shape[1]
    if past == first or (budget is not None and past - first <= budget):
        return None
    where = f"layer {layer}, chunk {chunk}"
    return kept_keys(_ask(select, where, layer, chunk, *given), where, rows, first, past, budget)


def _ask(select, where, *arguments):
    try:
        return select(*arguments)
    except Exception as error:
        if lacks_memory(error):
            raise OutOfMemory(f"the method ran out of memory in {where}", f"{_place_of(error, select)}{one_line(error)}", "let it take less") from error
        raise KvloupeError(f"the method failed in {where}", f"{_place_of(error, select)}{one_line(error)}", "mend it and run it again") from error


def lacks_memory(error):
    """On a CPU torch says so by a RuntimeError."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def _place_of(error, select):
    """Where in the method's own file it failed: the innermost such line. Of a library the lines are not known."""
    if isinstance(select, plugin.Method):
        return f"{select.path}: "
    file = getattr(getattr(select, "__code__", None), "co_filename", None)
    frame, line = error.__traceback__, None
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            line = frame.tb_lineno
        frame = frame.tb_next
    return f"line {line} of {file}: " if line else ""


def kept_keys(given, where, rows, first, past, budget):
    """For each row (positions, scores): the ascending positions in [first, past) that `given` means, positions, a mask [rows, past],
    or with a budget scores [rows, past], and those scores of the candidates or None."""
    if given is None:
        raise KvloupeError(f"nothing came back for {where}", "the function returned None", "return positions, a mask or scores")
    try:
        given = given if hasattr(given, "__len__") else list(given)
    except TypeError:
        raise KvloupeError(f"{type(given).__name__} came back for {where}", "it has no rows", "return positions, a mask or scores for each row") from None
    if len(given) != rows:
        raise KvloupeError(f"{len(given)} rows came back for {where}", f"there are {rows}", 'return one a row; rows= says whether a row is a kv_head or a q_head')
    return [_kept_of_row(row, f"{where}, row {i}", first, past, budget) for i, row in enumerate(given)]


def _kept_of_row(row, where, first, past, budget):
    try:
        values = np.asarray(_on_host(row) if hasattr(row, "detach") else list(row) if isinstance(row, range) else row)
    except Exception as error:
        if lacks_memory(error):
            raise OutOfMemory(f"what came back for {where} takes too much memory", one_line(error), "let it take less") from error
        raise KvloupeError(f"what came back for {where} is no array", one_line(error), "return positions, a mask or scores for each row") from None
    if values.ndim != 1:
        raise KvloupeError(f"{values.shape} came back for {where}", "a row has one axis", "return positions, a mask or scores for each row")
    if values.dtype.kind == "f" and values.size:
        return _best(_of_length(values, where, past), where, first, budget)
    if values.dtype.kind == "b":
        kept = np.flatnonzero(_of_length(values, where, past))
    elif budget is not None and len(values) == past and values.dtype.kind in "iu":
        # More than the budget, or the method would not have been asked. Taken as positions, scores such as ranks could keep everything.
        raise KvloupeError(f"{past} integers came back for {where}", "integers are positions, and there are as many as keys",
                           "return scores as floats, or a mask to keep all keys")
    elif values.dtype.kind in "iu" or not values.size:
        kept = values.astype(np.int64)
    else:
        raise KvloupeError(f"{values.dtype} came back for {where}", "positions are integers, a mask is bool, scores are floats", "return one of them")
    if kept.size and (np.diff(kept) <= 0).any():
        raise KvloupeError(f"the positions of {where} do not ascend", "each is larger than the one before it", "sort them, and name none twice")
    outside = kept[(kept < first) | (kept >= past)]
    if outside.size:
        raise KvloupeError(f"position {outside[0]} of {where} is none of its candidates", f"they are {first} to {past - 1}: what the queries see before the chunk",
                           "leave it out; the chunk's own keys are always visible")
    return kept.astype(np.int32), None


def _on_host(row):
    row = row.detach().cpu()
    return row.float() if str(row.dtype) == "torch.bfloat16" else row  # which numpy does not have


def _of_length(values, where, past):
    if len(values) != past:
        raise KvloupeError(f"{len(values)} values came back for {where}", f"there are {past} keys before the chunk", "return one a key")
    return values


def _best(scores, where, first, budget):
    """The rule of the program: score descending, then position ascending, in fp32; NaN last."""
    if budget is None:
        raise KvloupeError(f"scores came back for {where}", "nothing says how many keys to keep", "give a budget, or return positions or a mask")
    scores = scores[first:].astype(np.float32)
    unknown = np.isnan(scores)
    order = np.lexsort((np.arange(len(scores)), -np.where(unknown, 0, scores), unknown))
    return np.sort(order[:budget]).astype(np.int32) + np.int32(first), scores
