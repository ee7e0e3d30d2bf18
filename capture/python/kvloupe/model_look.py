"""What the attention of each layer is given, seen by running one token. Needs torch and transformers."""
import dataclasses

import torch

from . import guards
from .calls import decoder_of
from .chunks import ChunkTable
from .forwards import Forward, shape_of
from .model_info import describe_model
from .probe import state_kept
from .tap import AttentionTap
from .trace_model import ModelInfo


@dataclasses.dataclass(frozen=True)
class Look:
    model: ModelInfo
    forms: list  # SoftmaxForm of each layer
    shape: object  # LayerShape of all layers


def look_at(model, modules):
    """Some of it no configuration says. The model is left as it was."""
    calls = _heard(model, modules)
    forward = Forward(None, [0], [0], ChunkTable(1).cut(1), 0, None)
    forward.layers.update(calls)
    guards.check_layers(sorted(modules.values()), forward)
    shapes = {layer: shape_of(call) for layer, call in calls.items()}
    guards.check_shapes(shapes)
    shape = shapes[0]
    forms = [guards.softmax_of(calls[layer], shape.scale) for layer in sorted(calls)]
    return Look(describe_model(model, modules, shape, ()), forms, shape)


def keys_at(model, modules, position):
    """Layer -> keys [KV heads, 1, D] of a token that stands alone at a position."""
    return {layer: call.key[0, :, -1:] for layer, call in _heard(model, modules, position).items()}


def _heard(model, modules, position=None):
    """Layer -> the call of its attention when one token runs."""
    calls = {}
    tap, decoder = AttentionTap(modules, calls.__setitem__), decoder_of(model)
    embeddings = decoder.get_input_embeddings()
    device, token = embeddings.weight.device, int(getattr(embeddings, "padding_idx", None) == 0)  # Padding has no embedding.
    where = {} if position is None else {"position_ids": torch.tensor([[position]], device=device)}
    tap.install()
    try:
        with torch.no_grad(), state_kept(decoder):
            decoder(input_ids=torch.tensor([[token]], device=device), use_cache=False, **where)
    finally:
        tap.remove()
    return calls
