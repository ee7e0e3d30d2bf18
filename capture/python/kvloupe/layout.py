"""The trace of core/trace/FORMAT.md, as calls of h5py."""
import datetime

import h5py
import numpy as np

from .version import __version__

TRACE_FORMAT = "kvloupe-trace"
SIDECAR_FORMAT = "kvloupe-runs"
# What one rank of a distributed model saw: a trace of some heads or layers alone, which kvloupe.merge joins.
PART_FORMAT = "kvloupe-part"
SCHEMA_VERSION = "1.14"
PRODUCER = f"kvloupe for Python {__version__}"

PREFILL, DECODE = 0, 1
STORES = ("qkv", "lse", "mass", "probe", "loss")
DTYPES = {"float16": "f16", "float32": "f32"}
# Readers fetch one layer and head. A piece of a dataset is large enough to be read quickly, and small enough that the last one,
# which is seldom full, wastes little: a sixteenth of what is expected of a head, from 16 to 128 KiB.
MOST_PIECE_BYTES = 128 << 10
LEAST_PIECE_BYTES = 16 << 10
PIECES_OF_A_HEAD = 16
# Of vectors, whose pieces are counted in entries.
LEAST_PIECE, MOST_PIECE = 256, 32768
SPAN_TYPE = np.dtype([("name", h5py.string_dtype()), ("begin", "<i4"), ("end", "<i4")])


def create_vector(group, name, length, dtype, axis, units, long_name, expected=0):
    """A growing dataset of one axis; `expected` entries, where more are than it has room for at first."""
    piece = min(max(length, expected, LEAST_PIECE), MOST_PIECE)
    return create_growing(group, name, (length,), dtype, (piece,), [axis], units, long_name)


def create_growing(group, name, shape, dtype, piece, axes, units, long_name):
    """A dataset whose room is allocated when its extent changes, so that writing values changes nothing of the structure on
    disk."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_chunk(piece)
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, creation))
    describe(dataset, axes, units, long_name)
    return dataset


def create_whole(group, name, values, dtype=None):
    """A vector that does not grow, in one piece. Values of one without pieces wait in HDF5 until it is closed: where the disk is full
    that fails, and HDF5 crashes later."""
    return group.create_dataset(name, data=values, dtype=dtype, chunks=(len(values),) if len(values) else None)


def put(vector, begin, values):
    """Values at their place in a vector, which grows by whole pieces."""
    end = begin + len(values)
    if end > vector.shape[0]:
        vector.resize(whole_pieces(end, vector.chunks[0]), 0)
    vector[begin:end] = values


def describe(dataset, axes, units, long_name):
    dataset.attrs["axes"] = text_array(axes)
    dataset.attrs["units"] = units
    dataset.attrs["long_name"] = long_name


def describe_plot(group, signal, axes, title):
    group.attrs["NX_class"] = "NXdata"
    group.attrs["signal"] = signal
    group.attrs["axes"] = text_array(axes)
    group.attrs["title"] = title


def text_array(texts):
    return np.array(texts, dtype=object).astype(h5py.string_dtype())


def tokens_per_piece(tokens, bytes_per_token, least_bytes=LEAST_PIECE_BYTES):
    """All pieces of a head alike, so that the last of the tokens expected fill one."""
    size = min(max(tokens * bytes_per_token // PIECES_OF_A_HEAD, least_bytes), MOST_PIECE_BYTES)
    most = max(size // bytes_per_token, 1)
    return -(-tokens // -(-tokens // most)) if tokens > most else most


def whole_pieces(count, piece):
    """Entries of the pieces that hold so many."""
    return -(-count // piece) * piece


def write_root(file, mark, dtype, mode="open_loop"):
    now = datetime.datetime.now(datetime.timezone.utc)
    file.attrs["format"] = mark
    file.attrs["schema_version"] = SCHEMA_VERSION
    file.attrs["producer"] = PRODUCER
    file.attrs["created"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    file.attrs["mode"] = mode
    file.attrs["dtype"] = DTYPES[dtype]
    file.attrs["chunks_done"] = np.int64(0)
    file.attrs["complete"] = np.int64(0)
    file.attrs["NX_class"] = "NXroot"
    file.attrs["default"] = "layers"


def write_model(file, model):
    group = file.create_group("model")
    for name in ("name", "architecture", "rope_pairing", "rope_scaling", "file_hash"):
        group.attrs[name] = getattr(model, name)
    for name in ("compute", "adapter", "v_head_dim"):
        if getattr(model, name):
            group.attrs[name] = getattr(model, name)
    if model.kv_heads:
        group.attrs["kv_heads"] = ",".join(str(head) for head in model.kv_heads)
    for name in ("num_layers", "num_q_heads", "num_kv_heads", "head_dim", "hidden_size"):
        group.attrs[name] = np.int64(getattr(model, name))
    group.attrs["softmax_scale"] = np.float64(model.softmax_scale)
    group.attrs["rope_theta"] = np.float64(model.rope_theta)
    group.attrs["layer_types"] = text_array(model.layer_types)


def write_probe(file, probe):
    group = file.create_group("probe")
    group.attrs["text"] = probe.text
    group.attrs["num_tokens"] = np.int64(len(probe.ids))
    ids = create_whole(group, "ids", np.asarray(probe.ids, dtype="<i4"))
    describe(ids, ["probe_token"], "1", "token ids of the probe")


def write_spans(group, spans):
    records = np.array([(name, begin, end) for name, begin, end in spans], dtype=SPAN_TYPE)
    dataset = create_whole(group, "spans", records, dtype=SPAN_TYPE)
    describe(dataset, ["span"], "token", "half-open ranges of tokens with a meaning")
