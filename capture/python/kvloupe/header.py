"""Root, model, chunks and tokens of a trace, checked before anything is believed."""
import math
import typing

import numpy as np

from .errors import KvloupeError
from .stored import Defect, attribute, float_attribute, int_attribute, member, open_dataset, read, read_range, text_attribute, text_of

MAJOR = 1
MOST = {"num_layers": 4096, "num_q_heads": 65536, "num_kv_heads": 65536, "head_dim": 65536}
MOST_SPANS = 65536
LAYER_TYPES = ("full", "sliding", "nope")
TEXTS = ("name", "architecture", "file_hash", "rope_scaling", "rope_pairing", "compute", "adapter")


class Chunk(typing.NamedTuple):
    begin: int
    length: int
    phase: str  # prefill or decode

    @property
    def end(self):
        return self.begin + self.length


class Span(typing.NamedTuple):
    name: str
    begin: int
    end: int


def check_format(file, path, mark, noun):
    """The schema version of a file of this kind that can be read."""
    if text_attribute(file, "format") != mark:
        raise KvloupeError(f"{path} is not {noun}", f'it does not carry the mark format="{mark}"', "make one by kvloupe.record")
    version = text_attribute(file, "schema_version") or ""
    major = version.split(".")[0]
    if not major.isdecimal() or int(major) < 1:
        raise Defect(f'its schema_version "{version}" is no version')
    if int(major) > MAJOR:
        raise KvloupeError(f"cannot read {path}", f"its schema version {version} is newer than {MAJOR}.x, which this package reads",
                           "use a newer kvloupe")
    return version


def tolerate(warnings, load, otherwise=None):
    """What is wrong here is left out with a warning; the rest of the trace serves."""
    try:
        return load()
    except Defect as defect:
        warnings.append(str(defect))
        return otherwise


def load_model(file, warnings):
    group = member(file, "model")
    if group is None:
        raise Defect("/model is missing")
    model = {}
    for name, most in MOST.items():
        value = int_attribute(group, name)
        if value is None or not 1 <= value <= most:
            raise Defect(f"{name} of /model is {value}, outside 1 to {most}")
        model[name] = value
    if model["num_q_heads"] % model["num_kv_heads"]:
        raise Defect(f"{model['num_q_heads']} query heads cannot be shared by {model['num_kv_heads']} KV heads")
    model["hidden_size"] = tolerate(warnings, lambda: int_attribute(group, "hidden_size")) or 0
    model["v_head_dim"] = tolerate(warnings, lambda: int_attribute(group, "v_head_dim")) or 0
    for name in TEXTS:
        model[name] = tolerate(warnings, lambda: text_attribute(group, name)) or ""
    model["rope_scaling"] = model["rope_scaling"] or "none"
    model["rope_pairing"] = model["rope_pairing"] or "half_split"
    scale = tolerate(warnings, lambda: float_attribute(group, "softmax_scale"))
    if scale is None or not math.isfinite(scale) or scale <= 0:
        warnings.append("softmax_scale of /model is no positive number; 1/sqrt(head_dim) is assumed")
        scale = model["head_dim"] ** -0.5
    model["softmax_scale"] = scale
    model["rope_theta"] = tolerate(warnings, lambda: float_attribute(group, "rope_theta")) or 0.0
    model["kv_heads"] = tolerate(warnings, lambda: _kv_heads(group, model["num_kv_heads"]), []) or []
    plain = ["full"] * model["num_layers"]
    model["layer_types"] = tolerate(warnings, lambda: _layer_types(group, model["num_layers"]), plain) or plain
    return model


def _layer_types(group, num_layers):
    words = attribute(group, "layer_types")
    if words is None:
        return None
    types = [text_of(word) for word in np.atleast_1d(words)]
    if len(types) != num_layers or not set(types) <= set(LAYER_TYPES):
        raise Defect("layer_types of /model does not name a type for each layer")
    return types


def _kv_heads(group, num_kv_heads):
    """Their numbers in the model that was recorded, where only some were."""
    text = text_attribute(group, "kv_heads")
    if text is None:
        return None
    words = text.split(",")
    numbers = [int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 6]
    if len(numbers) != len(words) or len(numbers) != num_kv_heads or sorted(set(numbers)) != numbers:
        raise Defect("kv_heads of /model does not name the KV heads in ascending order")
    return numbers


def load_chunks(file):
    """The chunks done; they tile [0, T)."""
    done = int_attribute(file, "chunks_done")
    if done is None or done < 0:
        raise Defect(f"the attribute chunks_done is {done}")
    columns = [read_range(open_dataset(file, f"/chunks/{name}", "integer", 1), 0, done) for name in ("begin", "length", "phase")]
    chunks, expected = [], 0
    for index, (begin, length, phase) in enumerate(zip(*(column.tolist() for column in columns))):
        if begin != expected or length < 1 or begin + length > 2**31 - 1:
            raise Defect(f"chunk {index} is [{begin}, {begin + length}) where the one before ends at {expected}")
        if phase not in (0, 1):
            raise Defect(f"chunk {index} has the unknown phase {phase}")
        chunks.append(Chunk(begin, length, "decode" if phase else "prefill"))
        expected = begin + length
    return chunks


def load_query_offsets(file, chunks):
    """Where each chunk begins in q [C+1], or None where each token has its query there."""
    if member(file, "/chunks/query_offsets") is None:
        return None
    offsets = read_range(open_dataset(file, "/chunks/query_offsets", "integer", 1), 0, len(chunks) + 1)
    lengths, counts = np.array([chunk.length for chunk in chunks], np.int64), np.diff(offsets)
    if offsets[0] != 0 or ((counts != 0) & (counts != lengths)).any():
        raise Defect("/chunks/query_offsets does not give each chunk a query for each of its tokens, or none")
    return offsets


def load_ids(file, num_tokens):
    return read_range(open_dataset(file, "/tokens/ids", "integer", 1), 0, num_tokens, np.int32)


def load_text(file, num_tokens):
    """(bytes, offsets [T+1]) of all tokens, or None where the trace has no text."""
    if member(file, "/tokens/text") is None and member(file, "/tokens/text_offsets") is None:
        return None
    text = open_dataset(file, "/tokens/text", "integer", 1)
    offsets = read_range(open_dataset(file, "/tokens/text_offsets", "integer", 1), 0, num_tokens + 1)
    if (np.diff(offsets) < 0).any() or offsets[0] < 0 or offsets[-1] > text.shape[0]:
        raise Defect("/tokens/text_offsets falls, or ends beyond the text")
    return read_range(text, 0, int(offsets[-1]), np.uint8).tobytes(), offsets


def load_nll(file, num_tokens):
    """-log P of each token [T], or None where it was not stored."""
    if member(file, "/tokens/nll") is None:
        return None
    return read_range(open_dataset(file, "/tokens/nll", "float", 1), 0, num_tokens, np.float32)


def load_spans(file):
    if member(file, "/tokens/spans") is None:
        return []
    dataset = open_dataset(file, "/tokens/spans", "compound", 1)
    if dataset.shape[0] == 0:
        return []
    if not {"name", "begin", "end"} <= set(dataset.dtype.names or ()) or dataset.shape[0] > MOST_SPANS:
        raise Defect("/tokens/spans has no name, begin and end, or too many of them")
    if any(dataset.dtype[name].kind not in "iu" for name in ("begin", "end")):
        raise Defect("begin and end of /tokens/spans are no integers")
    spans = []
    for record in read(dataset):
        span = Span(text_of(record["name"]), int(record["begin"]), int(record["end"]))
        if span.name is None or not 0 <= span.begin <= span.end:
            raise Defect(f"a span is [{span.begin}, {span.end})")
        spans.append(span)
    return spans
