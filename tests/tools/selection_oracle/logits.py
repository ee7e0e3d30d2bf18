"""Methods that score past keys by logits or attention: SampleAttention, SparQ, Loki, and across
layers TidalDecode and LessIsMore. One query at a time."""
import math

import numpy as np

from queries import even_rows
from ranking import TIE, Choice, Order, choose_each, rank


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def causal(z, position):
    """p of a query at `position` over all keys in z, those after it left out."""
    p = np.zeros(len(z))
    p[:position + 1] = softmax(z[:position + 1])
    return p


def mean_over_queries(tr, begin, length, rows, agg, logits):
    """Per KV head the mean over its heads and the rows of logits(h, t), or of their softmax."""
    out = np.zeros((tr.G, begin + length))
    for h in range(tr.H):
        for t in rows:
            z = logits(h, t)
            out[h // tr.R] += z if agg == "logit_mean" else causal(z, begin + t)
    return out / (tr.R * len(rows))


# ---- SampleAttention ---------------------------------------------------------------------------
def covering(scores, candidates, n, coverage):
    """The smallest prefix by falling score that reaches coverage * total, at most n."""
    by_pos = dict(zip(candidates, scores))
    order = rank(scores, candidates)
    total, held, kept, near = sum(by_pos[p] for p in order), 0.0, [], []
    for i, p in enumerate(order[:n]):
        kept.append(p)
        held += by_pos[p]
        if abs(held - coverage * total) <= TIE * total:
            near = order[i:i + 2]
        if coverage < 1 and held >= coverage * total * (1 - 1e-9):
            break
    cut = by_pos[kept[-1]]
    close = [p for p in order if abs(by_pos[p] - cut) <= TIE * abs(cut)]
    if any(by_pos[p] != cut for p in close):
        near = near + close
    return Choice(kept, near, order=Order(candidates, scores))


def select_sample(tr, layer, begin, length, v, n, candidates):
    q, k = tr.q[layer], tr.k[layer]
    rows = even_rows(v["num_queries"], length)
    scores = mean_over_queries(
        tr, begin, length, rows, "prob_mean",
        lambda h, t: tr.scale * k[h // tr.R, :begin + length] @ q[h, begin + t])
    if v["mode"] == "budget":
        return choose_each(scores, candidates, n)
    return [covering(row[:len(candidates)], candidates, n, v["coverage"]) for row in scores]


# ---- SparQ, Loki -------------------------------------------------------------------------------
def select_sparq(tr, layer, begin, length, v, n, candidates):
    q, k, r = tr.q[layer], tr.k[layer], v["num_channels"]
    channels, doubtful = [], []
    for g in range(tr.G):
        sums = [sum(abs(q[h, begin + t, c]) for h in range(g * tr.R, (g + 1) * tr.R)
                    for t in range(length)) for c in range(tr.d)]
        order = sorted(range(tr.d), key=lambda c: (-sums[c], c))
        channels.append(order[:r])
        doubtful.append(r < tr.d and sums[order[r - 1]] - sums[order[r]] <= TIE * sums[order[r]])

    def logits(h, t):
        x, c = q[h, begin + t], channels[h // tr.R]
        part, whole = sum(abs(x[i]) for i in c), sum(abs(x))
        if part == 0:
            return np.zeros(begin + length)
        tau = math.sqrt(tr.d * part / whole) / (tr.scale * math.sqrt(tr.d))
        return k[h // tr.R, :begin + length][:, c] @ x[c] / tau

    scores = mean_over_queries(tr, begin, length, range(length), v["agg"], logits)
    rows = choose_each(scores, candidates, n, v["agg"] == "logit_mean")
    for g in range(tr.G):
        if doubtful[g]:  # another channel in its place gives quite another set
            rows[g].near, rows[g].doubt = set(candidates), True
    return rows


def own_basis(tr, layer):
    """basis=self: centred PCA of all stored keys of each KV head, columns by falling variance."""
    out = []
    for g in range(tr.G):
        centred = tr.k[layer][g] - tr.k[layer][g].mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        out.append(vectors[:, np.argsort(-values)])
    return out


def select_loki(tr, layer, begin, length, v, n, candidates):
    if v["basis"] != "self":
        raise SystemExit("this oracle knows loki with basis=self only")
    q, k = tr.q[layer], tr.k[layer]
    lanes = [p[:, :v["num_channels"]] for p in own_basis(tr, layer)]
    reduced = [k[g, :begin + length] @ lanes[g] for g in range(tr.G)]
    scores = mean_over_queries(
        tr, begin, length, range(length), v["agg"],
        lambda h, t: tr.scale * reduced[h // tr.R] @ (q[h, begin + t] @ lanes[h // tr.R]))
    return choose_each(scores, candidates, n, v["agg"] == "logit_mean")


# ---- across layers -----------------------------------------------------------------------------
def choosing_layer(v, layer):
    """The layer that chose the set of `layer`; None below the first selection layer."""
    if layer < v["first_layer"]:
        return None
    correct = v["correction_layer"] > v["first_layer"] and layer >= v["correction_layer"]
    return v["correction_layer"] if correct else v["first_layer"]


def dense_layer(v, layer):
    chooser = choosing_layer(v, layer)
    return chooser is None or chooser == layer and v["sel_layers"] == "dense"


def mean_logits(tr, layer, h, begin, length):
    k = tr.k[layer][h // tr.R, :begin]
    return sum(tr.scale * k @ tr.q[layer][h, begin + t] for t in range(length)) / length


def select_tidal(tr, layer, begin, length, v, n, candidates):
    chooser = choosing_layer(v, layer)
    heads = [mean_logits(tr, chooser, h, begin, length) for h in range(tr.H)]
    scores = [np.mean(heads[g * tr.R:(g + 1) * tr.R], axis=0) for g in range(tr.G)]
    return choose_each(scores, candidates, n, True)


def shares(v, n):
    """How many of n keys are chosen, sinks, and the newest."""
    middle = math.floor(n * (1 - v["recent_ratio"]) + 1e-9)
    recent, sinks = n - middle, v["sink_tokens"]
    if recent < sinks:
        sinks = 0
    return middle, sinks, recent - sinks


def select_less(tr, layer, begin, length, v, n, candidates):
    chooser = choosing_layer(v, layer)
    middle, sinks, recent = shares(v, n)
    orders, scores = [], []
    for h in range(tr.H):
        scores.append(mean_logits(tr, chooser, h, begin, length))
        allowed = list(range(sinks, begin - recent))
        orders.append(rank(scores[h][allowed], allowed))
    union, depth = [], 0
    for depth in range(len(orders[0])):
        for h in range(tr.H):
            if len(union) < middle and orders[h][depth] not in union:
                union.append(orders[h][depth])
        if len(union) == middle:
            break
    # Where keys next to the last rank used are as good as equal, that rank may fall otherwise.
    last_ranks = [order[max(0, depth - 1):depth + 3] for order in orders]
    near = set()
    for h, keys in enumerate(last_ranks):
        size = np.std(scores[h])
        if any(scores[h][a] - scores[h][b] <= TIE * max(size, abs(scores[h][b]))
               for a, b in zip(keys, keys[1:])):
            near = {p for keys_of_head in last_ranks for p in keys_of_head}
    kept = list(range(sinks)) + union + list(range(begin - recent, begin))
    order = order_of_turns(scores, begin, sinks, recent)
    out = [Choice(kept, near, sinks + recent, order) for _ in range(tr.G)]
    for choice in out:
        choice.of_heads = np.array([row[:begin] for row in scores])
    return out


def order_of_turns(scores, begin, sinks, recent):
    """Minus the turn, from 0, in which a key is first named: the heads name one key each, rank by rank."""
    allowed = np.arange(sinks, begin - recent)
    turns = np.full((3, begin), np.inf)  # as it is, at the earliest, at the latest
    for h, row in enumerate(scores):
        by_score = Order(allowed, row[allowed], relative_to_spread=True)
        own = np.argsort(np.argsort(-row[allowed], kind="stable")) + 1
        turns[:, allowed] = np.minimum(turns[:, allowed], (np.array([own, *by_score.all_ranks()]) - 1) * len(scores) + h)
    turns[:, :sinks] = turns[:, begin - recent:] = np.nan
    forced = [*range(sinks), *range(begin - recent, begin)]
    return Order(np.arange(begin), -turns[0], forced, low=-turns[2], high=-turns[1])


SELECT = {"sample_attention": select_sample, "sparq": select_sparq, "loki": select_loki,
          "tidal_decode": select_tidal, "less_is_more": select_less}
SELECT_IN_DECODE = set(SELECT)
