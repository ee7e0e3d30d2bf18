"""What cannot be recorded, each with its sentence, and what a call of an attention says of its layer."""
import torch

from .errors import KvloupeError
from .layout import DTYPES, STORES
from .model_info import window_of
from .softmax_form import SoftmaxForm

# Rows of a mask that are compared with the softmax that is recorded.
MASK_ROWS = 64


def check_options(chunk_size, dtype, store, batch_index):
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise KvloupeError(f"chunk_size={chunk_size!r} cannot be used", "a chunk has at least one token", "give a number from 1 on")
    if dtype not in DTYPES:
        raise KvloupeError(f"dtype={dtype!r} cannot be used", "q, k and v are stored as float16 or float32", "give one of them")
    if store is not None and (isinstance(store, str) or not set(store) <= set(STORES) or not store):
        raise KvloupeError(f"store={store!r} cannot be used", "qkv, lse, mass, probe and loss can be stored",
                           'give some of them, as in store=("qkv", "lse")')
    if not isinstance(batch_index, int) or batch_index < 0:
        raise KvloupeError(f"batch_index={batch_index!r} cannot be used", "it counts the rows of a batch from 0", "give 0")


def checked_spans(spans):
    checked = []
    for name, (begin, end) in (spans or {}).items():
        if not 0 <= begin <= end:
            raise KvloupeError(f"the span {name} cannot be used", f"[{begin}, {end}) is no range of tokens",
                               "give spans={name: (begin, end)}")
        checked.append((str(name), int(begin), int(end)))
    return tuple(checked)


def check_spans_inside(spans, num_tokens):
    for name, begin, end in spans:
        if end > num_tokens:
            raise KvloupeError(f"the span {name} does not fit", f"it ends at {end} and {num_tokens} tokens were recorded",
                               "record again with spans inside the tokens")


def stopped(why, what_to_do):
    return KvloupeError("the recording was stopped", why, what_to_do)


# --- a forward -----------------------------------------------------------------------------------------------------------

def ids_of_forward(model, arguments, options, batch_index):
    ids = options.get("input_ids", arguments[0] if arguments else None)
    if ids is None or ids.dim() != 2 or ids.shape[1] == 0:
        raise stopped("the model was called without input_ids [batch, tokens]", "pass token ids, not inputs_embeds")
    if batch_index >= ids.shape[0]:
        raise stopped(f"batch_index is {batch_index} and the batch has {ids.shape[0]} rows", "give the row to record")
    mask = options.get("attention_mask", arguments[1] if len(arguments) > 1 else None)
    if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not bool(mask[batch_index].all()):
        left = not bool(mask[batch_index, 0])
        raise stopped(f"the sequence has {'left ' if left else ''}padding, whose tokens would stand in the trace",
                      "record one sequence at a time, without padding")
    return ids[batch_index].tolist()


def past_of_forward(options):
    """Tokens that the model's cache has; 0 without one."""
    cache = options.get("past_key_values")
    return int(cache.get_seq_length()) if cache is not None else 0


def check_continues(past, recorded):
    if past == recorded:
        return
    if past == 0:
        raise stopped("a second sequence began, and a trace holds one", "record each sequence to a file of its own")
    if past < recorded:
        raise stopped(f"the cache was cropped from {recorded} tokens to {past}",
                      "record without what takes tokens back, such as assisted generation")
    raise stopped(f"the cache has {past} tokens of which {recorded} were recorded",
                  "begin the recording before the first token is fed")


# --- a call of an attention ------------------------------------------------------------------------------------------------

def scale_of(call):
    scale = call.arguments.get("scaling")
    return float(scale) if scale is not None else call.query.shape[-1] ** -0.5


def softmax_of(call, scale):
    sinks = call.arguments.get("s_aux")
    if hasattr(sinks, "to_local"):
        sinks = sinks.to_local()
    # transformers' SDPA knows no softcap: where it did not refuse, it went without.
    softcap = 0.0 if call.implementation == "sdpa" else call.arguments.get("softcap") or 0.0
    return SoftmaxForm(scale, window_of(call.module, call.arguments), float(softcap), sinks)


def check_same_softmax(layer, form, now, call):
    if scale_of(call) != form.scale:
        raise stopped(f"layer {layer} scales its logits by {scale_of(call)} and others by {form.scale}",
                      "record the layers of one scale by layers=")
    if (now.window, now.softcap) != (form.window, form.softcap):
        raise stopped(f"the softmax of layer {layer} changed between calls", "record with one configuration")


def check_call(layer, call, batch_index, forward, recorded):
    arguments = call.arguments
    if layer in forward.layers:
        raise stopped(f"layer {layer} ran twice in one forward", "record without gradient checkpointing")
    for name in ("position_bias", "cu_seq_lens_q", "head_mask"):
        if arguments.get(name) is not None:
            raise stopped(f"layer {layer} attends with {name}, which a trace cannot hold", "record without it")
    if arguments.get("is_causal") is False or getattr(call.module, "is_causal", True) is False:
        raise stopped(f"layer {layer} attends to later tokens too", "record a causal model")
    if "Paged" in type(arguments.get("cache")).__name__:
        raise stopped("the model ran in continuous batching", "record model.generate or model(...)")
    if call.value.shape[-1] != call.query.shape[-1]:
        raise stopped(f"values of layer {layer} have {call.value.shape[-1]} channels and keys {call.query.shape[-1]}",
                      "record a model whose heads are of one size")
    mask = call.mask
    if isinstance(mask, torch.Tensor) and mask.dim() == 4 and id(mask) not in forward.checked_masks:
        check_mask(layer, call, mask[min(batch_index, mask.shape[0] - 1), 0], recorded)
        forward.checked_masks[id(mask)] = mask


def check_mask(layer, call, mask, recorded):
    """That some of its rows hide what causality and the layer's window hide, and nothing else."""
    num_rows, num_keys = call.query.shape[2], call.key.shape[2]
    end = recorded + num_rows
    first_key = max(0, end - num_keys)  # A static cache has room for keys to come: these are hidden, too.
    some = torch.linspace(0, num_rows - 1, min(MASK_ROWS, num_rows)).long().unique().to(mask.device)
    shown = mask[some, :num_keys]
    shown = shown if shown.dtype == torch.bool else shown > torch.finfo(shown.dtype).min / 2
    rows = (some + recorded).unsqueeze(1)
    keys = torch.arange(first_key, first_key + shown.shape[1], device=mask.device).unsqueeze(0)
    expected = keys <= rows
    window = window_of(call.module, call.arguments)
    if window:
        expected &= keys > rows - window
    if not torch.equal(shown, expected):
        raise stopped(f"the mask of layer {layer} is not causal{' in its window' if window else ''}: it hides or shows other keys",
                      "record one plain sequence: no packed sequences, no images, no mask of one's own")


def visible_keys(call, batch_index, end):
    """(keys [kv heads, n, D] up to the newest, position of the first): all keys, or the newest where a cache drops those that
    no window sees."""
    return _up_to(call.key[batch_index], end)


def visible_values(call, batch_index, end):
    return _up_to(call.value[batch_index], end)[0]


def _up_to(rows, end):
    if rows.shape[1] > end:  # A static cache: room for what is to come.
        return rows[:, :end], 0
    return rows, end - rows.shape[1]


def check_same_cache(layer, call, keys, first_key, begin, last_key):
    """That the newest key of the past is the one recorded: beams that change places and caches that were edited show here."""
    if last_key is None or first_key >= begin or "Quant" in type(call.arguments.get("past_key_values")).__name__:
        return
    if not torch.equal(keys[:, begin - 1 - first_key], last_key):
        raise stopped(f"the cache of layer {layer} does not hold the sequence that was recorded",
                      "record without beam search, and with an unquantised cache that nothing else writes to")


def check_heads(layer, q, keys, values, heads, head_dim):
    if (q.shape[0], keys.shape[0], values.shape[0], q.shape[2]) != (heads.num_q, heads.num_kv, heads.num_kv, head_dim):
        raise stopped(f"layer {layer} has {q.shape[0]} query and {keys.shape[0]} KV heads of {q.shape[2]} channels where the "
                      f"model's configuration names {heads.num_q} and {heads.num_kv} of {head_dim}",
                      "record the layers of one shape by layers=")
