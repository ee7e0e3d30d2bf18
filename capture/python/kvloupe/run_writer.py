"""The run that a model attended to, as it comes: /runs/0 of a trace in closed loop (FORMAT.md, section 6)."""
import dataclasses

import numpy as np

from . import layout
from .blocks import block_table, causal_blocks, packed
from .runs import ALIVE


@dataclasses.dataclass(frozen=True)
class RunHeader:
    """As the attributes of a run."""
    method: str
    row_axis: str
    num_rows: int
    q_heads_per_row: int
    granularity: str
    state_action: str
    budget_scope: str
    decode: str = None  # "dense" where decoded tokens neither choose nor evict
    block_size: int = None  # of a block method, as the next two
    lowering: str = None
    block_tables: bool = None
    num_lanes: int = 0  # channels of a head, of a method that leaves some out


class RunWriter:
    """What is beyond the chunks done is nothing to a reader."""

    def __init__(self, file, header):
        self._header = header
        runs = file.create_group("runs")
        runs.attrs["NX_class"], runs.attrs["default"] = "NXentry", "0"
        self._group = runs.create_group("0")
        self._group.attrs["mode"] = "closed_loop"
        for name, value in dataclasses.asdict(header).items():
            if name not in ("num_rows", "num_lanes") and value is not None:
                self._group.attrs[name] = np.int64(value) if isinstance(value, int) else value
        self._layers = {}

    def write(self, cells):
        """cells: {layer: what it kept in the next chunks, each with the end of the chunk}."""
        for layer, chunks in cells.items():
            if layer not in self._layers:
                self._layers[layer] = _Layer(self._group.create_group(f"layers/{layer}"), self._header)
            self._layers[layer].write(chunks)

    def close(self, num_chunks, num_tokens):
        for layer in self._layers.values():
            layer.close(num_chunks * self._header.num_rows, num_tokens)


class _Layer:
    def __init__(self, group, header):
        self._rows, self._cells, self._chunks, self._end = header.num_rows, 0, 0, 0
        self._offsets = layout.create_vector(group, "offsets", 1, "<i8", "cell", "1", "where the positions of each cell begin")
        self._offsets[0] = 0
        self._positions = layout.create_vector(group, "positions", 0, "<i4", "position", "token", "keys that are kept")
        self._flags = layout.create_vector(group, "flags", 0, "u1", "cell", "1", "1, 2: all candidates are kept")
        self._deaths = self._lanes = self._blocks = None
        if header.block_size:
            self._blocks = _BlockRecord(group, header)
        if header.num_lanes:
            box = (header.num_rows * header.q_heads_per_row, header.num_lanes)
            self._lanes = layout.create_growing(group, "lane_counts", (0, *box), "<i4", (1, *box), ["chunk", "q_head", "lane"], "row",
                                                "rows of the chunk that used the lane")
        if header.state_action == "eviction":
            self._deaths = layout.create_growing(group, "evict_chunk", (header.num_rows, 0), "<u2", (1, layout.MOST_PIECE), ["row", "token"], "chunk",
                                                 "the chunk after which the key was evicted, 65535 where it is alive")
            self._died = np.zeros((header.num_rows, 0), np.uint16)

    def write(self, chunks):
        flags = np.repeat([kept.flag for kept, _ in chunks], self._rows).astype(np.uint8)
        rows = [row for kept, _ in chunks for row in ([row[:0] for row in kept.rows] if kept.flag else kept.rows)]
        ends = self._end + np.cumsum([len(row) for row in rows])
        layout.put(self._positions, self._end, np.concatenate(rows))
        layout.put(self._offsets, self._cells + 1, ends)
        layout.put(self._flags, self._cells, flags)
        self._cells, self._end = self._cells + len(rows), int(ends[-1])
        if self._lanes is not None:
            layout.put(self._lanes, self._chunks, np.stack([kept.lane_counts for kept, _ in chunks]))
        if self._blocks is not None:
            self._blocks.write(chunks)
        for kept, end in chunks:
            if self._deaths is not None:
                self._bury(kept.alive, end)
            self._chunks += 1
        if self._deaths is not None:
            self._deaths.resize(self._died.shape[1], 1)
            self._deaths[...] = self._died

    def _bury(self, alive, end):
        """Those of the `end` keys so far that were alive and are no longer died after this chunk."""
        died = np.full((self._rows, end), ALIVE, np.uint16)
        died[:, : self._died.shape[1]] = self._died
        for row, kept in enumerate(alive):
            dead = died[row] == ALIVE
            dead[kept] = False
            died[row, dead] = self._chunks
        self._died = died

    def close(self, num_cells, num_tokens):
        end = int(self._offsets[num_cells])
        self._offsets.resize(num_cells + 1, 0)
        self._positions.resize(end, 0)
        self._flags.resize(num_cells, 0)
        if self._lanes is not None:
            self._lanes.resize(num_cells // self._rows, 0)
        if self._blocks is not None:
            self._blocks.close(num_cells)
        if self._deaths is not None:
            self._deaths.resize(num_tokens, 1)


class _BlockRecord:
    """The masks of a block method in one layer, and where it has them its block tables."""

    def __init__(self, group, header):
        self._size, self._rows = header.block_size, header.num_rows
        self._heads, self._begin = header.num_rows * header.q_heads_per_row, 0
        self._masks = _Growing(group, "block_mask", "u1", "byte", "1", "native masks, a bit for each block")
        self._masks.dataset.attrs["block_size"] = np.int64(self._size)
        self._forced = _Growing(group, "block_forced", "u1", "byte", "1", "which of the bits are kept by rule")
        self._abstains = _Growing(group, "block_abstains", "u1", "query_block", "1", "query blocks without a vote")
        self._each = [self._masks, self._forced, self._abstains]
        self._tables = None
        if header.block_tables:
            self._indptr = layout.create_vector(group, "table_indptr", 1, "<i8", "cell", "1", "where the table of each cell begins")
            self._indptr[0] = 0
            self._tables = _Growing(group, "table_indices", "<i4", "entry", "block", "blocks that attention runs on")
            self._each.append(self._tables)

    def write(self, chunks):
        for kept, end in chunks:
            past, self._begin = self._begin, end
            if kept.blocks is not None:
                masks, forced, abstains = kept.blocks.kept, kept.blocks.forced, kept.blocks.abstains
            else:
                causal = causal_blocks(self._size, past, end - past)
                masks = np.broadcast_to(causal, (self._heads, *causal.shape))
                forced, abstains = np.zeros_like(masks), np.zeros(len(causal), bool)
            self._masks.add(packed(masks))
            self._forced.add(packed(forced))
            self._abstains.add(abstains.astype(np.uint8))
            if self._tables is not None:
                self._add_tables(kept, past, end - past)

    def _add_tables(self, kept, past, length):
        cells = [[] if kept.flag else block_table(row, self._size, past, length) for row in kept.rows]
        ends = self._tables.end + np.cumsum([len(cell) for cell in cells])
        layout.put(self._indptr, (len(self._tables.ends) - 1) * self._rows + 1, ends)
        self._tables.add(np.concatenate(cells))

    def close(self, num_cells):
        for each in self._each:
            each.close(num_cells // self._rows)
        if self._tables is not None:
            self._indptr.resize(num_cells + 1, 0)


class _Growing:
    """A vector that each chunk adds to."""

    def __init__(self, group, name, dtype, axis, units, long_name):
        self.dataset = layout.create_vector(group, name, 0, dtype, axis, units, long_name)
        self.ends = [0]  # after each chunk

    @property
    def end(self):
        return self.ends[-1]

    def add(self, values):
        layout.put(self.dataset, self.end, values)
        self.ends.append(self.end + len(values))

    def close(self, num_chunks):
        self.dataset.resize(self.ends[num_chunks], 0)
