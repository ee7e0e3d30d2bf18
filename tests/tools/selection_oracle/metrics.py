"""What `select` and `compare` report of a cell."""
import numpy as np

from ranking import rank


def metrics(tr, v, layer, chunk, cell):
    begin, length, _ = tr.chunks[chunk]
    reason, _, rows = cell
    scope_all = v["budget_scope"] == "all"
    p = tr.probabilities(layer, begin, length)
    heads_each = tr.H // len(rows)  # query heads that a row speaks for
    mass = p.reshape(len(rows), heads_each, length, -1).sum(axis=(1, 2))
    out = []
    for g in range(len(rows)):
        candidates = np.arange(begin + length if scope_all else begin)
        s = np.array(rows[g].positions, dtype=int)
        if reason is not None:
            out.append((1.0, 1.0))
            continue
        whole = mass[g][candidates].sum()
        recall = mass[g][s].sum() / whole if whole > 0 else 1.0
        best = set(rank(mass[g][candidates], list(candidates))[:len(s)])
        out.append((recall, len(best & set(s.tolist())) / len(s) if len(s) else 1.0))
    errors = []
    for h in range(tr.H):
        s = np.array(rows[h // heads_each].positions, dtype=int)
        visible = np.zeros((length, begin + length), dtype=bool)
        for t in range(length):
            if scope_all:
                visible[t, s[s <= begin + t]] = True
                visible[t, begin + t] = True
            else:
                visible[t, s] = True
                visible[t, begin:begin + t + 1] = True
        kept = np.where(visible, p[h], 0)
        kept /= kept.sum(axis=1, keepdims=True)
        values = tr.v[layer][h // tr.R, :begin + length]
        full = p[h] @ values
        errors.append(np.linalg.norm(full - kept @ values) / np.linalg.norm(full))
    return out, errors
