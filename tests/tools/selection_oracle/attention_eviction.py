"""Methods that evict by attention received: H2O, TOVA, InfiniPot; in fp64.

EVICT as in eviction.py. OBSERVE[method](tr, layer, begin, length, v, keys, g, state) is called after each
chunk in which the method may evict, before it does, whether or not there are more keys than the budget.
"""
import math

import numpy as np

from ranking import Choice, Order, choose, rank


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def received(tr, layer, h, rows, keys):
    """Attention of the text's queries `rows` to `keys`, those after the query left out: [rows, keys]."""
    out = np.zeros((len(rows), len(keys)))
    for i, t in enumerate(rows):
        seen = keys <= t
        out[i, seen] = softmax(tr.scale * (tr.k[layer][h // tr.R, keys[seen]] @ tr.q[layer][h, t]))
    return out


def observe_h2o(tr, layer, begin, length, v, keys, g, state):
    before, sums = state.get(g, {}), np.zeros(len(keys))
    for h in range(g * tr.R, (g + 1) * tr.R):
        sums += received(tr, layer, h, range(begin, begin + length), keys).sum(axis=0) / tr.R
    state[g] = {int(j): before.get(int(j), 0.0) + s for j, s in zip(keys, sums)}


def evict_h2o(tr, layer, begin, length, v, n, keys, g, state):
    total = begin + length
    score = [state[g][int(j)] / (total - j if v["normalise"] == "by_age" else 1) for j in keys]
    recent = math.floor(n * v["recent_ratio"] + 1e-9)
    forced = [int(j) for j in keys[len(keys) - recent:]]
    if recent == n:
        return Choice(forced, forced=n, order=Order(keys, score, forced))
    return choose(score, list(keys), n, forced)


def evict_tova(tr, layer, begin, length, v, n, keys, g, state):
    heads = range(g * tr.R, (g + 1) * tr.R) if v["per_kv_head"] else range(tr.H)
    last = begin + length - 1
    score = np.mean([received(tr, layer, h, [last], keys)[0] for h in heads], axis=0)
    return choose(score, list(keys), n, [last] if v["force_last"] else [])


def evict_infinipot(tr, layer, begin, length, v, n, keys, g, state):
    novel = rank(tr.novelty[keys], [int(j) for j in keys])[:math.floor(v["novelty_ratio"] * n + 1e-9)]
    chunk = [b for b, _, _ in tr.chunks].index(begin)
    score = np.zeros(len(keys))
    for h in range(g * tr.R, (g + 1) * tr.R):
        for q in tr.probe[layer][chunk, h]:
            score += softmax(tr.scale * (tr.k[layer][g, keys] @ q)) / tr.R
    if len(novel) == n:  # nothing is left to the probe
        return choose(tr.novelty[keys], list(keys), n)
    kept = choose(score, list(keys), n, novel)
    kept.forced = 0  # novelty is a score and no rule of place
    return kept


OBSERVE = {"h2o": observe_h2o}
EVICT = {"h2o": evict_h2o, "tova": evict_tova, "infinipot": evict_infinipot}
EVICT_IN_DECODE = {"h2o", "tova"}
NEEDS_PROBE = {"infinipot"}
