"""How a model turns its keys by position, seen in the keys of one token that stands alone at two of them. Needs torch."""
import dataclasses
import warnings

import torch

from .model_info import has_rope, rope_of, text_config
from .model_look import keys_at

PAIRINGS = ("half_split", "interleaved")
_BEGIN, _FURTHER = POSITIONS = (0, 97)
# How far keys may be from what is expected of them, channel by channel: weights and angles may be of bf16.
_TOLERANCE = 2e-2


@dataclasses.dataclass(frozen=True)
class Turning:
    still: frozenset = frozenset()  # layers whose keys are the same at each position
    turned: frozenset = frozenset()  # the others that were seen
    pairing: str = "half_split"  # which channels are turned as a pair
    follows_theta: bool = True  # turned as rope_theta and the pairing alone say


def turning_of(model, modules):
    """Where it cannot be seen a warning says so, and it counts as unknown."""
    config = text_config(model)
    if not has_rope(config):
        return Turning(still=frozenset(range(config.num_hidden_layers)), follows_theta=False)
    try:
        return _measured(keys_at(model, modules, POSITIONS), rope_of(config)[0])
    except Exception as problem:  # pylint: disable=broad-except
        warnings.warn(f"kvloupe: one token alone could not be run ({type(problem).__name__}: {problem}); how keys are turned by position "
                      "is not known, so what turns them back or on is refused of this trace", RuntimeWarning, stacklevel=2)
        still = [layer for module, layer in modules.items() if not getattr(module, "use_rope", True)]
        return Turning(still=frozenset(still), follows_theta=False)


def _measured(keys, theta):
    """keys: layer -> [2, KV heads, D]. A layer whose keys are zeros says nothing."""
    said = {layer: (begin.double(), further.double()) for layer, (begin, further) in keys.items() if bool(begin.any())}
    still = frozenset(layer for layer, (begin, further) in said.items() if _is_near(begin, further, further.abs()))
    turned = [both for layer, both in said.items() if layer not in still]
    # A pair that is turned keeps its length, by whatever angle it is turned.
    pairings = [pairing for pairing in PAIRINGS
                if all(begin.shape[-1] % 2 == 0 and _keeps_lengths(begin, further, pairing) for begin, further in turned)]
    if not pairings:
        return Turning(still, frozenset(said) - still, follows_theta=False)
    follows = theta > 0 and all(_follows(begin, further, theta, pairings[0]) for begin, further in turned)
    return Turning(still, frozenset(said) - still, pairings[0], follows)


def _follows(begin, further, theta, pairing):
    turned = turned_rows(begin.unsqueeze(-2), torch.tensor([_FURTHER - _BEGIN]), theta, pairing)[..., 0, :]
    return _is_near(torch.stack(_pairs(turned, pairing)), torch.stack(_pairs(further, pairing)), _lengths(further, pairing))


def turned_rows(rows, by, theta, pairing):
    """rows [.., n, D], each turned on by so many positions; in double precision."""
    dim = rows.shape[-1]
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=rows.device) / dim)
    angles = by.to(rows.device).double().unsqueeze(1) * frequencies
    x, y = _pairs(rows.double(), pairing)
    x, y = x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos()
    return torch.cat([x, y], -1) if pairing == "half_split" else torch.stack([x, y], -1).flatten(-2)


def _pairs(rows, pairing):
    return rows.chunk(2, -1) if pairing == "half_split" else (rows[..., ::2], rows[..., 1::2])


def _lengths(rows, pairing):
    return torch.hypot(*_pairs(rows, pairing))


def _keeps_lengths(begin, further, pairing):
    lengths = _lengths(further, pairing)
    return _is_near(_lengths(begin, pairing), lengths, lengths)


def _is_near(rows, others, sizes):
    """A few large channels, which many models have, must not hide that the others move."""
    return bool(((rows - others).abs() <= _TOLERANCE * (sizes + sizes.median())).all())
