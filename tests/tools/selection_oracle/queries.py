"""QuoKA and what it is compared with: the mass oracle, even queries, a sliding window."""
import numpy as np

from ranking import Choice, choose_each

SAME_ROW = 2e-6  # cosines of queries with their mean so close that fp32 may rank them otherwise

def score_oracle(tr, layer, begin, length, v):
    p = tr.probabilities(layer, begin, length).reshape(tr.G, tr.R, length, -1)
    return p.max(axis=(1, 2)) if v["reduce"] == "max" else p.sum(axis=(1, 2))


def top_rows(values, n):
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:n]


def score_quoka(tr, layer, begin, length, v):
    q = tr.q[layer][:, begin:begin + length]
    k = tr.k[layer][:, :begin + length]
    asked = max(1, int(v["query_ratio"] * length + 1e-9)) if v["query_ratio"] else v["num_queries"]
    n, eps = min(asked, length), 1e-6
    s_q = np.zeros((tr.H, length))
    for h in range(tr.H):
        mean = q[h].mean(axis=0)
        for i in range(length):
            na, nb = max(np.linalg.norm(mean), eps), max(np.linalg.norm(q[h, i]), eps)
            s_q[h, i] = -(mean @ q[h, i]) / (na * nb)
    reduce = np.max if v["query_reduce"] == "max" else np.mean
    out, doubt = np.zeros((tr.G, begin + length)), [False] * tr.G
    for g in range(tr.G):
        heads = range(g * tr.R, (g + 1) * tr.R)
        group_mean = s_q[g * tr.R:(g + 1) * tr.R].mean(axis=0)
        picked = {}
        for h in heads:
            if asked >= length:
                picked[h] = list(range(length))
            else:
                by = group_mean if v["group_query_mode"] == "shared_tokens" else s_q[h]
                picked[h] = top_rows(by, n)
                falling = np.sort(by)[::-1][:n + 1]
                doubt[g] |= bool((falling[:-1] - falling[1:] <= SAME_ROW).any())
        # The dot metric scores raw queries against raw keys; the choice of rows stays the cosine's.
        unit = {h: np.array([q[h, i] / (max(np.linalg.norm(q[h, i]), eps)
                                        if v["metric"] == "cosine" else 1.0) for i in picked[h]])
                for h in heads}
        keys = k[g] / np.maximum(np.linalg.norm(k[g], axis=1, keepdims=True), eps) \
            if v["metric"] == "cosine" else k[g]
        if v["group_query_mode"] == "post_agg":
            out[g] = np.mean([reduce(unit[h] @ keys.T, axis=0) for h in heads], axis=0)
        else:
            out[g] = reduce(np.mean([unit[h] for h in heads], axis=0) @ keys.T, axis=0)
    return out, doubt


def even_rows(n, length):
    return list(range(length)) if n >= length else [((2 * i + 1) * length) // (2 * n) for i in range(n)]


def score_uniform(tr, layer, begin, length, v):
    rows = even_rows(v["num_queries"], length)
    cosine = v.get("metric", "cosine") == "cosine"  # the method has no other; an explanation asks for the dot products
    size = lambda x: np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6) if cosine else 1.0
    out = np.zeros((tr.G, begin + length))
    for g in range(tr.G):
        mean = np.zeros((len(rows), tr.d))
        for h in range(g * tr.R, (g + 1) * tr.R):
            q = tr.q[layer][h, begin + np.array(rows)]
            mean += q / size(q) / tr.R
        k = tr.k[layer][g, :begin + length]
        out[g] = (mean @ (k / size(k)).T).max(axis=0)
    return out


def select_oracle(tr, layer, begin, length, v, n, candidates):
    return choose_each(score_oracle(tr, layer, begin, length, v), candidates, n)


def select_quoka(tr, layer, begin, length, v, n, candidates):
    scores, doubt = score_quoka(tr, layer, begin, length, v)
    rows = choose_each(scores, candidates, n, True)
    for row, unsure in zip(rows, doubt):
        row.doubt = unsure
    return rows


def select_uniform(tr, layer, begin, length, v, n, candidates):
    return choose_each(score_uniform(tr, layer, begin, length, v), candidates, n, True)


def select_window(tr, layer, begin, length, v, n, candidates):
    return [Choice(candidates[-n:], forced=n) for _ in range(tr.G)]


SELECT = {"oracle": select_oracle, "quoka": select_quoka, "uniform_queries": select_uniform,
          "sliding_window": select_window}
SELECT_IN_DECODE = {"oracle", "quoka", "uniform_queries"}
