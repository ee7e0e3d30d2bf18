"""How a model turns its keys by position, and keys at other ones (streaming_llm:positions=reassigned). Needs torch."""
import torch

from .errors import KvloupeError
from .model_look import keys_at

# Where the keys of a token are looked at, and how far they may be from what is expected there, of their length.
_LOOKED_AT = 97
_TOLERANCE = 1e-3


class Rotary:
    """Heads turned by one base without scaling, a channel and the one half a head further as a pair."""

    def __init__(self, model, modules, info, in_all_layers=False):
        """Raises KvloupeError where the model's own keys are turned otherwise; layers may do without where not all must."""
        if info.rope_scaling != "none" or info.rope_theta <= 0 or info.head_dim % 2:
            raise _unknown()
        lanes = torch.arange(0, info.head_dim, 2, dtype=torch.float64)
        self._frequencies = info.rope_theta ** (-lanes / info.head_dim)
        begin, further = keys_at(model, modules, 0), keys_at(model, modules, _LOOKED_AT)
        if not all(bool(keys.any()) for keys in begin.values()):
            raise _unknown()
        self._layers = {layer for layer in begin if not _is_same(begin[layer], further[layer])}
        for layer in self._layers:
            if not _is_same(self._turned(begin[layer], torch.tensor([_LOOKED_AT])), further[layer]):
                raise _unknown()
        if in_all_layers and len(self._layers) < len(begin):
            raise _unknown()

    def reassigned(self, layer, k, begin, kept):
        """k [KV heads, n, D] where the kept past of each head stands right before the chunk at `begin`: only distances matter, so the
        chunk stays where it is. kept: positions."""
        if layer not in self._layers:
            return k
        heads = []
        for head, row in enumerate(kept):
            at = torch.as_tensor(row, dtype=torch.long, device=k.device)
            turned = self._turned(k[head, at], torch.arange(begin - len(at), begin, device=k.device) - at)
            heads.append(k[head].float().index_copy(0, at, turned))
        return torch.stack(heads)

    def _turned(self, rows, by):
        """rows [.., n, D], each turned on by so many positions."""
        angles = by.double().unsqueeze(1) * self._frequencies.to(rows.device)
        x, y = rows.double().chunk(2, -1)
        return torch.cat([x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos()], -1).float()


def _is_same(rows, others):
    return float((rows.float() - others.float()).norm()) <= _TOLERANCE * float(others.float().norm())


def _unknown():
    return KvloupeError("this method cannot be run sparsely here", "how this model turns its keys by position is not known here",
                        "give another method; streaming_llm takes positions=original")
