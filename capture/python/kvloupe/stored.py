"""Reading HDF5 without believing it: a file may come from anyone (FORMAT.md, sections 1 and 10)."""
import h5py
import numpy as np

# What reading a part may cost, as the program bounds it.
FREE_BYTES = 256 << 20
BYTES_PER_STORED_BYTE = 16
MOST_TEXT = 1 << 20
FILTERS = {"1": "deflate", "2": "shuffle", "3": "fletcher32"}
KINDS = {"integer": "iub", "float": "f", "compound": "V"}


# What h5py raises of structures that are broken.
BROKEN = (OSError, RuntimeError, ValueError, KeyError, TypeError)


class Defect(Exception):
    """What is wrong with a part of a file."""


def member(group, path):
    """The object at a path of hard links, or None: nothing else is followed."""
    for name in path.strip("/").split("/"):
        if not isinstance(group, h5py.Group) or not isinstance(group.get(name, getlink=True), h5py.HardLink):
            return None
        group = group[name]
    return group


def numbered_members(group):
    """Names that are decimal numbers without leading zeros, ascending."""
    if not isinstance(group, h5py.Group):
        return []
    return sorted(int(name) for name in group if name.isdecimal() and str(int(name)) == name and member(group, name) is not None)


def open_dataset(file, path, kind, rank):
    dataset = member(file, path)
    if not isinstance(dataset, h5py.Dataset):
        raise Defect(f"{path} is missing")
    if dataset.dtype.kind not in KINDS[kind] or dataset.ndim != rank:
        raise Defect(f"{path} is no array of {kind} values with {rank} axes")
    if dataset.is_virtual or dataset.external:
        raise Defect(f"{path} has its values in other files")
    unknown = set(dataset._filters) - set(FILTERS) - {"gzip", "shuffle", "fletcher32"}
    if unknown:
        raise Defect(f"{path} is compressed by {sorted(unknown)[0]}, which traces do not use")
    return dataset


def read(dataset, box=...):
    """Values in this machine's byte order; a claim far beyond what the file holds is refused before room is made for it."""
    try:
        limit = FREE_BYTES + BYTES_PER_STORED_BYTE * dataset.id.get_storage_size()
        if dataset.size * dataset.dtype.itemsize > limit and _size_of(dataset, box) > limit:
            raise Defect(f"{dataset.name} claims more than the file holds")
        values = dataset[box]
    except BROKEN as error:
        raise Defect(f"{dataset.name} cannot be read: {error}") from None
    return values.astype(values.dtype.newbyteorder("="), copy=False) if values.dtype.kind in "iuf" else values


def _size_of(dataset, box):
    selection = h5py._hl.selections.select(dataset.shape, box if isinstance(box, tuple) else (box,), dataset)
    return selection.nselect * dataset.dtype.itemsize


def read_range(dataset, begin, end, dtype=np.int64):
    if end > dataset.shape[0]:
        raise Defect(f"{dataset.name} has {dataset.shape[0]} entries where {end} are needed")
    return read(dataset, slice(begin, end)).astype(dtype)


# --- attributes ----------------------------------------------------------------------------------------------------------

def attribute(group, name):
    """None where it is missing; a one-element array counts as its element."""
    if name not in group.attrs:
        return None
    try:
        info = group.attrs.get_id(name)
        if np.prod(info.shape, dtype=np.int64) * info.dtype.itemsize > MOST_TEXT:
            raise Defect(f"the attribute {name} of {group.name} is too large")
        value = group.attrs[name]
        if info.dtype.kind == "S" and info.get_type().get_strpad() != h5py.h5t.STR_SPACEPAD:
            value = _with_its_blanks(value)
    except BROKEN as error:
        raise Defect(f"the attribute {name} of {group.name} cannot be read: {error}") from None
    return value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value


def _with_its_blanks(value):
    """Texts padded by NUL: blanks at their end are theirs, and the program hashes them."""
    def text(raw):
        return bytes(raw).split(b"\0")[0].decode("utf-8", "replace")

    return np.array([text(raw) for raw in value.ravel()], object).reshape(value.shape) if isinstance(value, np.ndarray) else text(value)


def text_of(value):
    if isinstance(value, (bytes, np.bytes_)):
        value = bytes(value).split(b"\0")[0].rstrip(b" ").decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def text_attribute(group, name):
    value = attribute(group, name)
    if value is None:
        return None
    text = text_of(value)
    if text is None:
        raise Defect(f"the attribute {name} of {group.name} is no text")
    return text


def number_attribute(group, name, kinds, meaning):
    value = attribute(group, name)
    if value is not None and (np.ndim(value) != 0 or np.asarray(value).dtype.kind not in kinds):
        raise Defect(f"the attribute {name} of {group.name} is no {meaning}")
    return value


def int_attribute(group, name):
    value = number_attribute(group, name, "iub", "integer")
    return None if value is None else int(value)


def float_attribute(group, name):
    value = number_attribute(group, name, "iubf", "number")
    return None if value is None else float(value)
