"""/samples of RESULTS.h5: one row a sample, with what most readers want; texts and other numbers stand beside it."""
import h5py
import numpy as np

from .record import seconds_of

# In the order in which they are written.
KINDS = {"task": "text", "length": "integer", "depth": "float", "seed": "integer", "method": "text", "budget": "integer", "id": "text",
         "score": "float", "seconds": "float"}
TYPES = {"text": h5py.string_dtype(), "integer": np.int64, "float": np.float64}
TEXTS = ("sample", "answer", "expected", "refused", "metrics", "trace")
NEW_TEXTS = ("task_hash", "method_hash")  # Files of before they were written are read, too.
INTEGERS, NUMBERS = ("doc", "prompt_tokens", "direction"), ("kept", "prefill_s", "decode_s")


def rows_of(records):
    rows = np.zeros(len(records), [(name, TYPES[kind]) for name, kind in KINDS.items()])
    for at, record in enumerate(records):
        values = {**record, "seconds": seconds_of(record)}
        rows[at] = tuple(_text(values[name]) if kind == "text" else values[name] for name, kind in KINDS.items())
    return rows


def _text(value):
    """HDF5 ends such a text at its first zero byte."""
    return value.replace("\0", "?").encode("utf-8", "replace").decode()
