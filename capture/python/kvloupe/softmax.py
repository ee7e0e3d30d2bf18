"""Sums over the rows of a layer's softmax. Needs torch."""
import contextlib
import math

import torch

# Logits that are held at a time. On a CPU threads wait for each other after every step, which costs most on a busy machine: so
# the steps are long, and what a thread works on still fits a large cache.
MOST_LOGITS_OF_A_THREAD = 1 << 22
MOST_LOGITS_OF_A_DEVICE = 1 << 26
# Fewer rows at a time would make the product slow, however many keys there are.
LEAST_ROWS = 32
# Powers of 2 are taken faster than those of e.
LOG2_E = math.log2(math.e)


@contextlib.contextmanager
def exact_products(device_type, gradients=False):
    """fp32 stays fp32, whatever the model around it was allowed. Gradients pass only where they are asked for."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.set_grad_enabled(gradients and torch.is_grad_enabled()), torch.autocast(device_type, enabled=False):
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def probabilities(logits, form, seen, sinks=None):
    """Of the keys that are `seen`, from scaled products [.., rows, keys]; what a sink takes is missing. sinks [.., rows or 1, 1]."""
    if form.softcap:
        logits = form.softcap * torch.tanh(logits / form.softcap)
    logits = logits.masked_fill(~seen, float("-inf"))
    sums = logits.logsumexp(-1, keepdim=True)
    return (logits - (sums if sinks is None else torch.logaddexp(sums, sinks))).exp()


def sum_rows(q, k, form, first_row, first_key, with_mass):
    """Log-sum-exp of each row, and the probability that each key receives.

    q [H, m, D] are the queries at positions first_row on, k [G, n, D] the keys at first_key on: all that these queries see.
    Returns lse [H, m] and, where asked for, the mass [G, n]: summed over the rows and the group's heads; fp32. Both come from one
    product: exp(l - lse) is exp(l - max) times a factor of the row.
    """
    k = k.float()
    num_kv_heads, num_keys, _ = k.shape
    grouped = q.unflatten(0, (num_kv_heads, -1))
    sinks = None if form.sinks is None else form.sinks.float().view(num_kv_heads, -1, 1)
    lse = torch.empty(grouped.shape[:3], dtype=torch.float32, device=q.device)
    mass = torch.zeros(k.shape[:2], dtype=torch.float32, device=q.device) if with_mass else None
    with exact_products(q.device.type):
        for heads, rows in _tiles(grouped.shape, num_keys, q.device.type):
            begin, end = first_row + rows.start, first_row + rows.stop
            # Later keys are seen by none of these rows, and those that its window has left neither.
            lowest = max(first_key, begin - form.window + 1) if form.window else first_key
            seen = slice(lowest - first_key, min(end - first_key, num_keys))
            powers, top = _powers(grouped[heads, :, rows], k[heads, seen], form, begin, lowest)
            sums = _log2_sums(powers, top, None if sinks is None else sinks[heads])
            lse[heads, :, rows] = sums / LOG2_E
            if with_mass:
                factors = torch.exp2(top - sums)
                mass[heads, seen] += (factors.flatten(1).unsqueeze(1) @ powers.flatten(1, 2)).squeeze(1)
    return lse.flatten(0, 1), mass


def _tiles(shape, num_keys, device_type):
    """(KV heads, rows) that are summed together."""
    num_kv_heads, group, num_rows, _ = shape
    most = MOST_LOGITS_OF_A_THREAD * torch.get_num_threads() if device_type == "cpu" else MOST_LOGITS_OF_A_DEVICE
    rows = min(num_rows, max(LEAST_ROWS, most // (group * num_keys)))
    heads = max(1, most // (group * rows * num_keys))
    return [(slice(head, min(head + heads, num_kv_heads)), slice(row, min(row + rows, num_rows)))
            for head in range(0, num_kv_heads, heads) for row in range(0, num_rows, rows)]


def _powers(q, k, form, first_row, first_key):
    """2^(l - top) [heads, group, rows, keys] and top [heads, group, rows], the largest l of each row; l is the logit over ln 2."""
    heads, group, num_rows, dim = q.shape
    logits = torch.empty(heads, group * num_rows, k.shape[1], device=q.device)
    scale = form.scale if form.softcap else form.scale * LOG2_E
    q = q.to(torch.float32, copy=True, memory_format=torch.contiguous_format).view(heads, group * num_rows, dim)
    logits.baddbmm_(q, k.transpose(1, 2), beta=0, alpha=scale)
    if form.softcap:
        logits.div_(form.softcap).tanh_().mul_(form.softcap * LOG2_E)
    logits = logits.view(heads, group, num_rows, -1)
    _hide(logits, form.window, first_row, first_key)
    top = logits.amax(-1)
    return logits.sub_(top.unsqueeze(-1)).exp2_(), top


def _hide(logits, window, first_row, first_key):
    """What causality and the window hide: without a window that is a corner."""
    num_rows, num_keys = logits.shape[2:]
    begin = 0 if window else max(0, first_row - first_key)
    rows = torch.arange(first_row, first_row + num_rows, device=logits.device).unsqueeze(1)
    keys = torch.arange(first_key + begin, first_key + num_keys, device=logits.device).unsqueeze(0)
    hidden = keys > rows
    if window:
        hidden |= keys <= rows - window
    logits[..., begin:].masked_fill_(hidden, float("-inf"))


def _log2_sums(powers, top, sinks):
    sums = top + powers.sum(-1).log2_()
    sums = torch.where(top.isinf(), top, sums)  # Of logits that are not finite.
    return sums if sinks is None else torch.logaddexp2(sums, sinks * LOG2_E)
