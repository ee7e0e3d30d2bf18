"""Selections that another program wrote as arrays: positions padded by -1, boolean masks or CSR, by chunk or by token."""
import numpy as np

from .array_files import names_of
from .errors import KvloupeError, one_line
from .own_method import AXES, Cells, check_axis, layers_of, num_rows

CSR = {"offsets", "positions"}
FORMS = "give integers [chunks, layers, (rows,) k] padded by -1, a mask [chunks, layers, (rows,) T], or offsets and positions (tokens may stand in the place of chunks)"


def layers_from_arrays(trace, given, axis, layers):
    """(axis of the rows, {layer: Cells}) of an array or of {"offsets", "positions"}. Without an axis of rows all rows of a layer
    keep the same; `axis` None: its length says whose rows they are.

    The keys of a chunk itself are always visible and no part of a selection: they are left out. Of tokens each query names its own
    keys, and a chunk's row keeps what any of its queries named."""
    wanted = layers_of(trace, layers)
    if layers is not None and hasattr(layers, "__iter__") and list(layers) != wanted:
        raise KvloupeError(f"layers={list(layers)} cannot be taken", "the arrays have the layers in ascending order, each once", "sort both")
    if axis is not None:
        check_axis(axis)
    selections = _selections(given, trace, len(wanted), axis)
    axis = axis or selections.axis or "kv_head"
    return axis, {layer: _cells_of(trace, trace.layer(layer), selections, i, num_rows(trace, axis)) for i, layer in enumerate(wanted)}


def _selections(given, trace, layers, axis):
    if isinstance(given, dict):
        if not CSR <= set(given) <= CSR | {"shape"}:
            raise KvloupeError(f"arrays named {names_of(given)} cannot be taken", "CSR has offsets and positions", FORMS)
        offsets, positions = (_array(given[name], name) for name in ("offsets", "positions"))
        shape = _shape_in(given)
        return _Csr(trace, layers, axis, offsets, positions, shape)
    values = _array(given, "positions")
    if values.dtype.kind not in "biu" or values.ndim not in (3, 4):
        raise KvloupeError(f"positions of {values.dtype} and shape {values.shape} cannot be taken", "they are integers or bool with 3 or 4 axes", FORMS)
    return (_Masks if values.dtype.kind == "b" else _Padded)(trace, layers, axis, values)


def _shape_in(given):
    if "shape" not in given:
        return None
    shape = _array(given["shape"], "shape")
    if shape.dtype.kind not in "iu" or shape.ndim != 1 or len(shape) not in (2, 3):
        raise KvloupeError(f"a shape of {shape.dtype} and shape {shape.shape} cannot be taken", "it is a vector of 2 or 3 integers", "give [chunks, layers] or [chunks, layers, rows]")
    return shape.tolist()


def _array(given, name):
    try:
        return given if isinstance(given, np.ndarray) else np.asarray(given)
    except (ValueError, TypeError) as error:
        raise KvloupeError(f"{name} cannot be taken", one_line(error), "give an array, with -1 where a row keeps fewer") from None


class _Selections:
    """What the entries of chunks or tokens name, layer by layer."""

    def __init__(self, trace, layers, axis, shape):
        """shape: (entries, layers) or (entries, layers, rows)."""
        chunks, tokens = len(trace.chunks), trace.num_tokens
        if shape[0] not in (chunks, tokens):
            raise KvloupeError(f"the first axis is {shape[0]} long", f"the trace has {chunks} chunks and {tokens} tokens", "give one entry for each chunk, or for each token")
        if shape[1] != layers:
            raise KvloupeError(f"the axis of layers is {shape[1]} long", f"{layers} layers are selected in", "give an entry for each, or name the layers that there are")
        self.by_token = shape[0] != chunks
        self.axis = None
        if len(shape) == 3:
            self.axis = self._axis_of(trace, shape[2], axis)

    @staticmethod
    def _axis_of(trace, length, axis):
        for one in AXES if axis is None else (axis,):
            if length == num_rows(trace, one):
                return one
        heads = " or ".join(f"{num_rows(trace, one)} {'KV' if one == 'kv_head' else 'query'} heads" for one in (AXES if axis is None else (axis,)))
        raise KvloupeError(f"the axis of rows is {length} long", f"there are {heads}", "give a row for each, or none")

    def entries_of(self, stored, index, chunk):
        """The entries [begin, end) of a chunk, and for each the positions that it sees: from, to."""
        if self.by_token:
            queries = range(chunk.begin, chunk.end)
            return chunk.begin, chunk.end, np.array([stored.first_visible(query) for query in queries]), np.array(queries) + 1
        return index, index + 1, np.array([stored.first_visible(chunk.begin)]), np.array([chunk.end])

    def pairs(self, begin, end, layer, row):
        """(entry from `begin` on, position) of each key that these entries name, -1 for nothing left out."""
        raise NotImplementedError


class _Padded(_Selections):
    def __init__(self, trace, layers, axis, values):
        super().__init__(trace, layers, axis, values.shape[:-1])
        self._values = values

    def pairs(self, begin, end, layer, row):
        block = self._values[begin:end, layer] if self._values.ndim == 3 else self._values[begin:end, layer, row]
        entries, places = np.nonzero(block != -1) if block.dtype.kind == "i" else np.nonzero(np.ones(block.shape, bool))
        return entries, block[entries, places]


class _Masks(_Selections):
    def __init__(self, trace, layers, axis, values):
        super().__init__(trace, layers, axis, values.shape[:-1])
        if values.shape[-1] != trace.num_tokens:
            raise KvloupeError(f"the mask has {values.shape[-1]} keys", f"the trace has {trace.num_tokens} tokens", "give a mask of all tokens")
        self._values = values

    def pairs(self, begin, end, layer, row):
        return np.nonzero(self._values[begin:end, layer] if self._values.ndim == 3 else self._values[begin:end, layer, row])


class _Csr(_Selections):
    """Cells in the order of (chunks or tokens, layers, rows), the last fastest."""

    def __init__(self, trace, layers, axis, offsets, positions, shape):
        for name, values in (("offsets", offsets), ("positions", positions)):
            if values.dtype.kind not in "iu" or values.ndim != 1:
                raise KvloupeError(f"{name} of {values.dtype} and shape {values.shape} cannot be taken", "it is a vector of integers", FORMS)
        if not offsets.size or offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] != len(positions):
            raise KvloupeError("the offsets do not fit the positions", f"they rise from 0 to the number of positions, {len(positions)}", "give one more of them than there are cells")
        shape = self._shape_of(trace, layers, axis, len(offsets) - 1, shape)
        super().__init__(trace, layers, axis, shape)
        self._cells = np.arange(len(offsets) - 1).reshape(shape)
        self._offsets, self._positions = offsets.astype(np.int64), positions

    @staticmethod
    def _shape_of(trace, layers, axis, cells, shape):
        if shape is not None:
            if any(length < 1 for length in shape) or int(np.prod(shape, dtype=object)) != cells:
                raise KvloupeError(f"the shape {shape} does not fit the offsets", f"they have {cells} cells", "give [chunks, layers] or [chunks, layers, rows]")
            return tuple(shape)
        lengths = {num_rows(trace, one) for one in (AXES if axis is None else (axis,))}
        rows = [[]] + [[length] for length in lengths if length > 1]  # an axis of one row says what none says
        possible = {(entries, layers, *row) for entries in (len(trace.chunks), trace.num_tokens) for row in rows}
        fits = [one for one in sorted(possible) if int(np.prod(one)) == cells]
        if len(fits) != 1:
            why = f"{' and '.join(map(str, fits))} both fit" if fits else f"{' or '.join(str(int(np.prod(one))) for one in sorted(possible))} are expected: chunks or tokens, times layers, times rows"
            raise KvloupeError(f"the offsets have {cells} cells", why, "say which by an array named shape" if fits else "give offsets of all cells, and one more")
        return fits[0]

    def pairs(self, begin, end, layer, row):
        cells = self._cells[begin:end, layer] if self._cells.ndim == 2 else self._cells[begin:end, layer, row]
        parts = [self._positions[self._offsets[cell] : self._offsets[cell + 1]] for cell in cells]
        return np.repeat(np.arange(len(cells)), [len(part) for part in parts]), np.concatenate(parts)


def _cells_of(trace, stored, selections, layer, rows):
    cells = Cells()
    for index, chunk in enumerate(trace.chunks):
        first = stored.first_visible(chunk.begin)
        begin, end, visible, future = selections.entries_of(stored, index, chunk)
        for row in range(rows):
            if row == 0 or selections.axis is not None:
                entries, positions = selections.pairs(begin, end, layer, row)
                where = f"layer {stored.number}, row {row}, " + ("token {}" if selections.by_token else "chunk {}")
                _check(where, begin, entries, positions, visible, future)
                kept = np.unique(positions[positions < chunk.begin]).astype(np.int32)
            cells.add(kept, dense=chunk.begin == first)
    return cells


def _check(where, begin, entries, positions, visible, future):
    def refuse_first(wrong, why, what_to_do):
        if wrong.any():
            at = int(np.argmax(wrong))
            raise KvloupeError(f"position {positions[at]} of {where.format(begin + int(entries[at]))} cannot be kept", why(at), what_to_do)

    refuse_first(positions < 0, lambda at: "-1 stands for nothing, and no other number is negative", "give positions from 0 on")
    refuse_first(positions >= future[entries], lambda at: f"it is of the future: the last key visible there is {future[entries[at]] - 1}", "leave it out")
    refuse_first(positions < visible[entries], lambda at: f"the layer's window begins at {visible[entries[at]]} there", "leave it out")
    order = np.lexsort((positions, entries))
    again = np.zeros(len(order), bool)
    again[order[1:]] = (np.diff(entries[order]) == 0) & (np.diff(positions[order].astype(np.int64)) == 0)
    refuse_first(again, lambda at: "it is named twice", "name each once")
