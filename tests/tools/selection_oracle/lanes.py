"""Methods that prune lanes of the dot product: AQUA, static slicing, AQUA-H2O, AQUA-Memory; basis=self.

The basis is the right singular vectors of the stacked queries and keys themselves, and pruned scores are
sums over the lanes that are kept: neither moments nor rotated-back queries, which the program uses.
"""
import math

import numpy as np

from attention_eviction import softmax
from ranking import Choice, choose

DEFAULTS = {
    "aqua": {"dim_ratio": 0.75},
    "static_slicing": {"dim_ratio": 0.75},
    "aqua_h2o": {"dim_ratio": 0.75, "token_ratio": 0.5, "recent_ratio": 0.5},
    "aqua_memory": {"dim_ratio": 0.75, "slice_ratio": 0.1, "slice_values": 0},
}

SPECS = [
    "aqua:basis=self", "aqua:dim_ratio=0.5,basis=self", "aqua:dim_ratio=0.3,basis=self",
    "aqua:dim_ratio=1,basis=self", "aqua:dim_ratio=0.01,basis=self",
    "static_slicing:basis=self", "static_slicing:dim_ratio=0.3,basis=self",
    "aqua_memory:basis=self", "aqua_memory:dim_ratio=0.6,slice_ratio=0.25,basis=self",
    "aqua_memory:basis=self,slice_values=1", "aqua_memory:dim_ratio=0.6,slice_ratio=0.4,basis=self,slice_values=1",
    "aqua_h2o:basis=self", "aqua_h2o:dim_ratio=0.4,basis=self,token_ratio=0.3,recent_ratio=0.25",
    "aqua_h2o:basis=self,token_ratio=1",
]


def is_lane_method(spec):
    return spec.partition(":")[0] in DEFAULTS


def parse(spec):
    method, _, rest = spec.partition(":")
    v = dict(DEFAULTS[method])
    for name, value in (item.split("=") for item in rest.split(",") if item):
        if name == "basis":
            assert value == "self", "the oracle knows no calibrated basis"
        else:
            v[name] = float(value)
    return method, v


def basis(tr, layer, g):
    """[d, d], columns by falling singular value, of the group's queries and the keys, about zero."""
    rows = [tr.q[layer][h] for h in range(g * tr.R, (g + 1) * tr.R)] + [tr.k[layer][g]]
    return np.linalg.svd(np.concatenate(rows), full_matrices=True)[2].T


def sliced_values(tr, layer, g, v):
    """V with what lies in its weakest right singular vectors taken away: as many as keys lose lanes."""
    values = tr.v[layer][g]
    if not v.get("slice_values"):
        return values
    weakest = np.linalg.svd(values, full_matrices=True)[2][tr.d - rounded_down(v["slice_ratio"], tr.d):]
    return values - sum(np.outer(values @ w, w) for w in weakest)


def rounded_down(ratio, n):
    return math.floor(ratio * n + 1e-9)


def lanes_of(method, v, d, row):
    """The lanes of one rotated query, and whether the choice hangs on a hair."""
    usable = d - rounded_down(v["slice_ratio"], d) if method == "aqua_memory" else d
    k = max(1, rounded_down(v["dim_ratio"], usable))
    if method == "static_slicing":
        return list(range(k)), False
    order = sorted(range(usable), key=lambda c: (-abs(row[c]), c))
    margin = abs(row[order[k - 1]]) - abs(row[order[k]]) if k < usable else 1.0
    return order[:k], margin <= 1e-5 * np.abs(row).max()


def pruned_cell(tr, method, v, layer, begin, length, bases):
    """Per head: counts [d], rows whose lanes hang on a hair, pruned scores S~ [length, T], S [length, T]."""
    out = []
    for h in range(tr.H):
        p = bases[h // tr.R]
        keys = tr.k[layer][h // tr.R, :begin + length] @ p
        counts, close = np.zeros(tr.d, dtype=int), 0
        pruned = np.zeros((length, begin + length))
        for t in range(length):
            row = tr.q[layer][h, begin + t] @ p
            chosen, hair = lanes_of(method, v, tr.d, row)
            counts[chosen] += 1
            close += hair
            pruned[t] = keys[:, chosen] @ row[chosen]
        plain = tr.q[layer][h, begin:begin + length] @ tr.k[layer][h // tr.R, :begin + length].T
        out.append((counts, close, pruned, plain))
    return out


def errors(tr, layer, h, begin, length, pruned, plain, past, stored):
    """score_error over all visible keys; output_error over the keys left and the chunk, of values as they are stored."""
    difference = total = 0.0
    o, o_hat = [], []
    values = tr.v[layer][h // tr.R]
    for t in range(length):
        seen = np.arange(begin + t + 1)
        difference += ((plain[t, seen] - pruned[t, seen]) ** 2).sum()
        total += (plain[t, seen] ** 2).sum()
        o.append(softmax(tr.scale * plain[t, seen]) @ values[seen])
        kept = np.array(sorted(past) + list(range(begin, begin + t + 1)), dtype=int)
        o_hat.append(softmax(tr.scale * pruned[t, kept]) @ stored[kept])
    o, o_hat = np.array(o), np.array(o_hat)
    return (difference / total) ** 0.5, np.linalg.norm(o - o_hat) / np.linalg.norm(o)


def evict(tr, v, begin, length, cell, alive, sums):
    """AQUA-H2O after one chunk, per KV head: what stays."""
    out, n = [], max(1, rounded_down(v["token_ratio"], begin + length))
    for g in range(tr.G):
        keys = np.array(sorted(set(alive[g].positions) | set(range(begin, begin + length))))
        for h in range(g * tr.R, (g + 1) * tr.R):
            for t in range(length):
                seen = keys[keys <= begin + t]
                for j, p in zip(seen, softmax(tr.scale * cell[h][2][t, seen])):
                    sums[g][int(j)] = sums[g].get(int(j), 0.0) + p
        recent = rounded_down(v["recent_ratio"], n)
        forced = [int(j) for j in keys[len(keys) - recent:]]
        if len(keys) <= n:
            out.append(Choice(keys))
        else:
            out.append(choose([sums[g][int(j)] / tr.R for j in keys], list(keys), n, forced))
            out[-1].at_hand = set(keys.tolist())
        out[-1].doubt = alive[g].doubt or bool(alive[g].near)
    return out


def run(tr, spec, layer):
    """Per chunk {reason, heads: [{counts, close, score_error, output_error}], alive}; the final alive sets."""
    cells, sets = passes(tr, spec, layer)
    return cells, [a.positions for a in sets[-1]] if spec.startswith("aqua_h2o") else None


def passes(tr, spec, layer):
    """The cells of `run`, and what is alive before each chunk and after the last: [chunk][KV head]."""
    method, v = parse(spec)
    evicts = method == "aqua_h2o"
    bases = [basis(tr, layer, g) for g in range(tr.G)]
    stored = [sliced_values(tr, layer, g, v) for g in range(tr.G)]
    alive, sums, cells = [Choice([]) for _ in range(tr.G)], [{} for _ in range(tr.G)], []
    sets = [alive]
    for begin, length, _ in tr.chunks:
        reason = "empty_past" if begin == 0 else None
        cell, heads = pruned_cell(tr, method, v, layer, begin, length, bases), []
        for h, (counts, close, pruned, plain) in enumerate(cell):
            past = alive[h // tr.R].positions if evicts else range(begin)
            score, output = errors(tr, layer, h, begin, length, pruned, plain, past,
                                   stored[h // tr.R])
            heads.append({"counts": counts.tolist(), "close": close, "score_error": score,
                          "output_error": output})
        cells.append({"reason": reason, "heads": heads, "alive": [a.positions for a in alive],
                      "near": [sorted(a.near) for a in alive]})
        if evicts:
            alive = evict(tr, v, begin, length, cell, alive, sums)
        sets.append(alive)
    return cells, sets


def differences(spec, layer, want, alive, have):
    """What the program's answer has wrong, one line each."""
    out = []
    for c, (w, h) in enumerate(zip(want, have["chunks"])):
        where = f"{spec} layer {layer} chunk {c}"
        if (w["reason"], w["reason"] == "empty_past") != (h["dense_reason"], h["dense_fallback"]):
            out.append(f"{where} reason {w['reason']} got {h['dense_reason']} {h['dense_fallback']}")
        for i, (x, y) in enumerate(zip(w["heads"], h["lanes"], strict=True)):
            if np.abs(np.array(x["counts"]) - y["counts"]).sum() > 2 * x["close"]:
                out.append(f"{where} head {i} counts {x['counts']} got {y['counts']}")
            for name in "score_error", "output_error":
                if abs(x[name] - y[name]) > 1e-4 * (1 + x["close"]):
                    out.append(f"{where} head {i} {name} {x[name]} got {y[name]}")
    for g, positions in enumerate(alive or []):
        odd = set(positions) ^ set(have["final_alive"][g]["positions"])
        if odd - set(want[-1]["near"][g]):
            out.append(f"{spec} layer {layer} final_alive {g} differs: {sorted(odd)[:12]}")
    return out
