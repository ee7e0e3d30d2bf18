"""The contract's ranking rule, and which keys lie so near to the cut that they may swap."""
import numpy as np

TIE = 1e-5  # two keys closer than this at the cut may swap (contract, "Same sets")


def rank(scores, positions, forced=()):
    order = sorted(range(len(positions)),
                   key=lambda i: (positions[i] not in forced, -scores[i], positions[i]))
    return [positions[i] for i in order]


class Choice:
    """Kept positions with the margin at the cut, so that a near tie is not called a difference."""

    def __init__(self, positions, near=(), forced=0):
        self.positions = sorted(int(p) for p in positions)
        self.near = set(int(p) for p in near)
        self.forced = forced


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
    return Choice(kept, near, sum(p in set(forced) for p in kept))


def choose_each(scores, candidates, n, relative_to_spread=False):
    """The best n of the candidates in every row of scores [rows, at least len(candidates)]."""
    return [choose(row[:len(candidates)], candidates, n, relative_to_spread=relative_to_spread)
            for row in scores]
