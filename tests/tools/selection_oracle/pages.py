"""Quest: pages chosen by a bound on their keys' products with the query."""
import math

import numpy as np

from ranking import TIE, Choice, Order, rank


def bounds(q, k, size):
    """[pages] the largest that each channel could add, summed, for one query and the keys k."""
    products = q[None, :] * k
    return np.array([products[b:b + size].max(axis=0).sum() for b in range(0, len(k), size)])


def dense_rule(v, layer, phase):
    return layer < v["skip_layers"] or phase == 0 and v["prefill"] == "dense"


def num_rows(tr, v):
    return tr.H if v["gqa_reduce"] == "per_query_head" else tr.G


def best(scores, n, force_last):
    """Pages kept, and pages that a difference in rounding could exchange."""
    last = len(scores) - 1
    forced = {last} if force_last else set()
    order = rank(scores, list(range(len(scores))), forced)
    kept, near = set(order[:n]), set()
    if len(forced) < n < len(order):
        cut = scores[order[n - 1]]
        tolerance = TIE * max(abs(cut), np.std(scores))
        close = {p for p in order if p not in forced and abs(scores[p] - cut) <= tolerance}
        near = close if len({scores[p] for p in close}) > 1 else set()
    return kept, near


def quest(tr, layer, begin, length, v, n, candidates):
    size, decode = v["page_size"], (begin, length, 1) in tr.chunks
    kernel = v["rule"] == "kernel"
    force_last = kernel or v["force_last_page"] == 1
    count = max(2 if kernel else 1, math.floor(n / size))
    by_chunk = v["prefill"] == "chunk" and not decode
    # What is scored together: the queries of a step, and the keys that they choose from.
    steps = [(range(begin, begin + length), begin)] if by_chunk else \
        [([t], t + 1) for t in range(begin, begin + length)]
    rows = []
    for row in range(num_rows(tr, v)):
        heads = [row] if num_rows(tr, v) == tr.H else range(row * tr.R, (row + 1) * tr.R)
        kept, near, choices = set(), set(), []
        for queries, end in steps:
            U = [np.max([bounds(tr.q[layer][h, t], tr.k[layer][h // tr.R, :end], size)
                         for t in queries], axis=0) for h in heads]
            if v["gqa_reduce"] in ("max_score", "mean_score"):
                U = [np.max(U, axis=0) if v["gqa_reduce"] == "max_score" else np.mean(U, axis=0)]
            for scores in U:
                pages, close = best(scores, count, force_last)
                choices.append(scores)
                kept |= pages
                near |= close
        tokens = [t for t in candidates if t // size in kept]
        # Kept by rule: the last page of the past, or the one in which the first query stands.
        rule = begin - 1 if by_chunk else begin
        forced = sum(t // size == rule // size for t in tokens) if force_last else 0
        by_rule = [t for t in candidates if force_last and t // size == rule // size]
        united = v["gqa_reduce"] == "union" or v["prefill"] == "per_query" and not decode
        ranks = best_ranks(choices, force_last)
        own, first, last = -ranks[:, np.asarray(candidates) // size]
        order = Order(candidates, own, by_rule, low=last, high=first) if united else \
            Order(candidates, [choices[0][t // size] for t in candidates], by_rule, True)
        rows.append(Choice(tokens, [t for t in candidates if t // size in near], forced, order))
        rows[-1].units = size, ranks[1:]
    return rows


def best_ranks(choices, force_last):
    """The best rank, from 1, of each page in any choice: as it is, the least and the greatest that it may be."""
    out = np.full((3, max(len(scores) for scores in choices)), np.inf)
    for scores in choices:
        pages = list(range(len(scores)))
        forced = pages[-1:] if force_last else []
        order, standing = Order(pages, scores, forced, True), rank(scores, pages, set(forced))
        own = np.argsort(standing) + 1
        out[:, pages] = np.minimum(out[:, pages], [own, *order.all_ranks()])
    return out


SELECT = {"quest": quest}
SELECT_IN_DECODE = {"quest"}
