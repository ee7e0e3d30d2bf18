"""A method's way through the chunks of one layer. A family of methods enters by its tables here."""
import numpy as np

import attention_eviction
import blocks
import eviction
import logits
import pages
import queries
from ranking import Choice
from specs import budget, parse

SELECT = {**queries.SELECT, **logits.SELECT, **eviction.SELECT, **pages.SELECT}
SELECT_IN_DECODE = {*queries.SELECT_IN_DECODE, *logits.SELECT_IN_DECODE, *pages.SELECT_IN_DECODE}
EVICT = {**eviction.EVICT, **attention_eviction.EVICT}
EVICT_IN_DECODE = {*eviction.EVICT_IN_DECODE, *attention_eviction.EVICT_IN_DECODE}
OBSERVE = {**attention_eviction.OBSERVE}


def evicts(method, v):
    """Methods that can do both have a parameter `state`."""
    return v.get("state", "evict") == "evict" and method in EVICT


def rule_for_dense(method, tr, layer, phase, v):
    if method == "dense" or v.get("decode") == "dense" and phase == 1:
        return True
    if "first_layer" in v and logits.dense_layer(v, layer):
        return True
    if method == "quest" and pages.dense_rule(v, layer, phase):
        return True
    return phase == 1 and not evicts(method, v) and method not in SELECT_IN_DECODE


def num_rows(method, tr, v):
    if blocks.is_block_method(method):
        return blocks.num_rows(tr, method, v)
    return pages.num_rows(tr, v) if method == "quest" else tr.G


def cell(tr, method, v, layer, chunk, alive=None):
    """(dense_reason, dense_fallback, [Choice per row]) of one chunk; `alive` before it where the method evicts."""
    begin, length, phase = tr.chunks[chunk]
    candidates = list(range(begin + length if v["budget_scope"] == "all" else begin))
    n = budget(v, begin)
    reason = None
    if begin == 0:
        reason = "empty_past"
    elif method != "dense" and not blocks.is_block_method(method) and len(candidates) <= n:
        reason = "fits_budget"
    fallback = reason is not None
    waits = v.get("start") == "decode" and all(before == 0 for _, _, before in tr.chunks[:chunk])
    if reason is None and (waits or rule_for_dense(method, tr, layer, phase, v)):
        reason = "method_rule"
    if reason is not None:
        rows = [Choice(candidates) for _ in range(num_rows(method, tr, v))]
    elif evicts(method, v):
        rows = alive
    elif blocks.is_block_method(method):
        rows = blocks.select(method, tr, layer, begin, length, v, n)
    else:
        rows = SELECT[method](tr, layer, begin, length, v, n, candidates)
    return reason, fallback, rows


def alive_sets(tr, method, v, layer, last=None):
    """What is alive before each chunk up to `last` (that too), and after the last of all: [chunk][KV head]."""
    out, state = [[Choice([]) for _ in range(tr.G)]], {}
    for chunk in tr.chunks[:last]:
        out.append(after_chunk(method, tr, layer, chunk, v, out[-1], state))
    return out


def run(tr, spec, layer):
    """Per chunk: (dense_reason, dense_fallback, [Choice per row]); and the final alive sets."""
    method, v = parse(spec, tr)
    alive = alive_sets(tr, method, v, layer) if evicts(method, v) else [None] * (len(tr.chunks) + 1)
    return [cell(tr, method, v, layer, c, alive[c]) for c in range(len(tr.chunks))], alive[-1]


def rests(method, v, phase):
    """Nothing is tallied and nothing dies after such a chunk."""
    return v.get("start") == "decode" if phase == 0 else method not in EVICT_IN_DECODE


def after_chunk(method, tr, layer, chunk, v, alive, state):
    begin, length, phase = chunk
    n, out = budget(v, begin + length), []
    for g in range(tr.G):
        keys = np.array(sorted(set(alive[g].positions) | set(range(begin, begin + length))))
        if rests(method, v, phase):
            out.append(Choice(keys, alive[g].near))
        else:
            if method in OBSERVE:
                OBSERVE[method](tr, layer, begin, length, v, keys, g, state)
            if len(keys) <= n:
                out.append(Choice(keys))
            else:
                out.append(EVICT[method](tr, layer, begin, length, v, n, keys, g, state))
                out[-1].at_hand = set(keys.tolist())
        out[-1].doubt = alive[g].doubt or bool(alive[g].near)
    return out
