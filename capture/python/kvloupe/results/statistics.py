"""Intervals and paired tests of scores. Needs nothing but Python."""
import math

Z95 = 1.959963984540054


def wilson(successes, count):
    """The 95 % interval of a proportion (Wilson, 1927). Scores between 0 and 1 that are no counts, such as F1, are taken as their sum."""
    if count == 0:
        return math.nan, math.nan
    share, z2 = successes / count, Z95**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 / (1 + z2 / count) * math.sqrt(max(0.0, share * (1 - share)) / count + z2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def sign_test(better, worse):
    """Two-sided and exact: how likely so uneven a split is by chance. Of scores 0 and 1 this is McNemar's exact test. Of no split nothing is known."""
    count, fewer = better + worse, min(better, worse)
    if count == 0:
        return math.nan
    tail = term = 1
    for k in range(fewer):
        term = term * (count - k) // (k + 1)  # The next binomial coefficient, without computing each anew.
        tail += term
    return min(1.0, 2 * tail / 2**count)
