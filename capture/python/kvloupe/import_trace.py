"""A trace of q, k and v that another program wrote as arrays."""
import os

import numpy as np

from . import array_files
from .chunks import ChunkTable
from .errors import KvloupeError, one_line
from .header import MOST
from .interrupts import dropping
from .part_file import PartFile, check_output, names_of, refuse_inputs
from .softmax_form import SoftmaxForm
from .trace_model import ModelInfo
from .writer import Heads, Header, TraceWriter, drop_begun

AXES = ("layers", "heads", "tokens", "channels")


def import_trace(output, q, k, v, *, ids=None, texts=None, layers=None, chunk_size=128, scale=None, rope_theta=0.0, model=None, dtype=None, force=False):
    """Writes the trace `output` of the files q, k and v: arrays [layers, heads, tokens, channels], or of one layer without its axis.

    ids         a file of the tokens' numbers; without it each token is numbered by its position
    texts       a JSON file, a list of the tokens' texts
    layers      the numbers of the layers; from 0 on by default
    chunk_size  prefill is cut at its multiples
    scale       of the logits; 1 / sqrt(channels of q) by default
    rope_theta  base of the rotary embedding that q and k have; 0: not known
    model       its name; the name of the output by default
    dtype       "float16" or "float32": how they are stored; by default as wide as they are

    Raises KvloupeError for what is no q, k and v of one model, and writes nothing then."""
    check_output(output, force)
    refuse_inputs(names_of(output), (q, k, v, ids, texts))
    arrays = _arrays({"q": q, "k": k, "v": v})
    num_layers, _, num_tokens, _ = arrays["q"].shape
    numbers = _numbers(layers, num_layers)
    ids = np.arange(num_tokens, dtype=np.int32) if ids is None else _ids(ids, num_tokens)
    text = () if texts is None else array_files.texts_of(texts, num_tokens)
    dtype = dtype or ("float16" if all(values.dtype == np.float16 for values in arrays.values()) else "float32")
    info = _model_of(arrays, numbers, scale, rope_theta, model or os.path.splitext(os.path.basename(output))[0])
    if rope_theta and arrays["v"].shape[3] > arrays["q"].shape[3]:
        raise KvloupeError("--rope-theta cannot be taken", "v has more channels than q, which is stored with as many", "leave it out")
    header = Header(info, Heads(0, info.num_q_heads, 0, info.num_kv_heads), dtype, frozenset(["qkv"]), (), texts is not None)
    part = PartFile(output, force)
    with dropping(part.part):
        _write(part, header, numbers, arrays, ids, text, chunk_size, output)


def _write(part, header, numbers, arrays, ids, text, chunk_size, output):
    info, writer = header.model, None
    try:
        writer = TraceWriter(part, header, len(ids))
        for number, values in zip(numbers, zip(*arrays.values())):
            writer.begin_layer(number, SoftmaxForm(info.softmax_scale))
            writer.write_rows(number, 0, {name: _stored(name, number, one, info.head_dim, header.dtype) for name, one in zip(arrays, values)})
        writer.write_tokens(ids, text)
        writer.finish_chunks(_chunks(len(ids), chunk_size))
        writer.close(complete=True)
    except BaseException as error:
        drop_begun(part, writer)
        if isinstance(error, KvloupeError) and error.parts[0].startswith("cannot write"):
            raise KvloupeError(f"cannot write {output}", error.why, "check the free space") from error
        if isinstance(error, (MemoryError, UnicodeError)):
            raise KvloupeError(f"cannot write {output}", one_line(error), "give fewer layers at a time, and names of plain text") from None
        raise


def _arrays(files):
    arrays = {}
    for name, path in files.items():
        values = array_files.one_of(path, name)
        if values.dtype.kind != "f" or values.ndim not in (3, 4):
            raise KvloupeError(f"{name} of {values.dtype} and shape {values.shape} cannot be taken", "it is of floats with the axes layers, heads, tokens, channels",
                               "give such an array, or of one layer [heads, tokens, channels]")
        arrays[name] = values if values.ndim == 4 else values[None]
        if 0 in values.shape:
            raise KvloupeError(f"{name} of shape {values.shape} cannot be taken", "an axis is empty", "give an array of at least one token")
    q, k, v = arrays.values()
    for name, values, axes in (("k", k, (0, 2, 3)), ("v", v, (0, 2))):
        for axis in axes:
            if values.shape[axis] != q.shape[axis]:
                raise KvloupeError(f"the axis of {AXES[axis]} of {name} is {values.shape[axis]} long", f"that of q is {q.shape[axis]} long: shapes {q.shape} and {values.shape}",
                                   "give [layers, heads, tokens, channels] of one model")
    if v.shape[1] != k.shape[1]:
        raise KvloupeError(f"the axis of heads of v is {v.shape[1]} long", f"that of k is {k.shape[1]} long", "give the values of the same KV heads")
    head_dim = max(q.shape[3], v.shape[3])
    for what, count, most in (("heads", q.shape[1], MOST["num_q_heads"]), ("channels", head_dim, MOST["head_dim"])):
        if count > most:
            raise KvloupeError(f"{count} {what} cannot be stored", f"a trace has at most {most}", "give [layers, heads, tokens, channels]")
    needed = (q.shape[1] + 2 * k.shape[1]) * q.shape[2] * head_dim * 4
    if needed > array_files.memory() // 2:
        raise KvloupeError("these arrays cannot be taken", f"a layer takes {needed >> 20} MiB, more than half of this machine's memory", "give fewer tokens")
    if q.shape[1] % k.shape[1]:
        raise KvloupeError(f"q has {q.shape[1]} heads and k has {k.shape[1]}", "each KV head belongs to as many query heads", "give [layers, heads, tokens, channels] of one model")
    return arrays


def _numbers(layers, count):
    numbers = list(range(count)) if layers is None else sorted(layers)
    if len(numbers) != count:
        raise KvloupeError(f"{len(numbers)} layers are named", f"the arrays have {count}", "name as many, or none")
    if numbers[-1] >= MOST["num_layers"]:
        raise KvloupeError(f"{numbers[-1] + 1} layers cannot be stored", f"a trace has at most {MOST['num_layers']}", "give fewer")
    return numbers


def _ids(path, count):
    ids = array_files.one_of(path, "ids")
    if ids.dtype.kind not in "iu" or ids.shape not in ((count,), (1, count)):
        raise KvloupeError(f"ids of {ids.dtype} and shape {ids.shape} cannot be taken", f"they are integers, one for each of the {count} tokens", "give the ids of these tokens")
    if (ids < 0).any() or (ids > np.iinfo(np.int32).max).any():
        raise KvloupeError(f"the id {ids[(ids < 0) | (ids > np.iinfo(np.int32).max)][0]} cannot be taken", "an id is a number from 0 to 2147483647", "give the ids of the tokens")
    return ids.reshape(-1).astype(np.int32)


def _model_of(arrays, numbers, scale, rope_theta, name):
    q, k, v = arrays.values()
    head_dim = max(q.shape[3], v.shape[3])
    return ModelInfo(name=name, architecture="imported", num_layers=numbers[-1] + 1, num_q_heads=q.shape[1], num_kv_heads=k.shape[1], head_dim=head_dim,
                     hidden_size=q.shape[1] * head_dim, softmax_scale=scale or q.shape[3] ** -0.5, rope_theta=rope_theta, rope_scaling="none",
                     layer_types=["full"] * (numbers[-1] + 1), v_head_dim=v.shape[3] if v.shape[3] < head_dim else 0)


def _stored(name, layer, values, head_dim, dtype):
    """[heads, tokens, head_dim]: the fewer channels are filled up by zeros, which change no product."""
    stored = np.zeros((*values.shape[:2], head_dim), dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        stored[:, :, : values.shape[2]] = values
    if not np.isfinite(stored).all():
        head, token, _ = np.argwhere(~np.isfinite(stored))[0]
        why = f"{dtype} has no number so large" if np.isfinite(values).all() else "it is not finite"
        raise KvloupeError(f"{name} of layer {layer}, head {head}, token {token} cannot be stored", why, "give finite values" if dtype == "float32" else "give finite values, or --dtype float32")
    return stored


def _chunks(num_tokens, chunk_size):
    table = ChunkTable(chunk_size)
    chunks = table.advance(table.cut(num_tokens))
    last = table.close_open()
    return chunks + ([last] if last else [])
