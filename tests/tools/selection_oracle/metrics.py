"""What `select` and `compare` report of a cell."""
import numpy as np

from blocks import rows_of_block
from ranking import rank


def pairs_of_masks(row, begin, length):
    """Which keys each query of a native row's head reads: the blocks of its own mask, its own block always, causally."""
    mask, head = row.mask, row.heads[0]
    pairs = np.zeros((length, begin + length), dtype=bool)
    for i, own in enumerate(mask.query_blocks):
        queries = rows_of_block(begin, length, own, mask.b) - begin
        for j in range(own + 1):
            if mask.keep[head, i, j] or j == own:
                pairs[queries, j * mask.b:(j + 1) * mask.b] = True
    return pairs & (np.arange(begin + length) <= begin + np.arange(length)[:, None])


def metrics(tr, v, layer, chunk, cell):
    begin, length, _ = tr.chunks[chunk]
    reason, _, rows = cell
    scope_all = v["budget_scope"] == "all"
    native = v.get("lowering") == "native"
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
        kept = (p[g, :, :begin] * pairs_of_masks(rows[g], begin, length)[:, :begin]).sum() if native else mass[g][s].sum()
        recall = kept / whole if whole > 0 else 1.0
        best = set(rank(mass[g][candidates], list(candidates))[:len(s)])
        out.append((recall, len(best & set(s.tolist())) / len(s) if len(s) else 1.0))
    errors = []
    for h in range(tr.H):
        s = np.array(rows[h // heads_each].positions, dtype=int)
        visible = np.zeros((length, begin + length), dtype=bool)
        if native and reason is None:
            visible = pairs_of_masks(rows[h], begin, length)
        for t in range(length if not native or reason is not None else 0):
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
