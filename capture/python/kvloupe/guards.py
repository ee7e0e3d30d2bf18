"""What cannot be recorded, each with its sentence, and what a call of an attention says of its layer."""
import sys

from . import masks
from .calls import cached_tokens, room_of
from .errors import KvloupeError
from .layout import DTYPES, STORES
from .model_info import as_option, window_of
from .output_check import largest_excess
from .softmax_form import SoftmaxForm

# An attention's output is looked at in every forward up to so many tokens, then in one of so many.
LOOK_EVERY = 512


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


def check_entered_once(turning):
    """turning: what a recorder has learned when it was entered, or None."""
    if turning is not None:
        raise KvloupeError("a recording is entered once", "this one was begun before", "call kvloupe.record again")


def check_no_sparse_run(own, listeners):
    """own: the sparse run that this recording belongs to, or None."""
    if own is None and any(listener.is_sparse for listener in listeners):
        raise KvloupeError("this model cannot be recorded", "a sparse run of it is open", "record that one: kvloupe.sparse(.., record=PATH)")


def check_spans_inside(spans, num_tokens):
    for name, begin, end in spans:
        if end > num_tokens:
            raise KvloupeError(f"the span {name} does not fit", f"it ends at {end} and {num_tokens} tokens were recorded",
                               "record again with spans inside the tokens")


def stopped(why, what_to_do):
    return KvloupeError("the recording was stopped", why, what_to_do)


# --- a forward -----------------------------------------------------------------------------------------------------------

def ids_of_forward(calls, batch_index):
    """Token ids [tokens] of the row that is recorded, padding included. `calls` are those that led to the decoder."""
    ids = next((called.ids for called in reversed(calls) if called.ids is not None), None)
    if ids is None or ids.dim() != 2 or ids.shape[1] == 0:
        raise stopped("the model was called without input_ids [batch, tokens]", "pass token ids, not inputs_embeds")
    if batch_index >= ids.shape[0]:
        raise stopped(f"batch_index is {batch_index} and the batch has {ids.shape[0]} rows", "give the row to record")
    return ids[batch_index].tolist()


def pads_of_forward(calls, batch_index, num_rows):
    """Tokens of padding on the left, when the sequence begins."""
    mask = next((called.mask for called in calls if called.mask is not None), None)
    pads = masks.pads_of(mask, batch_index, num_rows)
    if pads is None:
        raise stopped("the attention mask leaves tokens out that do not stand before all others",
                      "pad on the left, or record one sequence at a time, without padding")
    return pads


def check_continues(cache, ids, recorded):
    """That the cache holds what was recorded: `recorded` are all ids so far, padding included."""
    past = cached_tokens(cache)
    if past == len(recorded):
        return
    if past is None:
        raise stopped(f"nothing tells how many tokens the cache holds, which is a {type(cache).__name__}",
                      "pass a cache of transformers, such as DynamicCache")
    if past == 0 and ids[: len(recorded)] == recorded:
        raise stopped("the model was fed the tokens once more that were recorded, as it is without a cache",
                      "allow the cache (use_cache=True), or record a single forward")
    if past == 0:
        raise stopped("a second sequence began, and a trace holds one",
                      "record each sequence to a file of its own, or pass the past_key_values of the first")
    if past < len(recorded):
        raise stopped(f"the cache was cropped from {len(recorded)} tokens to {past}",
                      "record without what takes tokens back, such as assisted generation")
    raise stopped(f"the cache has {past} tokens of which {len(recorded)} were recorded",
                  "begin the recording before the first token is fed")


def checked_unfed(answer, recorded, before):
    """What generate gives for the row after all that the model was fed. answer: the row with the prompt that it was given, which
    may be all of the text or what is new in it; recorded: all ids so far, of which `before` were fed before."""
    new = recorded[before:]
    for begin in (before, 0):
        if answer[begin : begin + len(new)] == new:
            return answer[begin + len(new) :]
    raise stopped("what was generated is not what the model was fed one token after the other",
                  "record without beam search and without what takes tokens back, such as assisted generation")


def check_graph(error):
    """What torch.compile raises where nothing may leave its graph, in words of ours."""
    dynamo = sys.modules.get("torch._dynamo.exc")
    if error is None or dynamo is None or not isinstance(error, dynamo.TorchDynamoException):
        return
    raise stopped("torch.compile could not leave its graph where attention is listened to, as it must be with fullgraph=True",
                  'compile without it, or record under torch.compiler.set_stance("force_eager")') from error


# --- a call of an attention ------------------------------------------------------------------------------------------------

def scale_of(call):
    scale = call.arguments.get("scaling")
    return float(scale) if scale is not None else call.query.shape[-1] ** -0.5


def softmax_of(call, scale):
    sinks = call.arguments.get("s_aux")
    if hasattr(sinks, "to_local"):
        sinks = sinks.to_local()
    # transformers' SDPA has no softcap: where it did not refuse one, it ignored it.
    softcap = 0.0 if call.implementation == "sdpa" else call.arguments.get("softcap") or 0.0
    return SoftmaxForm(scale, window_of(call.module, call.arguments), float(softcap), sinks)


def check_same_softmax(layer, form, now):
    if (now.window, now.softcap) != (form.window, form.softcap):
        raise stopped(f"the softmax of layer {layer} changed between calls", "record with one configuration")


# What enters some attentions beside queries, keys and a mask.
_STRANGE = ("position_bias", "cu_seq_lens_q", "head_mask", "indices", "block_indices")


def check_call(layer, call, forward):
    arguments = call.arguments
    if layer in forward.layers:
        raise stopped(f"layer {layer} attends twice in one forward, and a trace holds one attention of a layer",
                      "record another model")
    for name in _STRANGE:
        if arguments.get(name) is not None:
            raise stopped(f"layer {layer} attends with {name}, which a trace cannot hold", "record without it")
    if arguments.get("dropout"):
        raise stopped(f"layer {layer} drops probabilities at random (dropout {arguments['dropout']})", "call model.eval() before")
    if call.mask is None and not masks.is_causal(call) and call.query.shape[2] > 1:
        raise stopped(f"layer {layer} attends to later tokens too", "record a causal model")
    if "Paged" in type(arguments.get("cache")).__name__:
        raise stopped("the model ran in continuous batching", "record model.generate or model(...)")


def layout_of(layer, call, forward):
    """Where rows and keys of the call lie, and that they are as many as the model was given."""
    num_rows, num_keys = call.query.shape[2], call.key.shape[2]
    if num_rows != forward.num_rows:
        raise stopped(f"attention of layer {layer} is given {num_rows} queries for {forward.num_rows} tokens",
                      "record a model that makes each token one query: no prompt tuning, no images in place of tokens")
    layout = masks.Layout(num_rows, num_keys, forward.end + forward.pads, forward.pads)
    window = window_of(call.module, call.arguments)
    first_seen = layout.first_row + layout.skipped_rows - window + 1 if window else 0
    # Keys behind the newest are room to come, which a cache has from the beginning or not at all.
    too_many = num_keys > layout.end and room_of(forward.cache, layer) != num_keys
    if too_many or layout.first_key > max(forward.pads, first_seen):
        raise stopped(f"attention of layer {layer} is given {num_keys} keys where {layout.end} tokens were fed",
                      "record with a cache that began inside the recording and keeps all tokens")
    return layout


def check_mask(layer, call, layout, forward, batch_index):
    window = window_of(call.module, call.arguments)
    kind = (id(call.mask), call.implementation, layout.num_keys, window)
    if kind in forward.checked_masks:
        return
    other = masks.find_other(call, batch_index, layout, window)
    if isinstance(other, str):
        raise stopped(f"the mask of layer {layer} {other}", "record a model without such a mask, and give it none of your own")
    if other is not None:
        row, key, shown = other
        raise stopped(f"the mask of layer {layer} is not causal{' in its window' if window else ''}: it {'shows' if shown else 'hides'} "
                      f"{_place(key, layout)} {'to' if shown else 'from'} {_place(row, layout)}",
                      "record one plain sequence: no packed ones, no images that see each other, no mask of your own, no model that "
                      "chooses its keys itself")
    forward.checked_masks[kind] = call.mask


def _place(position, layout):
    if position < layout.pads:
        return "the padding"
    return f"token {position - layout.pads}" if position < layout.end else "a key that was never fed"


def check_past(layer, held):
    """held: truth values, or None where there is no past."""
    if any(value is not None and not bool(value) for value in held):
        raise stopped(f"the cache of layer {layer} does not hold the sequence that was recorded",
                      "record without beam search, and with a cache that keeps its values and that nothing else writes to")


def check_output(layer, call, layout, forward, batch_index):
    passes = layout.end // LOOK_EVERY > layout.first_row // LOOK_EVERY
    if layout.end > LOOK_EVERY and not passes and not forward.decodes_first:
        return
    excess = largest_excess(call, call.output, softmax_of(call, scale_of(call)), batch_index, layout)
    if excess is None or excess > 1:
        raise stopped(f"the attention of layer {layer} gives something else than softmax(q k) v: more enters it than a trace holds",
                      "record another model")


def check_layers(wanted, forward):
    """That all of them were heard and can be recorded, when the last has been heard."""
    good = [layer for layer in wanted if layer in forward.layers and layer not in forward.refused]
    others = f", as layers={as_option(good)}" if good else ""
    if forward.refused:
        refusal = forward.refused[min(forward.refused)]
        raise stopped(refusal.why, f"record the layers of which this is not so{others}") if good else refusal
    missing = [layer for layer in wanted if layer not in forward.layers]
    if missing:
        raise stopped(f"the attention of layer {missing[0]} did not pass through transformers' attention interface",
                      f"record the layers whose attention does{others}" if good else
                      'use an attention of transformers (attn_implementation="sdpa"), and where the model is compiled '
                      'torch.compiler.set_stance("force_eager")')


def check_shapes(shapes):
    """shapes: layer -> LayerShape of each layer heard. One trace holds one such shape."""
    kinds = {}
    for layer, shape in sorted(shapes.items()):
        kinds.setdefault(shape, []).append(layer)
    if len(kinds) < 2:
        return
    described = ", ".join(f"layers {as_option(layers)} have {shape}" for shape, layers in kinds.items())
    raise stopped(f"the layers differ, and a trace holds one kind: {described}",
                  f"record some, as layers={as_option(max(kinds.values(), key=len))}")
