"""What the attention of each layer is given, seen by running one token. Needs torch and transformers."""
import contextlib
import dataclasses

import torch

from . import guards
from .calls import decoder_of
from .chunks import ChunkTable
from .forwards import Forward, shape_of, unheard
from .probe import state_kept
from .tap import AttentionTap


@dataclasses.dataclass(frozen=True)
class Look:
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
    return Look(forms, shape)


def keys_at(model, modules, positions):
    """Layer -> keys [positions, KV heads, D] of a token that stands alone at each of them."""
    return {layer: call.key[:, :, -1] for layer, call in _heard(model, modules, positions).items()}


def _heard(model, modules, positions=None):
    """Layer -> the call of its attention when one token runs, or one alone at each of the positions."""
    calls = {}
    tap, decoder = AttentionTap(modules, calls.__setitem__), decoder_of(model)
    embeddings = decoder.get_input_embeddings()
    device, token = embeddings.weight.device, int(getattr(embeddings, "padding_idx", None) == 0)  # Padding has no embedding.
    where = {} if positions is None else {"position_ids": torch.tensor(positions, device=device).unsqueeze(1)}
    count = len(positions or [0])
    tap.install()
    try:
        with torch.no_grad(), state_kept(decoder), unheard(decoder), _uncompiled():
            decoder(input_ids=torch.full((count, 1), token, device=device), use_cache=False, **where)
    finally:
        tap.remove()
    return calls


def _uncompiled():
    """Compiling for one token would take longer than all else."""
    stance = getattr(torch.compiler, "set_stance", None)
    return stance("force_eager") if stance else contextlib.nullcontext()
