"""Whether an attention does what the trace will say of it: its output on some rows, against softmax(q k) v."""
import torch

from .masks import expected as seen_keys
from .softmax import exact_products, probabilities


def largest_excess(call, output, form, batch_index, layout):
    """How far the output of some rows is from what q, k and v say, in units of what rounding explains; None where the output
    has another shape than rows, heads and channels."""
    num_heads, dim = call.query.shape[1], call.value.shape[-1]
    if output.numel() != output.shape[0] * layout.num_rows * num_heads * dim:
        return None
    first = layout.skipped_rows
    rows = torch.tensor(sorted({first, (first + layout.num_rows) // 2, layout.num_rows - 1}), device=call.query.device)
    given = output.reshape(output.shape[0], layout.num_rows, num_heads, dim)[batch_index, rows].transpose(0, 1)
    with exact_products(call.query.device.type):
        expected, room = _expected(call, form, batch_index, layout, rows)
        away = (_local(given).float() - expected).abs()
    finite = torch.isfinite(expected)
    return float((away / room)[finite].max()) if bool(finite.any()) else 0.0


def _expected(call, form, batch_index, layout, rows):
    """Output [heads, rows, channels] and what it may be off by."""
    q, k, v = call.query[batch_index, :, rows].float(), call.key[batch_index].float(), call.value[batch_index].float()
    group = q.shape[0] // k.shape[0]
    q = q.reshape(k.shape[0], group * len(rows), -1)
    seen = seen_keys(layout, rows, form.window)[0].repeat(group, 1)
    # The room of a cache, and what a window hides, may hold anything.
    k, v = (part.masked_fill(~seen.any(0)[:, None], 0.0) for part in (k, v))
    logits = (q @ k.transpose(1, 2)).mul_(form.scale)
    room = _room(call.query, q, k, v, logits.masked_fill(~seen, 0.0), form.scale)
    sinks = None
    if form.sinks is not None:
        sinks = form.sinks.detach().to(logits).view(-1, group, 1).expand(-1, -1, len(rows)).reshape(*logits.shape[:2], 1)
    p = probabilities(logits, form, seen, sinks)
    return (p @ v).view(-1, len(rows), v.shape[-1]), room.repeat_interleave(group, 0)


def _room(query, q, k, v, logits, scale):
    """[KV heads, 1, channels]. What rounds a logit changes its probability by as much. Queries and keys of few bits round the
    logits; sums in single precision are off by less, but by more the longer their terms are."""
    single = torch.finfo(torch.float32).eps
    longest = q.norm(dim=-1).amax() * k.norm(dim=-1).amax() * scale
    relative = _rounding(query) * (8 + 4 * logits.abs().amax()) + single * (32 + 2 * k.shape[1] ** 0.5 + 8 * longest)
    return relative * v.abs().amax(1, keepdim=True) + 1e-30


def _rounding(query):
    eps = torch.finfo(query.dtype).eps
    if query.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        return max(eps, 2.0**-7)
    return max(eps, torch.finfo(torch.float32).eps)


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
