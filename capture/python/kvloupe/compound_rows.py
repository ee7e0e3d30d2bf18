"""Columns of a compound dataset with texts of variable length, read past the library (heap_texts.py)."""
import h5py
import numpy as np

from .heap_texts import REFERENCE, HeapTexts, RawFile
from .stored import KINDS, Defect, open_dataset, text_of

NATIVE = {"integer": np.int64, "float": np.float64}
MOST_INTEGER = 2**63 - 1
GROWTH = 8  # a text is a pointer of 8 bytes in memory, and a reference of 16 in the file


def read_columns(file, path, kinds, most):
    """{name: list} of the members that are named, in whatever order they stand and whatever stands beside them.

    kinds: {name: "text", "integer" or "float"}; most: how many rows there may be.
    """
    dataset = open_dataset(file, path, "compound", 1)
    count, (stored, row_bytes) = dataset.shape[0], _stored(dataset, path, kinds)
    if count > most:
        raise Defect(f"{path} has too many rows: {count:,}")
    if count == 0:
        return {name: [] for name in kinds}
    at = dataset.id.get_offset()
    if at is None or dataset.id.get_storage_size() != count * row_bytes:
        raise Defect(f"{path} is not stored as {count:,} rows in one piece")
    raw = RawFile(file)
    rows = np.frombuffer(raw.read(at - file.userblock_size, count * row_bytes), stored)
    heap = HeapTexts(raw)
    return {name: _texts(rows[name], heap) if kind == "text" else _numbers(rows[name], kind, f"{path}/{name}") for name, kind in kinds.items()}


def _numbers(values, kind, name):
    if values.dtype.kind == "u" and (values > MOST_INTEGER).any():
        raise Defect(f"{name} has a number that does not fit 64 bits with a sign")
    return values.astype(NATIVE[kind]).tolist()


def _stored(dataset, path, kinds):
    """The members' types and places in the file, and the bytes of a row. The library tells those of a row in memory."""
    kind = dataset.id.get_type()
    if not isinstance(kind, h5py.h5t.TypeCompoundID):
        raise Defect(f"{path} has no members")
    names, formats, offsets, grown = [], [], [], 0
    for at in sorted(range(kind.get_nmembers()), key=kind.get_member_offset):
        name, of_member = kind.get_member_name(at).decode("utf-8", "replace"), kind.get_member_type(at)
        if name in kinds:
            names.append(name)
            formats.append(_format(of_member, kinds[name], f"{path}/{name}"))
            offsets.append(kind.get_member_offset(at) + grown)
        grown += _growth(of_member)
    missing = [name for name in kinds if name not in names]
    if missing:
        raise Defect(f"{path} has no member {missing[0]}")
    row_bytes = kind.get_size() + grown
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": row_bytes}), row_bytes


def _format(kind, wanted, name):
    if wanted == "text":
        if isinstance(kind, h5py.h5t.TypeStringID):
            return REFERENCE if kind.is_variable_str() else np.dtype(f"S{kind.get_size()}")
    elif isinstance(kind, (h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID)) and kind.dtype.kind in KINDS[wanted]:
        return kind.dtype
    raise Defect(f"{name} is no {'text' if wanted == 'text' else wanted + ' number'}")


def _growth(kind):
    """By how much it is larger in the file."""
    if isinstance(kind, h5py.h5t.TypeStringID):
        return GROWTH if kind.is_variable_str() else 0
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return sum(_growth(kind.get_member_type(at)) for at in range(kind.get_nmembers()))
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return int(np.prod(kind.get_array_dims(), dtype=np.int64)) * _growth(kind.get_super())
    return 0


def _texts(values, heap):
    if values.dtype == REFERENCE:
        return [heap.text(*reference) for reference in values.tolist()]
    return [text_of(value) for value in values.tolist()]
