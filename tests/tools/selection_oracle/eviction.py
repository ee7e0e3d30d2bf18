"""Methods that vote or evict: SnapKV, KeyDiff, StreamingLLM.

EVICT[method](tr, layer, begin, length, v, n, keys, g, state) gives what stays of `keys` (ascending,
alive before the chunk and the chunk's own) for KV head g; `state` is a dict that lives as long as the
layer's pass. The caller has seen to it that there are more keys than n.
"""
import numpy as np

from ranking import Choice, Order, choose, choose_each


def pool(x, kernel, kind):
    pad, n = kernel // 2, len(x)
    out = np.zeros(n)
    for i in range(n):
        window = [x[j] for j in range(i - pad, i + pad + 1) if 0 <= j < n]
        out[i] = max(window) if kind == "max" else sum(window) / kernel
    return out


def snapkv_votes(tr, layer, begin, length, v, keys_by_g, scored_by_g):
    """Per KV head the pooled votes of `scored` keys (a prefix of the attended keys)."""
    w = min(v["window"], length)
    rows = np.arange(length - w, length)
    out = []
    for g in range(tr.G):
        keys, scored = keys_by_g[g], scored_by_g[g]
        votes = []
        for h in range(g * tr.R, (g + 1) * tr.R):
            z = tr.scale * tr.q[layer][h, begin + rows] @ tr.k[layer][g, keys].T
            z[keys[None, :] > (begin + rows)[:, None]] = -np.inf
            e = np.exp(z - z.max(axis=1, keepdims=True))
            p = e / e.sum(axis=1, keepdims=True)
            votes.append(pool(p.sum(axis=0)[np.isin(keys, scored)], v["kernel"], v["pool"]))
        out.append(np.mean(votes, axis=0))
    return out


def keydiff_score(tr, layer, g, keys):
    k = tr.k[layer][g, keys]
    unit = k / np.maximum(np.linalg.norm(k, axis=1, keepdims=True), 1e-12)
    mu = unit.mean(axis=0)
    return -np.array([mu @ x / (max(np.linalg.norm(mu), 1e-8) * max(np.linalg.norm(x), 1e-8)) for x in k])


def evict_keydiff(tr, layer, begin, length, v, n, keys, g, state):
    return choose(keydiff_score(tr, layer, g, keys), list(keys), n, relative_to_spread=True)


def evict_streaming(tr, layer, begin, length, v, n, keys, g, state):
    if n <= v["sink_tokens"]:
        return Choice(keys[:n], forced=n)
    sinks = [p for p in keys if p < v["sink_tokens"]]
    recent = [p for p in keys if p >= v["sink_tokens"]][-(n - len(sinks)):]
    return Choice(sinks + recent, forced=len(sinks + recent))


def evict_snapkv(tr, layer, begin, length, v, n, keys, g, state):
    total, w = begin + length, min(v["window"], length)
    if n <= w:
        return Choice(keys[-n:], forced=n)
    window = list(range(total - w, total))
    rest = np.array([p for p in keys if p < total - w])
    lists = [keys if i == g else np.array([0]) for i in range(tr.G)]
    scored = [rest if i == g else np.array([0]) for i in range(tr.G)]
    votes = snapkv_votes(tr, layer, begin, length, v, lists, scored)[g]
    best = choose(votes, list(rest), n - w)
    order = Order([*rest, *window], [*votes, *[np.nan] * w], window)  # the window has no votes
    return Choice(best.positions + window, best.near, w, order)


def select_snapkv(tr, layer, begin, length, v, n, candidates):
    keys = [np.arange(begin + length)] * tr.G
    votes = snapkv_votes(tr, layer, begin, length, v, keys, [np.arange(begin)] * tr.G)
    return choose_each(votes, candidates, n)


def select_keydiff(tr, layer, begin, length, v, n, candidates):
    keys = np.arange(begin + length)
    return choose_each([keydiff_score(tr, layer, g, keys) for g in range(tr.G)], candidates, n, True)


SELECT = {"snapkv": select_snapkv, "keydiff": select_keydiff}
EVICT = {"snapkv": evict_snapkv, "keydiff": evict_keydiff, "streaming_llm": evict_streaming}
EVICT_IN_DECODE = {"streaming_llm"}
