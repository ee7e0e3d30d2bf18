"""The contract's ranking rule, and which keys lie so near to the cut that they may swap."""
from functools import cached_property

import numpy as np

TIE = 1e-5  # two keys closer than this at the cut may swap (contract, "Same sets")


def rank(scores, positions, forced=()):
    order = sorted(range(len(positions)),
                   key=lambda i: (positions[i] not in forced, -scores[i], positions[i]))
    return [positions[i] for i in order]


class Order:
    """What a choice was made by: each key's score (that of its unit) and which were kept by rule.

    Two scores less than the tolerance apart may stand in either order, equal ones stand by position. Where a score
    counts ranks it may lie anywhere from `low` to `high`.
    """

    def __init__(self, positions, scores, forced=(), relative_to_spread=False, low=None, high=None):
        self.positions, self.scores = np.asarray(positions), np.asarray(scores, dtype=float)
        self.by_rule = np.isin(self.positions, list(forced))
        sure = self.scores[np.isfinite(self.scores)]
        self.spread = np.std(sure) if relative_to_spread and len(sure) else 0.0
        self.low, self.high, self.bounds = low, high, None

    @cached_property
    def at(self):
        return {int(p): i for i, p in enumerate(self.positions)}

    def ranks(self, key):
        """The first and the last rank, from 1, that the key may have: (forced first, score, position)."""
        return tuple(int(r) for r in self.all_ranks()[:, self.at[int(key)]])

    def all_ranks(self):
        if self.bounds is None:
            self.bounds = np.ones((2, len(self.scores)), dtype=int)
            for kind in (False, True):
                self._rank_class(np.flatnonzero(self.by_rule == kind), 0 if kind else int(self.by_rule.sum()))
        return self.bounds

    def _rank_class(self, members, ahead):
        self.bounds[:, members] = [[ahead + 1], [ahead + len(members)]]  # stays so of those without a score
        of = members[~np.isnan(self.scores[members])]
        s = self.scores[of]
        bottom, top = (s, s) if self.low is None else (self.low[of], self.high[of])
        sizes = np.where(np.isfinite(s), np.maximum(np.abs(s), self.spread), 0)  # infinity is no near tie
        slack = TIE * sizes if self.low is None else 0
        firm = bottom == top
        above = len(of) - np.searchsorted(np.sort(bottom), top + slack, "right")
        level = len(of) - np.searchsorted(np.sort(top), bottom - slack, "left") - above
        falling = np.flatnonzero(firm)[np.lexsort((self.positions[of[firm]], -s[firm]))]
        start, end = (np.searchsorted(-s[falling], -s[falling], side) for side in ("left", "right"))
        above[falling] += np.arange(len(falling)) - start  # equal ones stand by position
        level[falling] -= end - start
        level[~firm] -= 1
        self.bounds[:, of] = ahead + 1 + above, ahead + 1 + above + level


class Choice:
    """Kept positions with the margin at the cut, so that a near tie is not called a difference.

    `order` is None where positions alone decided or nothing was cut; `doubt` says that an earlier near tie (in the
    channels, in an eviction before) leaves the whole choice open.
    """

    def __init__(self, positions, near=(), forced=0, order=None):
        self.positions = sorted(int(p) for p in positions)
        self.near = set(int(p) for p in near)
        self.forced, self.order = forced, order
        self.doubt = False
        self.units = None  # pages or blocks: (size, the first and the last rank of each)
        self.at_hand = None  # an eviction: what there was to choose from


def choose(scores, positions, n, forced=(), relative_to_spread=False):
    ranked = rank(scores, list(positions), set(forced))
    kept = ranked[:n]
    by_pos = dict(zip(positions, scores))
    near = ()
    if 0 < n < len(ranked):
        cut = by_pos[ranked[n - 1]]
        size = max(abs(cut), np.std(scores)) if relative_to_spread else abs(cut)
        # Exact ties (max pooling makes them) are decided by position, so they are no excuse.
        close = [p for p in positions if p not in forced and abs(by_pos[p] - cut) <= TIE * size]
        near = close if any(by_pos[p] != cut for p in close) else ()
    order = Order(positions, scores, forced, relative_to_spread)
    return Choice(kept, near, sum(p in set(forced) for p in kept), order)


def choose_each(scores, candidates, n, relative_to_spread=False):
    """The best n of the candidates in every row of scores [rows, at least len(candidates)]."""
    return [choose(row[:len(candidates)], candidates, n, relative_to_spread=relative_to_spread)
            for row in scores]
