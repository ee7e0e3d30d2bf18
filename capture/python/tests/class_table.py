"""Model classes and ways of calling them: recorded right, or refused in a sentence that helps.

    KVLOUPE_PROGRAM=build/release/bin/kvloupe python -m tests.class_table     prints the table; test_class_table.py asserts its rows

Each model is tiny, made from a configuration, with random weights. What is right is what transformers' eager attention gives as
`output_attentions` in a plain forward over the recorded tokens: the probabilities that numpy computes from the stored queries and
keys may differ by 1e-5. The program finds each trace sound. A row names its outcome beforehand: RIGHT, or words of the refusal.
"""
import contextlib
import dataclasses
import typing

import h5py
import numpy as np
import torch
import transformers

import kvloupe

from .class_table_models import build, tokens
from .support import program, scratch

RIGHT = "recorded"
TOLERANCE = 1e-5
# What bfloat16 and float16 leave of probabilities, whose logits they round.
HALF_TOLERANCE = 3e-2


@dataclasses.dataclass
class Row:
    """`run(model, ids)` inside a recording of `model`; `given` makes of it what is given to record."""
    name: str  # of the class
    way: str
    expected: str
    run: typing.Callable
    given: typing.Callable = lambda model: model
    options: dict = dataclasses.field(default_factory=dict)
    attention: str = "eager"
    reference: typing.Callable = None  # (model, trace's ids) -> attentions by layer
    tolerance: float = TOLERANCE
    changes: dict = dataclasses.field(default_factory=dict)  # of the configuration
    prepare: typing.Callable = lambda model: model


@dataclasses.dataclass
class Outcome:
    row: Row
    text: str  # RIGHT, or the refusal
    largest: float = 0.0  # difference of a probability
    layers: tuple = ()
    tokens: int = 0

    @property
    def as_expected(self):
        if self.row.expected == RIGHT:
            return self.text == RIGHT and self.largest <= self.row.tolerance and self.tokens > 0
        return self.text.count("; ") == 2 and self.row.expected in self.text


def judge(row):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = row.prepare(build(row.name, row.attention, row.changes))
    path = scratch("class-table.h5")
    path.unlink(missing_ok=True)
    given = row.given(model)
    try:
        with kvloupe.record(given, path, dtype="float32", chunk_size=8, force=True, **row.options), torch.no_grad():
            row.run(given, tokens())
    except kvloupe.KvloupeError as refusal:
        return Outcome(row, str(refusal))
    program("validate", path)
    with h5py.File(path) as file:
        ids = torch.tensor(file["tokens/ids"][:]).long()[None]
        attentions = (row.reference or plain_attentions)(model, ids)
        layers = tuple(sorted(int(layer) for layer in file["layers"]))
        largest = max(float(np.abs(probabilities(file, layer) - attentions[layer]).max()) for layer in layers)
    return Outcome(row, RIGHT, largest, layers, ids.shape[1])


def plain_attentions(model, ids):
    """Layer -> probabilities [heads, T, T] of an eager forward; layers without softmax attention are left out."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
    with eager(model), torch.no_grad(), torch.compiler.set_stance("force_eager"):
        given = model(input_ids=ids, output_attentions=True, use_cache=False).attentions
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    given = [one for one in given if one is not None]
    layers = range(count)
    if len(given) != count:
        layers = [layer for layer in layers if any(getattr(module, "layer_idx", None) == layer and hasattr(module, "is_causal")
                                                   for module in decoder.modules())]
    assert len(given) == len(layers), f"{len(given)} attentions for the layers {layers}"
    return {layer: one[0].float().numpy() for layer, one in zip(layers, given)}


@contextlib.contextmanager
def eager(model):
    """The model in evaluation, with its eager attention."""
    before, training = model.config._attn_implementation, model.training
    model.set_attn_implementation("eager")
    model.eval()
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        model.train(training)


def probabilities(file, layer):
    """[heads, T, T] by FORMAT.md alone."""
    group = file[f"layers/{layer}"]
    q, k = group["q"][:].astype(np.float64), group["k"][:].astype(np.float64)
    logits = float(file["model"].attrs["softmax_scale"]) * np.einsum("htd,hjd->htj", q, np.repeat(k, len(q) // len(k), 0))
    if "softcap" in group.attrs:
        logits = group.attrs["softcap"] * np.tanh(logits / group.attrs["softcap"])
    row, key = np.indices(logits.shape[1:])
    hidden = key > row
    if "window" in group.attrs:
        hidden |= key <= row - group.attrs["window"]
    logits[:, hidden] = -np.inf
    parts = [logits]
    if "sink_logit" in group.attrs:
        parts.append(np.broadcast_to(group.attrs["sink_logit"][:, None, None], (*logits.shape[:2], 1)))
    largest = np.concatenate(parts, -1).max(-1, keepdims=True)
    weights = [np.exp(part - largest) for part in parts]
    return weights[0] / sum(part.sum(-1, keepdims=True) for part in weights)


def print_table(rows):
    wrong = 0
    print(f"| {'class':28} | {'way':44} | outcome |")
    for row in rows:
        outcome = judge(row)
        said = f"{RIGHT}, layers {list(outcome.layers)}, differs by {outcome.largest:.1e}" if outcome.text == RIGHT else outcome.text
        wrong += not outcome.as_expected
        print(f"| {row.name:28} | {row.way:44} | {'' if outcome.as_expected else 'NOT AS EXPECTED '}{said} |", flush=True)
    print(f"{len(rows)} rows, {wrong} not as expected")
    return wrong


if __name__ == "__main__":
    from .class_table_rows import ROWS
    transformers.utils.logging.set_verbosity_error()
    raise SystemExit(bool(print_table(ROWS)))
