"""The trace of core/trace/FORMAT.md, as calls of h5py."""
import datetime

import h5py
import numpy as np

from .version import __version__

TRACE_FORMAT = "kvloupe-trace"
SIDECAR_FORMAT = "kvloupe-runs"
# What one rank of a distributed model saw: a trace of some heads or layers alone, which kvloupe.merge joins.
PART_FORMAT = "kvloupe-part"
SCHEMA_VERSION = "1.9"
PRODUCER = f"kvloupe for Python {__version__}"

PREFILL, DECODE = 0, 1
DTYPES = {"float16": "f16", "float32": "f32"}
# Readers fetch one layer and head; pieces of this size are read quickly and waste little.
STORAGE_CHUNK_BYTES = 128 << 10
SPAN_TYPE = np.dtype([("name", h5py.string_dtype()), ("begin", "<i4"), ("end", "<i4")])


def create_growing(group, name, shape, dtype, storage_chunk, axes, units, long_name):
    """A dataset that grows along its last axis but channels. Its room is allocated when its extent changes, so that
    writing values changes nothing of the structure on disk."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_chunk(storage_chunk)
    space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    dataset = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, creation))
    describe(dataset, axes, units, long_name)
    return dataset


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


def tokens_per_storage_chunk(tokens, bytes_per_token):
    """About 128 KiB, all chunks of a head alike so that the last is full."""
    most = max(STORAGE_CHUNK_BYTES // bytes_per_token, 1)
    pieces = -(-tokens // most)
    return -(-tokens // pieces)


def write_root(file, mark, dtype):
    now = datetime.datetime.now(datetime.timezone.utc)
    file.attrs["format"] = mark
    file.attrs["schema_version"] = SCHEMA_VERSION
    file.attrs["producer"] = PRODUCER
    file.attrs["created"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    file.attrs["mode"] = "open_loop"
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
    for name in ("num_layers", "num_q_heads", "num_kv_heads", "head_dim", "hidden_size"):
        group.attrs[name] = np.int64(getattr(model, name))
    group.attrs["softmax_scale"] = np.float64(model.softmax_scale)
    group.attrs["rope_theta"] = np.float64(model.rope_theta)
    group.attrs["layer_types"] = text_array(model.layer_types)


def write_spans(group, spans):
    records = np.array([(name, begin, end) for name, begin, end in spans], dtype=SPAN_TYPE)
    dataset = group.create_dataset("spans", data=records, dtype=SPAN_TYPE)
    describe(dataset, ["span"], "token", "half-open ranges of tokens with a meaning")
