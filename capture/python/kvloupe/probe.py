"""The probe of FORMAT.md, section 4: a short text that the model reads after each prefill chunk, and forgets. Needs torch and
transformers."""
import contextlib
import dataclasses
import typing

import torch
import transformers

from .calls import decoder_of
from .errors import KvloupeError
from .model_info import text_config
from .tap import AttentionTap

# That of the program's own capture.
TEXT = "\nSummarize the context above and keep its most important parts."


@dataclasses.dataclass(frozen=True)
class ProbeText:
    text: str
    ids: typing.Tuple[int, ...]


def _refused(why, what_to_do="leave probe out of store"):
    return KvloupeError("the probe cannot be recorded", why, what_to_do)


def probe_text(tokenizer):
    if tokenizer is None:
        raise _refused("its text becomes tokens by the model's tokenizer", "give tokenizer=, or leave probe out of store")
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    if not ids:
        raise _refused("the tokenizer has no tokens for its text")
    return ProbeText(TEXT, tuple(ids))


class _Past(transformers.DynamicCache):
    """What the probe goes on from."""
    is_given = False  # Whether all of it is there, so that what comes is the probe's own.

    def update(self, key_states, value_states, layer_idx, *arguments, **options):
        if self.is_given:
            for given, new in ((self.layers[layer_idx].keys, key_states), (self.layers[layer_idx].values, value_states)):
                if given.shape[1::2] != new.shape[1::2]:
                    raise _refused(f"layer {layer_idx} caches something else than the keys and values of its attention")
        return super().update(key_states, value_states, layer_idx, *arguments, **options)


class Prober:
    """Listens beside the recorder: it keeps the keys and values that all layers attended to in a forward, and afterwards runs the
    probe on those that each chunk had. The model's own cache is not touched."""

    def __init__(self, model, modules, text, batch_index):
        if len(modules) < text_config(model).num_hidden_layers:
            raise _refused(f"{type(model).__name__} has layers without attention, whose state the model cannot be taken back to")
        self.text = text
        self.is_running = False
        self._decoder = decoder_of(model)
        self._batch_index = batch_index
        self._fed = 0  # tokens, those of the forward included
        self._end = 0  # tokens before the probe
        self._ids = torch.tensor([text.ids])
        self._tap = AttentionTap(modules, self._heard)
        self._kept = {}  # layer -> (keys, values) [1, kv heads, tokens, D] of the forward
        self._queries = {}  # layer -> [q heads, probe tokens, D]

    def install(self):
        self._tap.install()

    def remove(self):
        self._tap.remove()

    def begin(self, begin, count, pads, positions):
        """Before a forward of `count` tokens; pads: those of padding before the sequence; positions: position_ids as the model
        was given them, or None."""
        if pads:
            raise _refused("padding stands before the sequence, and the probe reads the tokens alone",
                           "record one sequence at a time, without padding, or leave probe out of store")
        self._fed, self._kept = begin + count, {}
        if positions is None:
            return
        expected = torch.arange(begin, begin + count, device=positions.device)
        if positions.shape[-1] != count or not bool((positions == expected).all()):
            raise _refused("the tokens do not stand at the positions 0, 1, 2 and so on",
                           "record without position_ids, or leave probe out of store")

    def run(self, end):
        """The probe's queries after the first `end` tokens: layer -> [q heads, probe tokens, D]."""
        self._end = end
        layers = sorted(self._kept)
        cache = _Past()
        for layer in layers:
            cache.update(*self._past(layer, end), layer)
        cache.is_given = True
        self.is_running, self._queries = True, {}
        try:
            with torch.no_grad(), state_kept(self._decoder):
                self._decoder(input_ids=self._ids.to(self._decoder.get_input_embeddings().weight.device), past_key_values=cache,
                              use_cache=True)
        finally:
            self.is_running = False
        missing = [layer for layer in layers if layer not in self._queries]
        if missing:
            raise _refused(f"the attention of layer {missing[0]} did not pass through transformers' attention interface")
        return self._queries

    def _past(self, layer, end):
        """Keys and values [1, kv heads, end, D]."""
        keys, values = self._kept[layer]
        if keys.shape[2] > self._fed and bool(keys[:, :, self._fed :].any()):
            raise _refused(f"layer {layer} is given more keys than tokens were fed")
        lost = max(0, self._fed - keys.shape[2])  # Those that a cache dropped, which no window sees: anything may stand there.
        return tuple(torch.nn.functional.pad(rows[:, :, : end - lost], (0, 0, lost, 0)) for rows in (keys, values))

    def _heard(self, layer, call):
        if not self.is_running:
            row = slice(self._batch_index, self._batch_index + 1)
            self._kept[layer] = (call.key[row], call.value[row])
            return
        past = self._past(layer, self._end)[0]
        if call.key.shape[2] != past.shape[2] + call.query.shape[2] or not torch.equal(call.key[:, :, self._end - 1], past[:, :, -1]):
            raise _refused(f"layer {layer} does not attend to what its cache holds")
        self._queries[layer] = call.query[0]


@contextlib.contextmanager
def state_kept(model):
    """Random numbers, and the frequencies of a RoPE that follows the length: as if nothing had run."""
    device = next(model.parameters()).device
    turning = [(module, dict(module._buffers), {name: value for name, value in vars(module).items() if "max_seq_len" in name})
               for module in model.modules() if any("inv_freq" in name for name in module._buffers)]
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        for module, buffers, lengths in turning:
            module._buffers.update(buffers)
            vars(module).update(lengths)
