"""Writes a trace as it comes: rows of each layer, then the chunks that they complete (FORMAT.md, section 8)."""
import dataclasses
import functools
import os

import h5py
import numpy as np

from . import layout
from .errors import KvloupeError
from .query_choice import QueryChoice
from .run_writer import RunWriter


# The room grows by this part of itself at least.
GROWTH = 64


@dataclasses.dataclass(frozen=True)
class Heads:
    """The heads that a file has of each layer: all, or those of one rank."""
    q_begin: int
    q_end: int
    kv_begin: int
    kv_end: int

    @property
    def num_q(self):
        return self.q_end - self.q_begin

    @property
    def num_kv(self):
        return self.kv_end - self.kv_begin


@dataclasses.dataclass(frozen=True)
class Header:
    model: object  # model_info.ModelInfo
    heads: Heads
    dtype: str
    store: frozenset
    spans: tuple
    has_text: bool
    rank: tuple = ()  # (rank, ranks) of a part
    probe: object = None  # probe.ProbeText
    run: object = None  # run_writer.RunHeader of what the model attends to in closed loop
    queries: QueryChoice = QueryChoice()


def _writing(method):
    """h5py's own exceptions say little of what to do."""
    @functools.wraps(method)
    def guarded(self, *arguments, **options):
        try:
            return method(self, *arguments, **options)
        except (OSError, RuntimeError) as error:
            raise KvloupeError(f"cannot write {self._output.part}", " ".join(str(error).split()),
                               "check the free space; the chunks done before are in that file") from error
    return guarded


class TraceWriter:
    """The file has room for `capacity` tokens at first and grows. Until `close` what is beyond the chunks done is
    nothing to a reader, so rows are written whenever they are there."""

    @_writing
    def __init__(self, output, header, capacity, mass_keys=0, num_queries=0):
        """output: a PartFile, which this takes over; mass_keys: keys of all prefill chunks, num_queries: rows of q where some chunks
        alone have theirs, as far as it is known."""
        self.header = header
        self._output = output
        self._mass_keys, self._num_queries = mass_keys, num_queries
        # The lock is ours already. No cache: a part of a piece is written where it belongs at once, and nothing is read for it.
        self._file = h5py.File(output.part, "w", locking=False, rdcc_nbytes=0, track_order=False)
        try:
            self._begin(max(capacity, 1))
        except BaseException:
            self._close_what_is_broken()  # Nobody has this writer. HDF5 would do it when the process ends, and crash.
            raise

    def _begin(self, capacity):
        header, file = self.header, self._file
        layout.write_root(file, layout.PART_FORMAT if header.rank else layout.TRACE_FORMAT, header.dtype,
                          "closed_loop" if header.run else "open_loop")
        if header.rank:
            file.attrs["part_rank"], file.attrs["part_count"] = map(np.int64, header.rank)
            for name, value in dataclasses.asdict(header.heads).items():
                file.attrs[name] = np.int64(value)
        layout.write_model(file, header.model)
        if header.probe is not None:
            layout.write_probe(file, header.probe)
        self._capacity = capacity  # tokens that there is room for
        self._piece = layout.tokens_per_piece(capacity, header.model.head_dim * np.dtype(header.dtype).itemsize)
        self._chunk_capacity = 256
        tokens = file.create_group("tokens")
        self._ids = layout.create_vector(tokens, "ids", capacity, "<i4", "token", "1", "token id")
        layout.write_spans(tokens, header.spans)
        self._text = None
        if header.has_text:
            self._offsets = layout.create_vector(tokens, "text_offsets", capacity + 1, "<u8", "token", "byte",
                                                 "where each token's bytes begin in text")
            self._text = layout.create_vector(tokens, "text", 0, "u1", "byte", "1", "raw bytes of all tokens", 8 * capacity)
            self._offsets[0] = 0
            self._text_end = 0
        chunks = file.create_group("chunks")
        self._chunk_sets = [
            layout.create_vector(chunks, "begin", self._chunk_capacity, "<i4", "chunk", "token", "first token of the chunk"),
            layout.create_vector(chunks, "length", self._chunk_capacity, "<i4", "chunk", "token", "tokens in the chunk"),
            layout.create_vector(chunks, "phase", self._chunk_capacity, "u1", "chunk", "1", "0 prefill, 1 decode")]
        if "mass" in header.store:
            self._mass_offsets = layout.create_vector(chunks, "mass_offsets", self._chunk_capacity + 1, "<i8", "chunk", "1",
                                                      "where each chunk begins in key_mass")
            self._mass_offsets[0] = 0
        self._query_offsets = None
        if not header.queries.is_all:
            self._query_offsets = layout.create_vector(chunks, "query_offsets", self._chunk_capacity + 1, "<i8", "chunk", "1",
                                                       "where each chunk begins in q")
            self._query_offsets[0] = 0
        self._layers = file.create_group("layers")
        self._layers.attrs["NX_class"] = "NXentry"
        self._run = RunWriter(file, header.run) if header.run else None
        self._per_token = [(self._ids, 0)]  # (dataset, token axis)
        if "loss" in header.store:
            self._nll = layout.create_vector(tokens, "nll", capacity, "<f4", "token", "nat", "-log P of each token given those before it")
            self._per_token.append((self._nll, 0))
        self._sets = {}  # layer -> name -> dataset
        self._mass_end = 0
        self.num_tokens = 0
        self.num_chunks = 0

    # --- what is written -----------------------------------------------------------------------------------------

    @_writing
    def begin_layer(self, layer, form):
        """Must come before the layer's rows; `form` is its SoftmaxForm."""
        group = self._layers.create_group(str(layer))
        if "default" not in self._layers.attrs:
            self._layers.attrs["default"] = str(layer)
        self._name_layer_type(layer, form.window)
        if form.window:
            group.attrs["window"] = np.int64(form.window)
        if form.softcap:
            group.attrs["softcap"] = np.float64(form.softcap)
        if form.sinks is not None:
            group.attrs["sink_logit"] = np.asarray(form.sinks, dtype=np.float32)
        sets = self._sets[layer] = {}
        if "qkv" in self.header.store:
            self._begin_rows(group, sets)
        if "lse" in self.header.store:
            piece = layout.tokens_per_piece(self._capacity, 4, layout.LEAST_PIECE_BYTES // 8)
            num_heads = self.header.heads.num_q
            sets["lse"] = layout.create_growing(group, "lse", (num_heads, self._capacity), "<f4", (1, piece), ["q_head", "token"],
                                                "nat", "log-sum-exp of the scaled logits")
            self._per_token.append((sets["lse"], 1))
            layout.describe_plot(group, "lse", [".", "."], f"Layer {layer}: log-sum-exp by head")
        if "mass" in self.header.store:
            sets["key_mass"] = layout.create_vector(group, "key_mass", 0, "<f4", "cell", "probability", "attention mass of each key",
                                                    self.header.heads.num_kv * self._mass_keys)
        if self.header.probe is not None:
            sets["probe_q"] = self._begin_probe(group)

    def _begin_rows(self, group, sets):
        heads, dim = self.header.heads, self.header.model.head_dim
        size = np.dtype(self.header.dtype).itemsize
        for name, count, axis, long_name in (("q", heads.num_q, "q_head", "queries"), ("k", heads.num_kv, "kv_head", "keys"),
                                             ("v", heads.num_kv, "kv_head", "values")):
            some = name == "q" and self._query_offsets is not None
            piece = layout.tokens_per_piece(max(self._num_queries, 1), dim * size) if some else self._piece
            sets[name] = layout.create_growing(group, name, (count, 0 if some else self._capacity, dim), "<f" + str(size), (1, piece, dim),
                                               [axis, "token", "channel"], "1", long_name)
            if not some:
                self._per_token.append((sets[name], 1))

    def _begin_probe(self, group):
        box = (self.header.heads.num_q, len(self.header.probe.ids), self.header.model.head_dim)
        return layout.create_growing(group, "probe_q", (0, *box), "<f" + str(np.dtype(self.header.dtype).itemsize), (1, *box),
                                     ["chunk", "q_head", "probe_token", "channel"], "1", "queries of the probe after each prefill chunk")

    def _name_layer_type(self, layer, window):
        """The call of a layer says for sure whether it has a window; its configuration may not."""
        types = self.header.model.layer_types
        named = "sliding" if window else "nope" if layer in self.header.model.layers_without_rope else "full"
        if named != types[layer]:
            types[layer] = named
            self._file["model"].attrs["layer_types"] = layout.text_array(types)

    def has_room(self, num_tokens):
        return num_tokens <= self._capacity

    @_writing
    def reserve(self, num_tokens):
        """Room for so many tokens in all. It grows by whole pieces, so that nothing is left over, and by a part of what is there,
        so that the structure seldom changes."""
        if self.has_room(num_tokens):
            return
        self._capacity = layout.whole_pieces(max(num_tokens, self._capacity + self._capacity // GROWTH), self._piece)
        if self._text is not None:
            self._offsets.resize(self._capacity + 1, 0)
        for dataset, axis in self._per_token:
            dataset.resize(self._capacity, axis)
        self._file.flush()

    @_writing
    def write_rows(self, layer, begin, rows):
        """rows: name -> array [heads, tokens(, head_dim)] of the tokens from begin on."""
        for name, values in rows.items():
            self._sets[layer][name][:, begin : begin + values.shape[1]] = values

    @_writing
    def write_queries(self, layer, begin, rows):
        """rows [q heads, queries, head_dim] at their place in q, where some chunks alone have theirs."""
        q, end = self._sets[layer]["q"], begin + rows.shape[1]
        if end > q.shape[1]:
            q.resize(layout.whole_pieces(end, q.chunks[1]), 1)
        q[:, begin:end] = rows

    @_writing
    def write_mass(self, layer, mass_begin, mass):
        """mass [kv heads, keys] of a prefill chunk, at its place in key_mass."""
        layout.put(self._sets[layer]["key_mass"], mass_begin, mass.reshape(-1))

    @_writing
    def drop_mass(self):
        """Leaves key_mass out of the trace after all; its room is used for what is written next."""
        self._file.flush()
        del self._file["chunks/mass_offsets"]
        for layer, sets in self._sets.items():
            del sets["key_mass"], self._layers[str(layer)]["key_mass"]
        self.header = dataclasses.replace(self.header, store=self.header.store - {"mass"})
        self._file.flush()

    @_writing
    def write_probe(self, layer, chunk, queries):
        """queries [q heads, probe tokens, head_dim] after a prefill chunk, done or open."""
        dataset = self._sets[layer]["probe_q"]
        if chunk >= dataset.shape[0]:
            dataset.resize(chunk + 1, 0)
        dataset[chunk] = queries

    @_writing
    def write_run(self, cells):
        """cells: {layer: what the model attended to in the next chunks}, before these are finished."""
        self._run.write(cells)

    @_writing
    def write_tokens(self, ids, texts, losses=None):
        """The next tokens, and their bytes and losses where the header promised them. They count once they are in a chunk."""
        begin, end = self.num_tokens, self.num_tokens + len(ids)
        self.reserve(end)
        self._ids[begin:end] = ids
        if losses is not None:
            self._nll[begin:end] = losses
        if self._text is not None:
            ends = self._text_end + np.cumsum([len(text) for text in texts], dtype=np.uint64)
            self._offsets[begin + 1 : end + 1] = ends
            raw = np.frombuffer(b"".join(texts), dtype=np.uint8)
            layout.put(self._text, self._text_end, raw)
            self._text_end = int(ends[-1])
        self.num_tokens = end

    @_writing
    def finish_chunks(self, chunks):
        """chunks: (begin, length, phase), all of whose rows have been written; then the file can be killed and read."""
        if not chunks:
            return self._file.flush()
        first, end = self.num_chunks, self.num_chunks + len(chunks)
        if end > self._chunk_capacity:
            self._chunk_capacity = 2 * end
            for dataset in self._chunk_sets:
                dataset.resize(self._chunk_capacity, 0)
            if "mass" in self.header.store:
                self._mass_offsets.resize(self._chunk_capacity + 1, 0)
            if self._query_offsets is not None:
                self._query_offsets.resize(self._chunk_capacity + 1, 0)
        for dataset, values in zip(self._chunk_sets, zip(*chunks)):
            dataset[first:end] = values
        if "mass" in self.header.store:
            cells = [self.header.heads.num_kv * (begin + length) if phase == layout.PREFILL else 0
                     for begin, length, phase in chunks]
            ends = self._mass_end + np.cumsum(cells, dtype=np.int64)
            self._mass_offsets[first + 1 : end + 1] = ends
            self._mass_end = int(ends[-1])
        if self._query_offsets is not None:
            choice = self.header.queries
            counts = [length if choice.takes(number) and not choice.only_last else 0 for number, (_, length, _) in enumerate(chunks, first)]
            self._query_offsets[first + 1 : end + 1] = self._query_offsets[first] + np.cumsum(counts, dtype=np.int64)
        self._file.flush()
        self.num_chunks = end
        self._file.attrs.modify("chunks_done", np.int64(end))
        self._file.flush()

    # --- the end -------------------------------------------------------------------------------------------------

    @_writing
    def close(self, complete, generated=(), file_hash=None):
        """Cuts everything to the chunks done and gives the file its name; without a chunk there is no file."""
        if self.num_chunks == 0:
            return self.drop()
        last_begin, last_length = (int(dataset[self.num_chunks - 1]) for dataset in self._chunk_sets[:2])
        tokens = last_begin + last_length
        if self._text is not None:
            self._offsets.resize(tokens + 1, 0)
            self._text.resize(int(self._offsets[tokens]), 0)
        for dataset in self._chunk_sets:
            dataset.resize(self.num_chunks, 0)
        if "mass" in self.header.store:
            self._mass_offsets.resize(self.num_chunks + 1, 0)
            for sets in self._sets.values():
                sets["key_mass"].resize(self._mass_end, 0)
        if self._query_offsets is not None:
            self._trim_queries()
        if self.header.probe is not None:
            prefill = np.flatnonzero(self._chunk_sets[2][:] == layout.PREFILL)
            for sets in self._sets.values():
                sets["probe_q"].resize(int(prefill[-1]) + 1, 0)
        for dataset, axis in self._per_token:
            dataset.resize(tokens, axis)
        if self._run is not None:
            self._run.close(self.num_chunks, tokens)
        if len(generated):
            values = np.asarray(generated, dtype="<i4")
            layout.describe(layout.create_whole(self._file["tokens"], "generated", values), ["step"], "1", "sampled token ids")
        if file_hash is not None:
            self._file["model"].attrs["file_hash"] = file_hash
        self._file.flush()
        self._file.attrs.modify("complete", np.int64(complete))
        self._file.close()
        self._output.keep()

    def _trim_queries(self):
        counts = np.zeros(self.num_chunks, np.int64)
        chosen = self.header.queries.of(self.num_chunks)
        counts[chosen] = self._chunk_sets[1][: self.num_chunks][chosen]
        if any(sets["q"].shape[1] < counts.sum() for sets in self._sets.values()):
            counts[:] = 0  # a forward failed with queries of a chunk that is not done
        self._query_offsets.resize(self.num_chunks + 1, 0)
        self._query_offsets[1:] = np.cumsum(counts)
        for sets in self._sets.values():
            sets["q"].resize(int(counts.sum()), 1)

    def abandon(self):
        """When nothing can be written any more: what is on disk stays there."""
        self._close_what_is_broken()
        self._output.release()

    def _close_what_is_broken(self):
        try:
            self._file.close()
        except (OSError, RuntimeError):
            pass

    def drop(self):
        self._file.close()
        self._output.drop()


def drop_begun(part, writer):
    """The PartFile of which a writer was made, or not even that: what was begun goes, also where it cannot be written any more."""
    try:
        if writer is not None:
            writer.abandon()
        else:
            part.release()
    finally:
        if os.path.exists(part.part):
            os.unlink(part.part)
