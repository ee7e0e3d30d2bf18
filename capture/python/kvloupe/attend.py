"""Attention to the keys that a method keeps. Needs torch."""
import torch

from .softmax import exact_products, probabilities


def attend_chunk(q, k, v, form, begin, kept, chooses_own=False, blocks=None):
    """[m, q heads, D], fp32: the chunk's queries attend to the keys kept before it and to the chunk, causally.

    q              [q heads, m, D] of the chunk at `begin`
    k, v           [KV heads, n, D] of positions 0 on, the chunk's among them
    kept           for each row, which is one or several query heads, its positions; None: all
    chooses_own    the positions choose among the chunk's keys, too; each query sees its own in any case
    blocks         Blocks: of those positions and of the chunk's keys each query block sees its own blocks alone. A row is one query head
    """
    own = torch.arange(begin, begin + q.shape[1], device=q.device)
    if kept is None:
        first = max(0, begin - form.window + 1) if form.window else 0
        kept, chooses_own = [torch.arange(first, begin, device=q.device)] * len(k), False
    else:
        kept = [torch.as_tensor(row, dtype=torch.long, device=q.device) for row in kept]
    sinks = None if form.sinks is None else form.sinks.to(q.device, torch.float32).view(-1, 1, 1)
    width, group = len(q) // len(kept), len(q) // len(k)
    parts = []
    with exact_products(q.device.type, gradients=True):
        for row, past in enumerate(kept):
            heads, kv_head = slice(row * width, (row + 1) * width), row * width // group
            at, seen = _keys_of(past, own, form.window, chooses_own)
            if blocks is not None:
                seen &= torch.from_numpy(blocks.seen(row, own.cpu(), at.cpu())).to(q.device)
            logits = form.scale * (q[heads].float() @ k[kv_head, at].float().T)
            p = probabilities(logits, form, seen, None if sinks is None else sinks[heads])
            parts.append(p @ v[kv_head, at].float())
    return torch.cat(parts).transpose(0, 1)


def _keys_of(kept, own, window, chooses_own):
    """The positions that some query reads, and [m, positions]: which queries see them."""
    at = torch.cat([kept[kept < own[0]], own])
    rows = own.unsqueeze(1)
    seen = at <= rows
    if window:
        seen &= at > rows - window
    if chooses_own:
        seen &= torch.isin(at, kept) | (at == rows)
    return at, seen
