"""Writes a trace as it comes: rows of each layer, then the chunks that they complete (FORMAT.md, section 8)."""
import dataclasses
import functools

import h5py
import numpy as np

from . import layout
from .errors import KvloupeError


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
    def __init__(self, output, header, capacity):
        """output: a PartFile, which this takes over."""
        self.header = header
        self._output = output
        # The lock is ours already. No cache: pieces of a storage chunk are written where they belong at once.
        self._file = h5py.File(output.part, "w", locking=False, rdcc_nbytes=0, track_order=False)
        self._begin(capacity)

    def _begin(self, capacity):
        header, file = self.header, self._file
        layout.write_root(file, layout.PART_FORMAT if header.rank else layout.TRACE_FORMAT, header.dtype)
        if header.rank:
            file.attrs["part_rank"], file.attrs["part_count"] = map(np.int64, header.rank)
            for name, value in dataclasses.asdict(header.heads).items():
                file.attrs[name] = np.int64(value)
        layout.write_model(file, header.model)
        self._capacity = capacity  # tokens that there is room for
        self._chunk_capacity = 256
        tokens = file.create_group("tokens")
        self._ids = self._vector(tokens, "ids", capacity, "<i4", "token", "1", "token id")
        layout.write_spans(tokens, header.spans)
        self._text = None
        if header.has_text:
            self._offsets = self._vector(tokens, "text_offsets", capacity + 1, "<u8", "token", "byte",
                                         "where each token's bytes begin in text")
            self._text = self._vector(tokens, "text", 8 * capacity, "u1", "byte", "1", "raw bytes of all tokens")
            self._offsets[0] = 0
            self._text_end = 0
        chunks = file.create_group("chunks")
        self._chunk_sets = [
            self._vector(chunks, "begin", self._chunk_capacity, "<i4", "chunk", "token", "first token of the chunk"),
            self._vector(chunks, "length", self._chunk_capacity, "<i4", "chunk", "token", "tokens in the chunk"),
            self._vector(chunks, "phase", self._chunk_capacity, "u1", "chunk", "1", "0 prefill, 1 decode")]
        if "mass" in header.store:
            self._mass_offsets = self._vector(chunks, "mass_offsets", self._chunk_capacity + 1, "<i8", "chunk", "1",
                                              "where each chunk begins in key_mass")
            self._mass_offsets[0] = 0
        self._layers = file.create_group("layers")
        self._layers.attrs["NX_class"] = "NXentry"
        self._per_token = []  # (dataset, token axis)
        self._mass_end = 0
        self.num_tokens = 0
        self.num_chunks = 0

    def _vector(self, group, name, length, dtype, axis, units, long_name):
        piece = min(max(length, 1), 65536)
        return layout.create_growing(group, name, (length,), dtype, (piece,), [axis], units, long_name)

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
        heads, dim = self.header.heads, self.header.model.head_dim
        if "qkv" in self.header.store:
            size = np.dtype(self.header.dtype).itemsize
            piece = layout.tokens_per_storage_chunk(self._capacity, dim * size)
            for name, count, axis, long_name in (("q", heads.num_q, "q_head", "queries"),
                                                 ("k", heads.num_kv, "kv_head", "keys"),
                                                 ("v", heads.num_kv, "kv_head", "values")):
                dataset = layout.create_growing(group, name, (count, self._capacity, dim), "<f" + str(size),
                                                (1, piece, dim), [axis, "token", "channel"], "1", long_name)
                self._per_token.append((dataset, 1))
        if "lse" in self.header.store:
            piece = layout.tokens_per_storage_chunk(self._capacity, 4)
            dataset = layout.create_growing(group, "lse", (heads.num_q, self._capacity), "<f4", (1, piece),
                                            ["q_head", "token"], "nat", "log-sum-exp of the scaled logits")
            self._per_token.append((dataset, 1))
            layout.describe_plot(group, "lse", [".", "."], f"Layer {layer}: log-sum-exp by head")
        if "mass" in self.header.store:
            self._vector(group, "key_mass", 0, "<f4", "cell", "probability", "attention mass of each key")

    def _name_layer_type(self, layer, window):
        """The call of a layer says for sure whether it has a window; its configuration may not."""
        types = self.header.model.layer_types
        named = "sliding" if window else "full" if types[layer] == "sliding" else types[layer]
        if named != types[layer]:
            types[layer] = named
            self._file["model"].attrs["layer_types"] = layout.text_array(types)

    def has_room(self, num_tokens):
        return num_tokens <= self._capacity

    @_writing
    def reserve(self, num_tokens):
        """Room for so many tokens in all; grows by a quarter at least, so that the structure seldom changes."""
        if self.has_room(num_tokens):
            return
        self._capacity = max(num_tokens, self._capacity + max(self._capacity // 4, 256))
        self._ids.resize(self._capacity, 0)
        if self._text is not None:
            self._offsets.resize(self._capacity + 1, 0)
        for dataset, axis in self._per_token:
            dataset.resize(self._capacity, axis)
        self._file.flush()

    @_writing
    def write_rows(self, layer, begin, rows):
        """rows: name -> array [heads, tokens(, head_dim)] of the tokens from begin on."""
        group = self._layers[str(layer)]
        for name, values in rows.items():
            group[name][:, begin : begin + values.shape[1]] = values

    @_writing
    def write_mass(self, layer, mass_begin, mass):
        """mass [kv heads, keys] of a prefill chunk, at its place in key_mass."""
        dataset = self._layers[str(layer)]["key_mass"]
        end = mass_begin + mass.size
        if end > dataset.shape[0]:
            dataset.resize(end + end // 4, 0)
        dataset[mass_begin:end] = mass.reshape(-1)

    @_writing
    def write_tokens(self, ids, texts):
        """The next tokens, and their bytes where the header promised them. They count once they are in a chunk."""
        begin, end = self.num_tokens, self.num_tokens + len(ids)
        self.reserve(end)
        self._ids[begin:end] = ids
        if self._text is not None:
            ends = self._text_end + np.cumsum([len(text) for text in texts], dtype=np.uint64)
            self._offsets[begin + 1 : end + 1] = ends
            raw = np.frombuffer(b"".join(texts), dtype=np.uint8)
            if int(ends[-1]) > self._text.shape[0]:
                self._text.resize(2 * int(ends[-1]), 0)
            self._text[self._text_end : int(ends[-1])] = raw
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
        for dataset, values in zip(self._chunk_sets, zip(*chunks)):
            dataset[first:end] = values
        if "mass" in self.header.store:
            cells = [self.header.heads.num_kv * (begin + length) if phase == layout.PREFILL else 0
                     for begin, length, phase in chunks]
            ends = self._mass_end + np.cumsum(cells, dtype=np.int64)
            self._mass_offsets[first + 1 : end + 1] = ends
            self._mass_end = int(ends[-1])
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
        self._ids.resize(tokens, 0)
        if self._text is not None:
            self._offsets.resize(tokens + 1, 0)
            self._text.resize(int(self._offsets[tokens]), 0)
        for dataset in self._chunk_sets:
            dataset.resize(self.num_chunks, 0)
        if "mass" in self.header.store:
            self._mass_offsets.resize(self.num_chunks + 1, 0)
            for group in self._layers.values():
                group["key_mass"].resize(self._mass_end, 0)
        for dataset, axis in self._per_token:
            dataset.resize(tokens, axis)
        if len(generated):
            values = np.asarray(generated, dtype="<i4")
            layout.describe(self._file["tokens"].create_dataset("generated", data=values), ["step"], "1",
                            "sampled token ids")
        if file_hash is not None:
            self._file["model"].attrs["file_hash"] = file_hash
        self._file.flush()
        self._file.attrs.modify("complete", np.int64(complete))
        self._file.close()
        self._output.keep()

    def abandon(self):
        """When nothing can be written any more: what is on disk stays there."""
        try:
            self._file.close()
        except (OSError, RuntimeError):
            pass
        self._output.release()

    def drop(self):
        self._file.close()
        self._output.drop()
