"""By what a cache is recognised as the one that was recorded: a number for each key, or value, of the past."""
import torch

from .softmax import exact_products

# Of a row's length: models that make their keys anew from a compressed cache round them otherwise each time.
LEAST_TOLERANCE = 1e-4


class PastRows:
    """Each row [D] of each head is projected on a fixed direction of signs. A row that changed by more than rounding has, but
    for a chance that no accident meets, another number."""

    def __init__(self):
        self._sums = None  # [heads, positions]
        self._lengths = None  # of the rows
        self._signs = None

    def look(self, rows, begin, first):
        """rows [heads, n, D] are those at positions first on, new from `begin` on. Returns what `accept` takes, and whether
        those before are the ones that were accepted, as a tensor of one truth value."""
        if self._signs is None:
            generator = torch.Generator().manual_seed(1)
            signs = torch.randint(0, 2, (rows.shape[-1],), generator=generator).mul_(2).sub_(1)
            self._signs = signs.to(rows.device, torch.float32)
        with exact_products(rows.device.type):
            sums = rows.float() @ self._signs
        new = rows[:, begin - first :].float()
        seen = (sums[:, begin - first :], new.norm(dim=-1))
        if self._sums is None or first >= begin:
            return seen, None
        tolerance = max(LEAST_TOLERANCE, 4 * torch.finfo(rows.dtype).eps)
        before, lengths = (kept[:, first:begin].to(sums.device) for kept in (self._sums, self._lengths))
        # What is not finite is no number to compare.
        away = (sums[:, : begin - first] - before).abs() > tolerance * lengths
        return seen, ~away.any()

    def accept(self, seen):
        if self._sums is None:
            self._sums, self._lengths = seen
            return
        self._sums = torch.cat([self._sums, seen[0].to(self._sums.device)], 1)
        self._lengths = torch.cat([self._lengths, seen[1].to(self._lengths.device)], 1)
