"""Arrays in files of anyone: .npy, .npz and .safetensors. A pickle can run what it likes, so none is opened."""
import json
import os
import zipfile

import numpy as np

from .errors import KvloupeError, one_line

NPY = b"\x93NUMPY"
MOST_TOLD_NAMES, MOST_TOLD_OF_NAME = 10, 40
KINDS = (".npy", ".npz", ".safetensors")
PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt")
CONVERTER = ("""convert it where you trust it: python -c 'import numpy, torch; """
             """numpy.save("F.npy", torch.load("F.pt", weights_only=True).numpy())'""")
# Name in the file -> the type that holds its bits.
SAFETENSORS_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
                     "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}


def load(path, wanted=None):
    """{name: array} of a file; the array of an .npy has the name "". Of several `wanted` alone, if it is there. Those of .npy are
    read when they are used."""
    kind = os.path.splitext(path)[1].lower()
    if not os.path.isfile(path):
        raise KvloupeError(f"cannot read {path}", "there is no such file", f"give a file that ends in {', '.join(KINDS)}")
    try:
        if kind in PICKLES or (kind != ".safetensors" and _begins_as_pickle(path)):  # their first bytes are a length
            raise _pickle(path)
        if kind not in KINDS:
            raise KvloupeError(f"cannot read {path}", f"it does not end in {', '.join(KINDS)}", "write it as one of these")
        return {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors}[kind](path, wanted)
    except MemoryError:
        raise KvloupeError(f"cannot read {path}", "there is not enough memory for it", "give fewer layers at a time") from None
    except KvloupeError:
        raise
    except Exception as error:  # what a damaged file raises is of any type
        if _begins_as_pickle(path) or any(words in str(error) for words in ("Object arrays", "Python objects")):
            raise _pickle(path) from None
        raise KvloupeError(f"cannot read {path}", one_line(error), "check that it is whole") from None


def one_of(path, name):
    """The array of that name, or the only one."""
    arrays = load(path, name)
    if len(arrays) != 1 and name not in arrays:
        raise KvloupeError(f"{path} has no array {name}", f"it has {names_of(arrays)}", f"name it {name}, or give a file of one array")
    return arrays[name] if name in arrays else next(iter(arrays.values()))


def names_of(arrays):
    """As a sentence can have them: names in a file are anything."""
    told = [repr(name[:MOST_TOLD_OF_NAME]) for name in sorted(map(str, arrays))]
    return ", ".join(told[:MOST_TOLD_NAMES]) + (", ..." if len(told) > MOST_TOLD_NAMES else "") if told else "none"


def memory():
    """Of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _pickle(path):
    return KvloupeError(f"{path} is not read", "it is a pickle, which can run any program when it is opened", CONVERTER)


def _head_of(path):
    with open(path, "rb") as file:
        return file.read(len(NPY))


def _begins_as_pickle(path):
    head = _head_of(path)
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5


def _npy(path, _):
    if _head_of(path) != NPY:  # numpy would try it as a pickle
        raise KvloupeError(f"cannot read {path}", "it is no array of numpy", "write it by numpy.save")
    return {"": np.load(path, mmap_mode="r", allow_pickle=False)}


def _npz(path, wanted):
    with zipfile.ZipFile(path) as archive:
        if any(name.endswith("data.pkl") for name in archive.namelist()):
            raise _pickle(path)
        sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
    names = [wanted] if wanted in sizes else list(sizes)
    _check_room(path, sum(sizes[name] for name in names))
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in names}
    for name, values in arrays.items():
        if not isinstance(values, np.ndarray):  # numpy gives the bytes of what is none
            raise KvloupeError(f"cannot read {path}", f"{names_of([name])} in it is no array", "write it by numpy.savez")
    return arrays


def _safetensors(path, wanted):
    try:
        from safetensors import deserialize
    except ImportError:
        raise KvloupeError(f"cannot read {path}", "safetensors is not installed", "pip install safetensors, or write .npy") from None
    _check_room(path, 3 * os.path.getsize(path))  # the file, its tensors and one that is converted
    with open(path, "rb") as file:
        tensors = dict(deserialize(file.read()))
    return {name: _tensor(path, name, tensors[name]) for name in ([wanted] if wanted in tensors else tensors)}


def _tensor(path, name, stored):
    kind = SAFETENSORS_TYPES.get(stored["dtype"])
    if kind is None:
        raise KvloupeError(f"{names_of([name])} of {path} cannot be read", f"its type is {stored['dtype']}", f"write it as one of {', '.join(SAFETENSORS_TYPES)}")
    values = np.frombuffer(stored["data"], dtype=kind).reshape(stored["shape"])
    if stored["dtype"] == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def _check_room(path, size):
    """A file can claim more than any machine has, and three of them may be read together."""
    if size > memory() // 4:
        raise KvloupeError(f"cannot read {path}", f"it takes {size >> 20} MiB, more than a quarter of this machine's memory", "write .npy, which is read layer by layer")


def texts_of(path, count):
    """The bytes of each token, of a JSON list of so many texts."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = json.load(file)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise KvloupeError(f"cannot read {path}", one_line(error), "give a JSON list of texts, one a token") from None
    if not isinstance(texts, list) or len(texts) != count or not all(isinstance(text, str) for text in texts):
        raise KvloupeError(f"{path} does not say the text of each token", f"it is no list of {count} texts", "give one a token")
    return [text.encode("utf-8", "surrogatepass") for text in texts]
