"""Sums over the rows of a layer's softmax. Needs torch."""
import contextlib

import torch

# Logits that are held at a time, and query rows: 256 MiB at 4 bytes.
MOST_LOGITS = 1 << 26
MOST_ROWS = 256


@contextlib.contextmanager
def exact_products(device_type):
    """fp32 stays fp32, whatever the model around it was allowed."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device_type, enabled=False):
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def sum_rows(q, k, form, first_row, first_key, with_mass):
    """Log-sum-exp of each row, and the probability that each key receives.

    q [H, m, D] are the queries at positions first_row on, k [G, n, D] the keys at first_key on: all that these queries see.
    Returns lse [H, m] and, where asked for, the mass [G, n]: summed over the rows and the group's heads; fp32.
    """
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    mass = torch.zeros(k.shape[:2], dtype=torch.float32, device=q.device) if with_mass else None
    with exact_products(q.device.type):
        for begin in range(0, q.shape[1], MOST_ROWS):
            end = min(begin + MOST_ROWS, q.shape[1])
            # Later keys are seen by none of these rows.
            seen = min(first_row + end - first_key, k.shape[1])
            rows = _sum_tile(q[:, begin:end], k[:, :seen], form, first_row + begin, first_key, lse[:, begin:end], with_mass)
            if with_mass:
                mass[:, :seen] += rows
    return lse, mass


def _sum_tile(q, k, form, first_row, first_key, lse, with_mass):
    num_kv_heads, num_keys, dim = k.shape
    num_rows = q.shape[1]
    group = q.shape[0] // num_kv_heads
    rows = torch.arange(first_row, first_row + num_rows, device=q.device).unsqueeze(1)
    keys = torch.arange(first_key, first_key + num_keys, device=q.device).unsqueeze(0)
    hidden = keys > rows
    if form.window:
        hidden |= keys <= rows - form.window
    mass = []
    step = max(1, MOST_LOGITS // (group * num_rows * num_keys))
    for first in range(0, num_kv_heads, step):
        some_keys = k[first : first + step].float()
        heads = slice(first * group, (first + some_keys.shape[0]) * group)
        some_rows = q[heads].float().reshape(-1, group * num_rows, dim)
        logits = (some_rows @ some_keys.transpose(1, 2)).view(-1, group, num_rows, num_keys).mul_(form.scale)
        if form.softcap:
            logits = form.softcap * torch.tanh(logits / form.softcap)
        logits.masked_fill_(hidden, float("-inf"))
        sums = logits.logsumexp(-1)
        if form.sinks is not None:
            sums = torch.logaddexp(sums, form.sinks[heads].view(-1, group, 1).to(sums))
        lse[heads] = sums.flatten(0, 1)
        if with_mass:
            mass.append((logits - sums.unsqueeze(-1)).exp_().sum((1, 2)))
    return torch.cat(mass) if with_mass else None
