"""Keys at other positions (streaming_llm:positions=reassigned). Needs torch."""
import torch

from .errors import KvloupeError
from .turning import turned_rows


class Rotary:
    """Heads turned by one base without scaling."""

    def __init__(self, info, turning, in_all_layers=False):
        """Raises KvloupeError where the model's own keys are turned otherwise; layers may do without where not all must."""
        seen = len(turning.turned) + len(turning.still)
        if info.rope_scaling != "none" or not turning.follows_theta or seen < info.num_layers or (in_all_layers and turning.still):
            raise KvloupeError("this method cannot be run sparsely here", "how this model turns its keys by position is not known here",
                               "give another method; streaming_llm takes positions=original")
        self._theta, self._pairing, self._layers = info.rope_theta, turning.pairing, turning.turned

    def reassigned(self, layer, k, begin, kept):
        """k [KV heads, n, D] where the kept past of each head stands right before the chunk at `begin`: only distances matter, so the
        chunk stays where it is. kept: positions."""
        if layer not in self._layers:
            return k
        heads = []
        for head, row in enumerate(kept):
            at = torch.as_tensor(row, dtype=torch.long, device=k.device)
            by = torch.arange(begin - len(at), begin, device=k.device) - at
            heads.append(k[head].float().index_copy(0, at, turned_rows(k[head, at], by, self._theta, self._pairing).float()))
        return torch.stack(heads)
