"""Block methods: FlashPrefill, XAttention, FlexPrefill, and CompactAttention on the first two.

A mask is decided per query head and query block; beside it stands which blocks hang on a hair, so that
a near tie is not called a difference. Query blocks and blocks are cut from position 0.
"""
import math

import numpy as np

from ranking import TIE, Choice, Order, rank

FLASH = {"block_size": 128, "alpha": 0.01, "sink_blocks": 2, "window_blocks": 4, "last_full_blocks": 0}
XATTENTION = {"block_size": 128, "stride": 16, "tau": 0.9}
LOWERING = {"budget_tokens": 0, "lowering": "native"}

DEFAULTS = {
    "flash_prefill": {**FLASH, **LOWERING},
    "xattention": {**XATTENTION, **LOWERING},
    "flex_prefill": {"block_size": 128, "gamma": 0.9, "tau": 0.1, "min_budget": 512, **LOWERING},
    "compact_attention": {"selector": "flash_prefill", "subgroup_size": 4, "budget_tokens": 0,
                          **FLASH, "alpha": 0.06, **XATTENTION},
}

SPECS = [
    "flash_prefill:lowering=union,block_size=4,alpha=0.9,sink_blocks=1,window_blocks=1",
    "flash_prefill:lowering=union,block_size=5,alpha=0.8,sink_blocks=0,window_blocks=0",
    "flash_prefill:lowering=union,block_size=4,alpha=0.95,sink_blocks=0,window_blocks=1,last_full_blocks=3",
    "flash_prefill:budget_tokens=24,block_size=8,lowering=budget", "flash_prefill:lowering=union,alpha=0.06",
    "flash_prefill",
    "flash_prefill:block_size=4,alpha=0.9,sink_blocks=1,window_blocks=1",
    "flash_prefill:block_size=4,alpha=0.95,sink_blocks=0,window_blocks=1,last_full_blocks=3",
    "xattention", "xattention:block_size=4,stride=4,tau=0.2", "flex_prefill",
    "flex_prefill:block_size=8,gamma=0.2,tau=1,min_budget=8",
    "xattention:lowering=union,block_size=4,stride=4,tau=0.2", "xattention:lowering=union,block_size=16,stride=16,tau=0.1",
    "xattention:lowering=union,block_size=6,stride=3,tau=0.25",
    "xattention:budget_ratio=0.4,block_size=8,stride=8,lowering=budget",
    "flex_prefill:lowering=union,block_size=4,gamma=0.5,min_budget=16", "flex_prefill:lowering=union,block_size=8,gamma=0.2,tau=1,min_budget=8",
    "flex_prefill:lowering=union,block_size=6,gamma=0.6,tau=0.3,min_budget=6",
    "flex_prefill:budget_tokens=30,block_size=8,min_budget=16,lowering=budget",
    "compact_attention:block_size=4,alpha=0.8,sink_blocks=0,window_blocks=2",
    "compact_attention:selector=xattention,block_size=4,stride=4,tau=0.15",
    "compact_attention:subgroup_size=1,block_size=4,alpha=0.8,sink_blocks=0",
]


def is_block_method(method):
    return method in DEFAULTS


def query_blocks(begin, length, b):
    return list(range(begin // b, (begin + length - 1) // b + 1))


def rows_of_block(begin, length, block, b):
    """Absolute positions of the chunk's queries in a query block."""
    return np.arange(max(begin, block * b), min(begin + length, (block + 1) * b))


class Mask:
    """keep 0, 1, 2 (by rule), near and score, all [H, Q_b, N_b]; abstains [Q_b]."""

    def __init__(self, tr, begin, length, b):
        self.b, self.begin, self.past_blocks = b, begin, begin // b
        self.query_blocks = query_blocks(begin, length, b)
        shape = (tr.H, len(self.query_blocks), -(-(begin + length) // b))
        self.keep, self.near = np.zeros(shape, dtype=int), np.zeros(shape, dtype=bool)
        self.score, self.abstains = np.zeros(shape), np.zeros(shape[1], dtype=bool)


def block_means(keys, b):
    return np.array([keys[i:i + b].mean(axis=0) for i in range(0, len(keys), b)])


def flash_prefill(tr, layer, begin, length, v):
    b = v["block_size"]
    mask = Mask(tr, begin, length, b)
    for h in range(tr.H):
        means = block_means(tr.k[layer][h // tr.R, :begin + length], b)
        ends = np.arange(len(means)) * b + b - 1
        for i, own in enumerate(mask.query_blocks):
            rows = rows_of_block(begin, length, own, b)
            z = tr.scale * tr.q[layer][h, rows] @ means.T
            z[rows[:, None] < ends[None, :]] = -np.inf
            if np.isfinite(z).any():
                e = np.exp(z - z.max())
                mask.score[h, i] = e.sum(axis=0) / (e.sum() + 1e-9)
            cut = v["alpha"] * mask.score[h, i].max()
            for j in range(own + 1):
                by_rule = j < v["sink_blocks"] or own - j < v["window_blocks"]
                s = mask.score[h, i, j]
                mask.keep[h, i, j] = 2 if by_rule else int(s >= cut)
                mask.near[h, i, j] = not by_rule and 0 < abs(s - cut) <= TIE * cut
    if any(c[0] == begin + length and c[2] == 0 for c in tr.chunks):
        return mask
    for i, own in enumerate(mask.query_blocks):
        if i > 0 and own >= mask.keep.shape[2] - v["last_full_blocks"]:
            mask.abstains[i] = True
            mask.keep[:, i, :own + 1], mask.near[:, i] = 2, False
    return mask


def xattention(tr, layer, begin, length, v):
    b, s = v["block_size"], v["stride"]
    mask = Mask(tr, begin, length, b)
    padded = -(-(begin + length) // s) * s
    real = np.zeros(padded, dtype=bool)
    real[begin:begin + length] = True
    for h in range(tr.H):
        q, k = np.zeros((padded, tr.d)), np.zeros((padded, tr.d))
        q[begin:begin + length] = tr.q[layer][h, begin:begin + length]
        k[:begin + length] = tr.k[layer][h // tr.R, :begin + length]
        e = sum(q[s - 1 - u::s] @ k[u::s].T for u in range(s)) * tr.scale / s
        e[np.triu_indices(len(e), 1)] = -np.inf
        a = np.exp(e - e.max(axis=1, keepdims=True))
        a /= a.sum(axis=1, keepdims=True)
        a[~real.reshape(-1, s).any(axis=1)] = 0
        strides = np.arange(len(a)) * s // b
        for i, own in enumerate(mask.query_blocks):
            rows = a[strides == own].sum(axis=0)
            w = np.bincount(strides, weights=rows, minlength=mask.keep.shape[2])
            mask.score[h, i] = w
            mask.keep[h, i, [0, own]] = 2
            cover(mask, h, i, own, w, v["tau"])
    return mask


def cover(mask, h, i, own, w, tau):
    total = w.sum()
    held = w[0] + w[own] if own > 0 else w[0]
    order = rank(w[1:own], list(range(1, own)))
    for n, j in enumerate(order):
        if tau < 1 and abs(held - tau * total) <= TIE * total:
            mask.near[h, i, order[max(0, n - 1):n + 1]] = True  # one more or fewer
        if tau == 1 or held < tau * total:
            mask.keep[h, i, j] = 1
            last, held = j, held + w[j]
        elif n > 0 and mask.keep[h, i, order[n - 1]] and abs(w[j] - w[last]) <= TIE * w[last]:
            mask.near[h, i, [j, last]] = True


def count_within(values, limit):
    """#(running sum, falling <= limit), and whether one sum is within a hair of it."""
    sums = np.cumsum(np.sort(values.ravel())[::-1])
    return int((sums <= limit * (1 + 1e-9)).sum()), bool((np.abs(sums - limit) <= TIE * limit).any())


def flex_prefill(tr, layer, begin, length, v):
    b, total = v["block_size"], begin + length
    mask = Mask(tr, begin, length, b)
    blocks, count = mask.keep.shape[2], min(v.get("observed", b), length)
    observed = np.arange(length - count, length)
    p = tr.probabilities(layer, begin, length, rows=observed)
    for h in range(tr.H):
        vertical, slash = p[h].mean(axis=0), np.zeros(total)
        for r, row in enumerate(observed):
            position = begin + row
            slash[total - 1 - position:] += p[h, r, :position + 1] / count  # far end first
        pool = [np.add.reduceat(x, np.arange(0, total, b)) for x in (vertical, slash)]
        means = block_means(tr.k[layer][h // tr.R, :total], b)
        z = tr.scale * means @ tr.q[layer][h, begin + observed].mean(axis=0)
        abar = np.exp(z - z.max())
        abar /= abar.sum()
        mean = (abar + pool[0]) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = [np.where(x > 0, x * np.log(x / mean), 0).sum() for x in (abar, pool[0])]
        divergence = math.sqrt(max(0.0, sum(terms) / 2))
        aware, least = divergence < v["tau"], -(-v["min_budget"] // b)
        if abs(divergence - v["tau"]) <= TIE:
            mask.near[h] = True
        chosen = []
        for tokens, pooled, first in ((vertical, pool[0], 0), (slash, pool[1], blocks - 1)):
            n, hair = count_within(tokens, v["gamma"])
            sizes = {min(blocks, max(least, (n + 1 + d) // 128 + 1)) for d in (-1, 0, 1)}
            if not aware and hair and len(sizes) > 1:
                mask.near[h] = True
            size = max(1, min(blocks, least if aware else max(least, (n + 1) // 128 + 1)))
            order = rank(pooled, list(range(blocks)), {first})
            cut = pooled[order[size - 1]]
            close = [j for j in order if j != first and 0 < abs(pooled[j] - cut) <= TIE * cut]
            chosen.append((order[:size], set(close)))
        for i, own in enumerate(mask.query_blocks):
            for kind, (kept, close) in enumerate(chosen):
                for t in set(kept) | close:
                    j = t if kind == 0 else own - (blocks - 1 - t)
                    if not 0 <= j <= own:
                        continue
                    by_rule = t == (0 if kind == 0 else blocks - 1)
                    if t in kept:
                        mask.keep[h, i, j] = max(mask.keep[h, i, j], 2 if by_rule else 1)
                    mask.near[h, i, j] |= t in close
            for j in range(own + 1):
                mask.score[h, i, j] = pool[0][j] + pool[1][blocks - 1 - (own - j)]
        if aware:
            keep_pairs(tr, layer, begin, length, v, h, means, mask)
    return mask


def keep_pairs(tr, layer, begin, length, v, h, means, mask):
    pairs, where = [], []
    for i, own in enumerate(mask.query_blocks):
        rows = rows_of_block(begin, length, own, mask.b)
        z = tr.scale * means[:own + 1] @ tr.q[layer][h, rows].mean(axis=0)
        e = np.exp(z - z.max())
        pairs += list(e / e.sum())
        where += [(i, j) for j in range(own + 1)]
    n, hair = count_within(np.array(pairs), v["gamma"] * len(mask.query_blocks))
    order = rank(pairs, list(range(len(pairs))))
    for t in order[:n]:
        i, j = where[t]
        mask.keep[h, i, j] = max(mask.keep[h, i, j], 1)
    cut = pairs[order[n - 1]] if n > 0 else 0
    close = [t for t in order if 0 < abs(pairs[t] - cut) <= TIE * cut]
    for t in close + (order[max(0, n - 1):n + 1] if hair else order[n - 1:n] if close else []):
        mask.near[h][where[t]] = True


MASKS = {"flash_prefill": flash_prefill, "xattention": xattention, "flex_prefill": flex_prefill}
SELECT = {}  # methods that keep single keys


def heads_per_row(tr, method, v):
    if v.get("lowering") == "native":
        return 1
    if method != "compact_attention" or tr.R <= v["subgroup_size"]:
        return tr.R
    assert tr.R % v["subgroup_size"] == 0
    return v["subgroup_size"]


def num_rows(tr, method, v):
    return tr.H // heads_per_row(tr, method, v)


def select(method, tr, layer, begin, length, v, n):
    if method in SELECT:
        return SELECT[method](tr, layer, begin, length, v, n)
    mask = MASKS[v.get("selector", method)](tr, layer, begin, length, v)
    each = heads_per_row(tr, method, v)
    if v.get("lowering") == "native":
        return [by_union(mask, h, 1, n, abstain=False) for h in range(tr.H)]
    lowered = by_budget if v.get("lowering") == "budget" else by_union
    return [lowered(mask, h, each, n) for h in range(0, tr.H, each)]


def tokens(mask, kept, near, first, count, scores=None, forced_blocks=()):
    """The Choice of whole blocks and of the block that straddles the chunk's begin.

    It was made by the score of each past block, or (a union) by `mask` in `count` heads from `first` on.
    """
    b, edge = mask.b, mask.past_blocks * mask.b
    of = lambda blocks: [t for j in blocks for t in range(j * b, (j + 1) * b)]
    straddling = list(range(edge, mask.begin))
    forced = len(of([j for j in kept if kept[j] == 2])) + len(straddling)
    choice = Choice(of(kept) + straddling, of(near), forced)
    choice.mask, choice.heads = mask, range(first, first + count)
    if scores is not None:
        by_token = [*np.repeat(scores, b), *[np.nan] * len(straddling)]
        choice.order = Order(np.arange(mask.begin), by_token, of(forced_blocks) + straddling)
        by_block = Order(np.arange(mask.past_blocks), scores, forced_blocks)
        choice.units = b, by_block.all_ranks()
    return choice


def votes(mask, first, count, abstain=True):
    part = (slice(first, first + count), ~mask.abstains | (not abstain), slice(0, mask.past_blocks))
    return mask.keep[part], mask.near[part], mask.score[part]


def by_union(mask, first, count, n, abstain=True):
    keep, near, _ = votes(mask, first, count, abstain)
    kept = {j: int(keep[:, :, j].max()) for j in range(mask.past_blocks) if keep[:, :, j].any()}
    sure = ((keep > 0) & ~near).any(axis=(0, 1))
    return tokens(mask, kept, np.flatnonzero(near.any(axis=(0, 1)) & ~sure), first, count)


def by_budget(mask, first, count, n):
    keep, _, score = votes(mask, first, count)
    mean = score.mean(axis=(0, 1))
    forced = {j for j in range(mask.past_blocks) if (keep[:, :, j] == 2).any()}
    order = rank(mean, list(range(mask.past_blocks)), forced)
    size = min(n // mask.b, len(order))
    near = []
    if 0 < size < len(order):
        cut = mean[order[size - 1]]
        near = [j for j in order if 0 < abs(mean[j] - cut) <= TIE * cut]
        near += [order[size - 1]] if near else []
    return tokens(mask, {j: 2 if j in forced else 1 for j in order[:size]}, near, first, count, mean, forced)
