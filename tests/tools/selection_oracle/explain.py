"""Why a method kept or lost a key, as docs/explain.md defines it: every answer by running the selection again.

What rounding leaves open is None ("undecided"); a field that the definitions do not fix is ANY.
"""
import numpy as np

import blocks
import lanes
import logits
import pages
import run
from ranking import Order

ANY = object()
STAGES = ("evicted", "reused_set", "query_sampling", "head_merge", "unit", "approximation", "threshold", "budget")
# What is changed to use every row of a chunk of n queries, and the exact logits.
ALL_QUERIES = {
    "quoka": lambda n: {"num_queries": n, "query_ratio": 0}, "uniform_queries": lambda n: {"num_queries": n},
    "sample_attention": lambda n: {"num_queries": n}, "snapkv": lambda n: {"window": n},
    "minference": lambda n: {"observed": n}, "flex_prefill": lambda n: {"observed": n},
}
EXACT_LOGITS = {
    "quoka": lambda tr: {"metric": "dot"}, "uniform_queries": lambda tr: {"metric": "dot"},
    "sparq": lambda tr: {"num_channels": tr.d}, "loki": lambda tr: {"num_channels": tr.d},
}
ONE_SCORE_FOR_ALL_HEADS = {"oracle", "quoka", "uniform_queries", "sample_attention", "sparq", "loki", "tidal_decode",
                           "less_is_more", "snapkv"}


def either(states):
    """Whether one of them is true, where None is unknown."""
    states = list(states)
    return True if True in states else None if None in states else False


def opposite(state):
    return None if state is None else not state


def last_cut(choices, key):
    """The last eviction in which the key was at hand."""
    return next((c for c in reversed(choices) if c.at_hand and key in c.at_hand), None)


def with_margin(score, cut, rank):
    known = isinstance(score, tuple) and isinstance(cut, tuple)
    margin = (score[0] - cut[0], score[1] + cut[1]) if known else ANY if score is ANY or cut is ANY else None
    return {"score": score, "cut": cut, "rank": rank, "margin": margin}


def within(order, key, n):
    """Whether the key is among the first n."""
    first, last = order.ranks(key)
    return True if last <= n else False if first > n else None


class Explainer:
    def __init__(self, tr, method, values, masses=None):  # masses: a cache that several share
        self.tr, self.method, self.v = tr, method, values
        self.masses, self.cells, self.alives, self.heads = {} if masses is None else masses, {}, {}, {}
        self.evicts = run.evicts(method, values)
        self.rows = run.num_rows(method, tr, values)
        self.each = tr.H // self.rows
        self.is_block = blocks.is_block_method(method)
        self.is_union = self.is_block and values.get("lowering") != "budget"
        self.has_budget = method != "dense" and not self.is_union

    # ---- the selection, as it is and with something changed ----------------------------------------
    def cell(self, layer, chunk, **changed):
        """(reason, rows) of the method with some parameters changed."""
        at = (layer, chunk, *sorted(changed.items()))
        if at not in self.cells:
            v = {**self.v, **changed}
            alive = self.history(layer, **changed)[chunk] if self.evicts else None
            reason, _, rows = run.cell(self.tr, self.method, v, layer, chunk, alive)
            self.cells[at] = reason, rows
        return self.cells[at]

    def history(self, layer, **changed):
        at = (layer, *sorted(changed.items()))
        if at not in self.alives:
            self.alives[at] = run.alive_sets(self.tr, self.method, {**self.v, **changed}, layer)
        return self.alives[at]

    def forget(self, layer, chunk):
        """Drops what was worked out of other cells, which takes much memory in long texts."""
        self.cells = {at: x for at, x in self.cells.items() if at[:2] == (layer, chunk)}
        self.alives = {at: x for at, x in self.alives.items() if at[0] == layer}
        for one in self.heads.values():
            one.forget(layer, chunk)

    def alone(self, h):
        if h not in self.heads:
            self.heads[h] = Explainer(self.tr.alone(h), self.method, self.v)
        return self.heads[h]

    def keeps(self, layer, chunk, row, key, **changed):
        reason, rows = self.cell(layer, chunk, **changed)
        choice = rows[row]
        if reason is not None:
            return True
        return None if choice.doubt or key in choice.near else key in choice.positions

    # ---- the truth ------------------------------------------------------------------------------
    def candidates(self, chunk):
        begin, length, _ = self.tr.chunks[chunk]
        return np.arange(begin + length if self.v["budget_scope"] == "all" else begin)

    def truth(self, layer, chunk, row):
        """The candidates by M."""
        if (layer, chunk) not in self.masses:
            begin, length, _ = self.tr.chunks[chunk]
            self.masses[layer, chunk] = self.tr.probabilities(layer, begin, length).sum(axis=1)
        heads = self.masses[layer, chunk][row * self.each:(row + 1) * self.each]
        keys = self.candidates(chunk)
        return Order(keys, heads.sum(axis=0)[keys])

    # ---- what it decided by ---------------------------------------------------------------------
    def deciding(self, layer, chunk, row, key):
        """The choice that decided on the key; None where nothing was cut."""
        reason, rows = self.cell(layer, chunk)
        if reason is not None:
            return None
        if not self.evicts:
            # A mask's thresholds are told also where the union of masks holds all.
            return rows[row] if self.is_union or len(rows[row].positions) < len(self.candidates(chunk)) else None
        return last_cut([sets[row] for sets in self.history(layer)[1:chunk + 1]], key)

    def numbers(self, choice, key):
        """score, cut: (value, tolerance), None or ANY; rank: (first, last), None or ANY."""
        if choice is not None and choice.doubt:
            return ANY, ANY, ANY
        if choice is not None and self.is_union:
            return *self.best_vote(choice, key), None
        if choice is None or choice.order is None:
            return None, None, None
        order = choice.order
        i, by_score = order.at[key], np.isin(order.positions, choice.positions) & ~order.by_rule
        cut = np.flatnonzero(by_score)[np.argmin(order.scores[by_score])] if by_score.any() else None
        give = lambda at: (order.scores[at], 1e-4 * max(abs(order.scores[at]), order.spread) if order.low is None
                           else max(order.high[at] - order.scores[at], order.scores[at] - order.low[at]))
        return (give(i) if np.isfinite(order.scores[i]) else ANY), None if cut is None else give(cut), order.ranks(key)

    def best_vote(self, choice, key):
        """The score of the key's block furthest above its threshold, and that threshold."""
        mask, votes = choice.mask, []
        if key // mask.b >= mask.past_blocks:  # in the block that straddles the chunk's begin, which is no candidate
            return None, None
        method = self.v.get("selector", self.method)
        for h in choice.heads:
            for i in np.flatnonzero(~mask.abstains):
                by_score = mask.keep[h, i] == 1
                if self.v.get("lowering") == "native":
                    by_score[mask.query_blocks[i]] = False  # the diagonal block is always read
                if method == "flash_prefill":
                    threshold = self.v["alpha"] * mask.score[h, i].max()
                elif method == "seer_attention":
                    threshold = self.v["threshold"]
                elif by_score.any():
                    threshold = mask.score[h, i][by_score].min()
                else:
                    continue
                votes.append((mask.score[h, i, key // mask.b], threshold))
        if not votes:
            return ANY, ANY
        score, threshold = max(votes, key=lambda x: x[0] - x[1])
        return (score, 1e-4 * abs(score)), (threshold, 1e-4 * abs(threshold))

    # ---- needed budget --------------------------------------------------------------------------
    def needed_budget(self, layer, chunk, row, key):
        """The budgets that may be the smallest to keep the key; None without a budget."""
        if not self.has_budget:
            return None
        open_ones = []
        keeps = self.keeps_at(layer, chunk, row, key)
        for b in range(1, len(self.candidates(chunk)) + 1):
            state = b >= len(self.candidates(chunk)) or keeps(b)
            if state is not False:
                open_ones.append(b)
            if state:
                return open_ones + self.whole_units(layer, chunk, row, open_ones)

    def whole_units(self, layer, chunk, row, budgets):
        """The contract counts the tokens of the units needed, so one page needs a page, where any budget keeps one."""
        units = self.cell(layer, chunk, budget_tokens=1, budget_ratio=0.0)[1][row].units
        if self.method != "quest" or units is None or 1 not in budgets:
            return []
        return [units[0], 2 * units[0]] if self.v["rule"] == "kernel" else [units[0]]

    def keeps_at(self, layer, chunk, row, key):
        """The function of the budget, below the number of candidates, that says whether the key is kept."""
        if self.cell(layer, chunk)[0] == "method_rule":
            return lambda b: True
        small = {"budget_ratio": 0.0}
        if self.evicts:
            return lambda b: self.keeps(layer, chunk, row, key, budget_tokens=b, **small)
        choice = self.cell(layer, chunk, budget_tokens=1, **small)[1][row]
        if choice.doubt:
            return lambda b: None
        if self.method == "sliding_window":
            return lambda b: key >= len(self.candidates(chunk)) - b
        if self.method == "less_is_more":
            return self.taken_in_turn(layer, chunk, choice, key)
        if self.method == "sample_attention" and self.v["mode"] == "coverage":
            every = self.candidates(chunk)
            covered = logits.covering(choice.order.scores, every.tolist(), len(every), self.v["coverage"])
            held = None if key in covered.near else key in covered.positions
            return lambda b: held and within(choice.order, key, b)
        if choice.units is None:
            return lambda b: within(choice.order, key, b)
        size, (first, last) = choice.units
        unit = key // size
        if self.is_block and unit >= len(first):
            return lambda b: True  # the block that straddles the chunk's begin
        least = 0 if self.is_block else 2 if self.v["rule"] == "kernel" else 1
        held = lambda n: True if last[unit] <= n else False if first[unit] > n else None
        return lambda b: held(max(least, b // size))

    def taken_in_turn(self, layer, chunk, choice, key):
        scores, begin = choice.of_heads, choice.of_heads.shape[1]
        soonest = min(Order(np.arange(begin), row, relative_to_spread=True).ranks(key)[0] for row in scores)

        def keeps(b):
            _, sinks, recent = logits.shares(self.v, b)
            if not sinks <= key < begin - recent:
                return True
            if b < soonest:  # as many better keys are chosen before, or are sinks or recent
                return False
            at = (layer, chunk, "turns", b)
            if at not in self.cells:
                self.cells[at] = logits.order_of_turns(scores, begin, sinks, recent)
            return within(self.cells[at], key, b)
        return keeps

    # ---- stages ---------------------------------------------------------------------------------
    def stages(self, layer, chunk, row, key):
        """By name whether the lost key passes, and the names that the definitions leave open."""
        length, out, optional = self.tr.chunks[chunk][1], {}, set()
        choice = self.cell(layer, chunk)[1][row]
        source = logits.choosing_layer(self.v, layer) if "first_layer" in self.v else None
        if self.evicts:
            out["evicted"] = False
        if source is not None and source != layer:
            out["reused_set"] = opposite(within(self.truth(source, chunk, row), key, len(choice.positions)))
        if self.method in ALL_QUERIES and not self.evicts:
            out["query_sampling"] = opposite(
                self.keeps(layer, chunk, row, key, **ALL_QUERIES[self.method](length)))
        if self.merges_heads():
            heads = range(row * self.each, (row + 1) * self.each)
            out["head_merge"] = opposite(either(self.alone(h).keeps(layer, chunk, 0, key) for h in heads))
            if self.each == 1:
                optional.add("head_merge")
        if self.is_block or self.method == "quest":
            n = run.budget(self.v, self.tr.chunks[chunk][0]) if self.has_budget else len(choice.positions)
            out["unit"] = opposite(within(self.truth(layer, chunk, row), key, n))
            if self.method == "minference" and self.v["lowering"] == "union":
                optional.add("unit")
        if self.method in EXACT_LOGITS and self.v.get("metric") != "dot":
            out["approximation"] = opposite(
                self.keeps(layer, chunk, row, key, **EXACT_LOGITS[self.method](self.tr)))
        if self.is_union:
            out["threshold"] = False
        if self.has_budget:
            out["budget"] = False
        return out, optional

    def merges_heads(self):
        if self.method == "less_is_more":
            return True  # all heads of the model: whether a row of one head has the stage is left open
        if self.each == 1 or self.evicts:
            return False
        return (self.method in ONE_SCORE_FOR_ALL_HEADS or self.is_block and not self.is_union or
                self.method == "quest" and self.v["gqa_reduce"] in ("max_score", "mean_score"))


def lost_at(stages):
    """The stages that may be the first not passed."""
    out = []
    for name in STAGES:
        if name in stages and stages[name] is not True:
            out.append(name)
            if stages[name] is False:
                break
    return out


def answer(e, layer, chunk, row, key, budgets):
    truth = e.truth(layer, chunk, row)
    mass = truth.scores[truth.at[key]]
    out = {"kept": e.keeps(layer, chunk, row, key), "candidates": len(truth.positions),
           **with_margin(*e.numbers(e.deciding(layer, chunk, row, key), key)),
           "true_mass": (mass, 1e-4 * mass), "true_rank": truth.ranks(key),
           "needed_budget": e.needed_budget(layer, chunk, row, key) if budgets or not e.evicts else ANY,
           "stages": {}, "optional": set(), "lost_at": [None]}
    if out["kept"] is False:
        out["stages"], out["optional"] = e.stages(layer, chunk, row, key)
        out["lost_at"] = lost_at(out["stages"])
    return out
