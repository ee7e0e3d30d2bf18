"""When a model runs: each of its forwards is told before and after, to the recorder and to a sparse run. Needs torch."""
import contextlib
import weakref

import torch

from . import guards
from .calls import Called, decoder_of, entries, held_model
from .model_info import LayerShape

_installed = weakref.WeakSet()
_unheard = weakref.WeakSet()  # decoders


@contextlib.contextmanager
def unheard(decoder):
    """What runs inside is told to nobody: it is no part of a sequence."""
    _unheard.add(decoder)
    try:
        yield
    finally:
        _unheard.discard(decoder)


def listeners(model):
    """Those that are installed in the given model."""
    decoder = decoder_of(held_model(model))
    return [listener for listener in _installed if listener.decoder is decoder]


class ForwardListener:
    """Between `install` and `remove`, `begin(calls)` is told of what led to the decoder, and `end(module, output)` of each module on
    that way, the outermost last."""

    def __init__(self, model, begin, end, is_deaf=lambda: False, is_sparse=False):
        self._entries = entries(model)
        self.is_sparse = is_sparse  # whether the model attends to what a method keeps
        self._begin, self._end = begin, end
        self._is_deaf = lambda: is_deaf() or self.decoder in _unheard
        self._calls = []  # of what leads to the decoder
        self._hooks = []

    @property
    def decoder(self):
        return self._entries[-1]

    @property
    def is_deaf(self):
        return self._is_deaf()

    def install(self):
        _installed.add(self)
        # What listens stays out of the graphs of torch.compile.
        before, after = torch.compiler.disable(self._before), torch.compiler.disable(self._after)
        self._hooks = [module.register_forward_pre_hook(before, with_kwargs=True) for module in self._entries]
        self._hooks += [module.register_forward_hook(after) for module in self._entries]

    def remove(self):
        _installed.discard(self)
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _before(self, module, arguments, options):
        if self._is_deaf():
            return
        if any(called.module is module for called in self._calls):
            self._calls = []  # That call did not come as far as the decoder.
        self._calls.append(Called(module, arguments, options))
        if module is self.decoder:
            calls, self._calls = self._calls, []
            self._begin(calls)

    def _after(self, module, arguments, output):
        if not self._is_deaf():
            self._end(module, output)


class Forward:
    """One call of the model, until all its layers have been heard."""

    def __init__(self, entered, fed, ids, pieces, pads, cache):
        self.entered = entered  # the outermost module that was called, which ends the forward
        self.cache = cache
        self.decodes_first = False
        self.fed = fed  # token ids, those of padding included
        self.ids = ids
        self.pieces = pieces
        self.pads = pads
        self.num_rows = len(fed)
        self.end = pieces[-1].end
        self.layers = set()  # that were heard
        self.refused = {}  # layer -> what cannot be recorded of it
        self.checked_masks = {}  # what was checked -> the mask itself, so that no other takes its id meanwhile


def shape_of(call):
    """What a layer is given, which the configuration may not say."""
    return LayerShape(call.query.shape[1], call.key.shape[1], call.query.shape[3], call.value.shape[3], guards.scale_of(call))
