"""What a method selected, as it stands in a trace or beside it."""
import hashlib
import re

import numpy as np

from .errors import KvloupeError
from .header import Defect
from .stored import int_attribute, member, open_dataset, read, read_range, text_attribute

WORDS = {"mode": ("open_loop", "closed_loop"), "row_axis": ("kv_head", "q_head", "subgroup"),
         "granularity": ("token", "page", "block", "lane", "none"), "state_action": ("visibility", "eviction")}
DENSE_FALLBACK, DENSE_BY_RULE = 1, 2
ALIVE = 65535


class Run:
    """id, method (its canonical text), mode, row_axis, q_heads_per_row, granularity, state_action, budget_scope, layers."""

    def __init__(self, group, id, trace, file):
        self._group, self._trace, self.id = group, trace, id
        self._file = file  # stays open with it
        self.trace_path = trace.absolute_path
        self.method = text_attribute(group, "method")
        if not self.method:
            raise Defect("its attribute method is missing")
        for name, words in WORDS.items():
            word = text_attribute(group, name)
            if word not in words:
                raise Defect(f'its {name} is "{word}", an unknown word')
            setattr(self, name, word)
        # Files before 1.10 say it in the method's text alone.
        in_text = "all" if re.search(r"\bbudget_scope=all\b", self.method) else "past"
        self.budget_scope = text_attribute(group, "budget_scope") or in_text
        if self.budget_scope not in ("past", "all"):
            raise Defect(f'its budget_scope is "{self.budget_scope}", an unknown word')
        group_size = trace.model["num_q_heads"] // trace.model["num_kv_heads"]
        by_axis = 1 if self.row_axis == "q_head" else group_size
        self.q_heads_per_row = int_attribute(group, "q_heads_per_row") or by_axis
        divides = self.q_heads_per_row <= group_size and group_size % self.q_heads_per_row == 0
        if self.q_heads_per_row < 1 or not (divides if self.row_axis == "subgroup" else self.q_heads_per_row == by_axis):
            raise Defect(f"its q_heads_per_row is {self.q_heads_per_row}")
        self.num_rows = trace.model["num_q_heads"] // self.q_heads_per_row
        stored = member(group, "layers")
        self.layers = [layer for layer in trace.layers if stored is not None and member(stored, str(layer)) is not None]
        self._loaded = {}

    def selected(self, layer, chunk, row):
        """Positions, ascending int32: of a cell that is dense all its candidates."""
        if layer not in self.layers or not 0 <= chunk < len(self._trace.chunks) or not 0 <= row < self.num_rows:
            raise KvloupeError(f"run {self.id} has no cell for layer {layer}, chunk {chunk}, row {row}",
                               f"it has {len(self.layers)} layers, {len(self._trace.chunks)} chunks and {self.num_rows} rows",
                               "see run.layers, trace.chunks and run.num_rows")
        cells = self._cells(layer)
        cell = chunk * self.num_rows + row
        if cells["flags"][cell] & (DENSE_FALLBACK | DENSE_BY_RULE):
            return np.arange(*self.candidates(layer, chunk), dtype=np.int32)
        return cells["positions"][cells["offsets"][cell] : cells["offsets"][cell + 1]].copy()

    def scores(self, layer, chunk, row):
        """What the method gave each of the cell's candidates, float32 by position; None where it is dense or no scores were stored."""
        self.selected(layer, chunk, row)  # refuses what is no cell
        group, cells = member(self._group, f"layers/{layer}"), self._cells(layer)
        if member(group, "scores") is None or cells["flags"][chunk * self.num_rows + row]:
            return None
        counts = np.repeat([end - begin for begin, end in (self.candidates(layer, index) for index in range(len(self._trace.chunks)))], self.num_rows)
        counts = np.where(cells["flags"] == 0, counts, 0)
        begin = int(counts[: chunk * self.num_rows + row].sum())
        end = begin + int(counts[chunk * self.num_rows + row])
        try:
            stored = open_dataset(group, "scores", "float", 1)
            if end > stored.shape[0]:
                raise Defect(f"they end at {stored.shape[0]} of {end}")
            return read_range(stored, begin, end, np.float32)
        except Defect as defect:
            raise KvloupeError(f"the scores of layer {layer} of run {self.id} cannot be read", str(defect), "use another run") from None

    def candidates(self, layer, chunk):
        """[begin, end) of the keys that the chunk's selection is about."""
        at = self._trace.chunks[chunk]
        return self._trace.layer(layer).first_visible(at.begin), at.end if self.budget_scope == "all" else at.begin

    def table(self):
        """One line a cell: layer, chunk, row, begin, length, phase, candidates, selected, dense. A pandas DataFrame where pandas
        is installed, else a structured array."""
        columns = [("layer", "i4"), ("chunk", "i4"), ("row", "i4"), ("begin", "i4"), ("length", "i4"), ("phase", "U7"),
                   ("candidates", "i4"), ("selected", "i4"), ("dense", "?")]
        lines = []
        for layer in self.layers:
            cells = self._cells(layer)
            for index, chunk in enumerate(self._trace.chunks):
                begin, end = self.candidates(layer, index)
                for row in range(self.num_rows):
                    cell = index * self.num_rows + row
                    dense = bool(cells["flags"][cell])
                    kept = end - begin if dense else int(cells["offsets"][cell + 1] - cells["offsets"][cell])
                    lines.append((layer, index, row, chunk.begin, chunk.length, chunk.phase, end - begin, kept, dense))
        table = np.array(lines, dtype=columns)
        try:
            import pandas
        except ImportError:
            return table
        return pandas.DataFrame(table)

    def _cells(self, layer):
        if layer not in self._loaded:
            try:
                self._loaded[layer] = self._load(layer, member(self._group, f"layers/{layer}"))
            except Defect as defect:
                raise self._unreadable(layer, defect) from None
        return self._loaded[layer]

    def _unreadable(self, layer, defect):
        return KvloupeError(f"layer {layer} of run {self.id} cannot be read", str(defect), "use another run")

    def _load(self, layer, group):
        chunks = self._trace.chunks
        count = len(chunks) * self.num_rows
        absent = all(member(group, name) is None for name in ("offsets", "positions", "flags"))
        if self.granularity == "lane" and self.state_action == "visibility" and absent:
            flags = np.repeat([DENSE_FALLBACK if chunk.begin == 0 else DENSE_BY_RULE for chunk in chunks], self.num_rows)
            return dict(offsets=np.zeros(count + 1, np.int64), positions=np.zeros(0, np.int32), flags=flags.astype(np.uint8))
        offsets = read_range(open_dataset(group, "offsets", "integer", 1), 0, count + 1)
        stored = open_dataset(group, "positions", "integer", 1)
        if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] > stored.shape[0]:
            raise Defect("its offsets do not rise from 0 inside its positions")
        positions = read_range(stored, 0, int(offsets[-1]), np.int32)
        for cell in range(count):
            part = positions[offsets[cell] : offsets[cell + 1]]
            if not part.size:
                continue
            begin, end = self.candidates(layer, cell // self.num_rows)
            if part[0] < begin or part[-1] >= end or (np.diff(part) <= 0).any():
                raise Defect(f"positions of chunk {cell // self.num_rows}, row {cell % self.num_rows} do not rise in its candidates [{begin}, {end})")
        flags = read_range(open_dataset(group, "flags", "integer", 1), 0, count, np.uint8)
        return dict(offsets=offsets, positions=positions, flags=flags)

    def evicted_after(self, layer):
        """[rows, T]: the chunk after which each key died, 65535 alive; None for a method that drops none."""
        if self.state_action != "eviction":
            return None
        try:
            dataset = open_dataset(self._group, f"layers/{layer}/evict_chunk", "integer", 2)
            deaths = self._read_deaths(dataset).astype(np.uint16)
        except Defect as defect:
            raise self._unreadable(layer, defect) from None
        deaths[deaths >= len(self._trace.chunks)] = ALIVE
        return deaths

    def _read_deaths(self, dataset):
        needed = self.num_rows, self._trace.num_tokens
        if any(has < needs for has, needs in zip(dataset.shape, needed)):
            raise Defect(f"{dataset.name} has shape {dataset.shape} where {needed} is needed")
        return read(dataset, tuple(slice(0, count) for count in needed))


def hash_of_trace(trace):
    """trace_hash of FORMAT.md, section 9, which a sidecar names."""
    model = trace.model
    lines = ["kvloupe-trace-hash-1", trace.mode, trace.dtype, model["name"], model["architecture"], model["file_hash"],
             *(model[name] for name in ("num_layers", "num_q_heads", "num_kv_heads", "head_dim"))]
    for chunk in trace.chunks:
        lines += [chunk.begin, chunk.length, int(chunk.phase == "decode")]
    lines += trace.tokens.tolist()
    if trace.query_offsets is not None:
        lines += trace.query_offsets.tolist()
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines).encode())
    for layer in trace.layers:
        digest.update(f"{layer}\n".encode())
        arrays = trace.layer(layer).arrays
        for name in ("q", "k", "v"):
            if name in arrays and arrays[name].shape[1]:
                digest.update(arrays[name][0, -1].astype("<f4").tobytes())
    return digest.hexdigest()
