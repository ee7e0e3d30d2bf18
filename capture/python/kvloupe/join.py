"""kvloupe.merge: the parts that the ranks of one model wrote, joined to one trace."""
import numpy as np

from .errors import KvloupeError, one_line
from .layout import DECODE, PREFILL
from .trace_model import ModelInfo
from .part import Part
from .part_file import PartFile, names_of, refuse_inputs
from .softmax_form import SoftmaxForm
from .stored import BROKEN, Defect
from .writer import Header, Heads, TraceWriter, drop_begun

TOKENS_AT_ONCE = 4096
SETS = ("q", "k", "v", "lse")


def merge_parts(paths, path, force=False):
    parts = sorted((Part(part) for part in paths), key=lambda part: part.rank)
    try:
        refuse_inputs(names_of(path), [part.path for part in parts])
        _check_alike(parts)
        num_chunks = min(len(part.chunks) for part in parts)
        if num_chunks == 0:
            raise _refuse("one of them has no chunk that was done", "record again")
        owners = {layer: _owners(parts, layer) for layer in sorted({layer for part in parts for layer in part.layers})}
        header = _joint_header(parts, owners)
        _write(PartFile(path, force), header, parts, owners, num_chunks)
    except Defect as defect:
        raise KvloupeError(f"cannot merge to {path}", str(defect), "record again") from None
    except (AttributeError, *BROKEN) as error:  # what h5py raises of a damaged part
        raise KvloupeError(f"cannot merge to {path}", one_line(error), "record again") from None
    finally:
        for part in parts:
            part.file.close()


def _write(output, header, parts, owners, num_chunks):
    writer = None
    try:
        writer = TraceWriter(output, header, parts[0].num_tokens, _prefill_keys(parts[0]))
        _copy(parts[0], owners, num_chunks, writer)
        whole = all(part.complete and len(part.chunks) == num_chunks for part in parts)
        writer.close(complete=whole, generated=parts[0].generated, file_hash=_hash_of(parts))
    except BaseException as error:
        drop_begun(output, writer)
        if isinstance(error, KvloupeError) and error.parts[0].startswith("cannot write"):
            raise KvloupeError(f"cannot write {output.path}", error.why, "check the free space") from error
        raise


def _refuse(why, what_to_do):
    return KvloupeError("these parts cannot be merged", why, what_to_do)


def _check_alike(parts):
    if not parts:
        raise _refuse("there are none", "name the files T.h5.rank0, T.h5.rank1 and so on")
    first = parts[0]
    expected = list(range(first.count))
    if [part.rank for part in parts] != expected:
        raise _refuse(f"they are the ranks {[part.rank for part in parts]} of {first.count}", "name each part once, and all of them")
    for part in parts[1:]:
        common = min(len(part.chunks), len(first.chunks))
        names = [name for name in first.model if name not in ("file_hash", "layer_types") and part.model[name] != first.model[name]]
        if names or part.dtype != first.dtype or part.count != first.count:
            raise _refuse(f"{part.path} is of another model or type than {first.path}", "name the parts of one recording")
        if part.chunks[:common] != first.chunks[:common]:
            raise _refuse(f"{part.path} has other chunks than {first.path}", "name the parts of one recording")
        tokens = first.chunks[common - 1].end if common else 0
        if not np.array_equal(part.ids[:tokens], first.ids[:tokens]):
            raise _refuse(f"{part.path} has other tokens than {first.path}", "ranks that ran other sequences are traces of their own")


def _owners(parts, layer):
    """The parts whose heads of the layer, one after the other, are all of them; copies are passed over."""
    owners, at = [], (0, 0)
    total = parts[0].model["num_q_heads"], parts[0].model["num_kv_heads"]
    for part in sorted((part for part in parts if layer in part.layers), key=lambda part: part.heads.kv_begin):
        if (part.heads.q_begin, part.heads.kv_begin) == at:
            owners.append(part)
            at = part.heads.q_end, part.heads.kv_end
        elif not owners or part.heads != owners[-1].heads:
            break
    if at != total:
        raise _refuse(f"KV head {at[1]} of layer {layer} is in none of them", "name all parts of the recording")
    return owners


def _joint_header(parts, owners):
    first = parts[0]
    model = ModelInfo(**first.model)
    model.layer_types = [next((part.model["layer_types"][layer] for part in owners.get(layer, ())), kind)
                         for layer, kind in enumerate(model.layer_types)]
    model.layers_without_rope = frozenset(layer for layer, kind in enumerate(model.layer_types) if kind == "nope")
    store = set()
    for layer, having in owners.items():
        for name, what in (("q", "qkv"), ("lse", "lse"), ("key_mass", "mass")):
            if all(part.has(layer, name) for part in having):
                store.add(what)
    if all(part.nll is not None for part in parts):
        store.add("loss")
    spans = tuple((span.name, span.begin, span.end) for span in first.spans)
    heads = Heads(0, model.num_q_heads, 0, model.num_kv_heads)
    return Header(model, heads, first.dtype, frozenset(store), spans, first.text is not None)


def _prefill_keys(part):
    return sum(chunk.end for chunk in part.chunks if chunk.phase == "prefill")


def _hash_of(parts):
    return next((part.model["file_hash"] for part in parts if part.model["file_hash"]), "")


def _copy(first, owners, num_chunks, writer):
    chunks = first.chunks[:num_chunks]
    num_tokens = chunks[-1].end
    texts = ()
    if first.text is not None:
        raw, offsets = first.text
        texts = [raw[offsets[t] : offsets[t + 1]] for t in range(num_tokens)]
    losses = first.nll[:num_tokens] if "loss" in writer.header.store else None
    writer.write_tokens(first.ids[:num_tokens], texts, losses)
    for layer, having in owners.items():
        forms = [part.form(layer) for part in having]
        sinks = None if forms[0].sinks is None else np.concatenate([np.atleast_1d(form.sinks) for form in forms])
        writer.begin_layer(layer, SoftmaxForm(forms[0].scale, forms[0].window, forms[0].softcap, sinks))
        names = [name for name in SETS if ("lse" if name == "lse" else "qkv") in writer.header.store]
        for begin in range(0, num_tokens, TOKENS_AT_ONCE):
            end = min(begin + TOKENS_AT_ONCE, num_tokens)
            writer.write_rows(layer, begin, {name: np.concatenate([part.rows(layer, name, begin, end) for part in having])
                                             for name in names})
        if "mass" in writer.header.store:
            _copy_mass(layer, having, chunks, writer)
    writer.finish_chunks([(chunk.begin, chunk.length, PREFILL if chunk.phase == "prefill" else DECODE) for chunk in chunks])


def _copy_mass(layer, having, chunks, writer):
    at = 0
    for index, chunk in enumerate(chunks):
        if chunk.phase == "prefill":
            mass = np.concatenate([part.mass(layer, index) for part in having])
            writer.write_mass(layer, at, mass)
            at += mass.size
