"""Which keys an attention shows to which queries, read from what it was called with, against plain causality."""
import torch

# Cells of a mask that are compared at a time.
MOST_CELLS = 1 << 24


class Layout:
    """Where rows and keys of a call lie in the sequence. Positions here count the padding on the left, `pads` tokens; of the
    `num_rows` queries the last stands at `end` - 1. `num_keys` may be more than `end`, where a cache has room for keys to
    come, or less, where it drops those that no window sees."""

    def __init__(self, num_rows, num_keys, end, pads):
        self.num_rows, self.num_keys, self.end, self.pads = num_rows, num_keys, end, pads
        self.first_row = end - num_rows
        self.first_key = max(0, end - num_keys)
        self.skipped_rows = max(0, pads - self.first_row)  # of padding


def find_other(call, batch_index, layout, window):
    """(row, key, whether it is shown) where the call shows or hides other keys than causality and the window do, positions as
    in the layout; None where there is no such; an error's text where the mask adds to the logits."""
    if _plain_without_mask(call, layout, window):
        return None
    step = max(1, MOST_CELLS // layout.num_keys)
    for begin in range(layout.skipped_rows, layout.num_rows, step):
        rows = torch.arange(begin, min(begin + step, layout.num_rows), device=call.query.device)
        shown = _shown(call, batch_index, layout, rows, window)
        if shown is None:
            return None
        if isinstance(shown, str):
            return shown
        other = (shown != expected(layout, rows, window)).nonzero()
        if len(other):
            head, row, key = (int(index) for index in other[0])
            return layout.first_row + int(rows[row]), layout.first_key + key, bool(shown[head, row, key])
    return None


def expected(layout, rows, window):
    """[1, rows, keys]"""
    at = (rows + layout.first_row).unsqueeze(1)
    keys = torch.arange(layout.first_key, layout.first_key + layout.num_keys, device=rows.device).unsqueeze(0)
    seen = (keys <= at) & (keys >= layout.pads)
    if window:
        seen &= keys > at - window
    return seen.unsqueeze(0)


def is_causal(call):
    flag = call.arguments.get("is_causal")
    return getattr(call.module, "is_causal", True) if flag is None else flag


def _plain_without_mask(call, layout, window):
    """Whole prefills need no mask: SDPA and flash attention are causal by themselves."""
    return (call.mask is None and call.implementation != "eager" and is_causal(call) and layout.num_rows == layout.num_keys
            and layout.num_rows > 1 and layout.pads == 0 and (not window or layout.num_keys <= window))


def _shown(call, batch_index, layout, rows, window):
    """[heads or 1, rows, keys], None where nothing says it, a text where the mask is no mask."""
    mask = call.mask
    if mask is not None and hasattr(mask, "mask_mod"):
        return _of_flex(mask.mask_mod, batch_index, rows, layout)
    if isinstance(mask, torch.Tensor) and mask.dim() == 4:
        return _of_tensor(mask[min(batch_index, mask.shape[0] - 1)], rows, layout)
    if "flash" in call.implementation:
        return _of_flash(mask, batch_index, layout, rows, window)
    if mask is not None:
        return "is of a kind that is not known"
    return _of_none(call, layout, rows)


def _of_tensor(mask, rows, layout):
    if mask.shape[-1] < layout.num_keys:
        return f"is for {mask.shape[-1]} keys, and attention is given {layout.num_keys}"
    mask = mask.expand(-1, layout.num_rows, -1)[:, rows.to(mask.device), : layout.num_keys]
    if mask.dtype == torch.bool:
        return mask
    shown = mask == 0
    if not bool((shown | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
        return "adds numbers to the logits"
    return shown


def _of_flex(mask_mod, batch_index, rows, layout):
    from torch.nn.attention.flex_attention import create_mask

    def of_rows(batch, head, row, key):
        return mask_mod(batch + batch_index, head, row + rows[0], key)

    return create_mask(of_rows, 1, 1, len(rows), layout.num_keys, device=rows.device)[0]


def _of_flash(mask, batch_index, layout, rows, window):
    """Causal with the last row at the last key, in the window that the call names; a mask is of keys."""
    shown = expected(Layout(layout.num_rows, layout.num_keys, layout.num_keys, 0), rows, window)
    if mask is None:
        return shown
    if mask.dim() != 2 or mask.shape[-1] < layout.num_keys:
        return "is of a kind that is not known"
    return shown & mask[batch_index, -layout.num_keys :].bool()


def _of_none(call, layout, rows):
    if call.implementation not in ("eager", "sdpa", "flex_attention"):
        return None
    keys = torch.arange(layout.num_keys, device=rows.device)
    if call.implementation == "sdpa" and is_causal(call) and layout.num_rows > 1:
        return (keys <= rows.unsqueeze(1)).unsqueeze(0)  # The first row at the first key.
    return torch.ones(1, len(rows), layout.num_keys, dtype=torch.bool, device=rows.device)


def pads_of(mask, batch_index, num_rows):
    """Tokens of padding on the left that a model's mask speaks of when the sequence begins; None where it speaks of padding
    elsewhere."""
    if isinstance(mask, dict):
        mask = next((kind for kind in mask.values() if isinstance(kind, torch.Tensor)), None)
    if not isinstance(mask, torch.Tensor):
        return 0
    row = mask[min(batch_index, mask.shape[0] - 1)]
    if mask.dim() == 2:
        kept = row[:num_rows].bool()
        pads = int((~kept).cumprod(0).sum())
        return pads if bool(kept[pads:].all()) and pads < num_rows else None
    if mask.dim() != 4 or row.shape[-2] != num_rows:
        return 0
    # The first token that sees itself alone begins the sequence; whatever else is odd shows when the mask is compared.
    shown = row[0] if row.dtype == torch.bool else row[0] == 0
    alone = (shown.sum(-1) == 1) & shown.diagonal()[:num_rows]
    return int(alone.float().argmax()) if bool(alone.any()) else 0
