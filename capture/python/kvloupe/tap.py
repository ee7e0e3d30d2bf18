"""Where recording listens: the functions that transformers' attention modules hand their queries, keys and values to."""
import functools
import sys
import threading

import torch

_lock = threading.Lock()
# (id of a place, implementation) -> those installed there, each over the one before it.
_installed = {}


class _Place:
    """Where attention modules find their function: a file of models, or an interface that most files share."""

    def __init__(self, source, implementation):
        self.is_file = implementation in (None, "eager")  # Not in an interface: the modules of a file call its function of this name.
        self.implementation = "eager" if self.is_file else implementation
        self._holder = source if self.is_file else source.ALL_ATTENTION_FUNCTIONS
        self.key = id(self._holder), self.implementation

    @property
    def function(self):
        return self._holder.eager_attention_forward if self.is_file else self._holder[self.implementation]

    @property
    def own(self):
        """What `put` puts back: None where an interface has none of its own, and looks further."""
        return self.function if self.is_file else self._holder._local_mapping.get(self.implementation)

    def put(self, function):
        if self.is_file:
            self._holder.eager_attention_forward = function
        elif function is None:
            del self._holder[self.implementation]
        else:
            self._holder[self.implementation] = function


class _Cover:
    """A function that was put over another one. It can go when nothing lies over it; until then it passes on what it is given."""

    def __init__(self, place, listener_to):
        self._place, self._below = place, place.own
        self.function = listener_to(place.function)
        self.has_ended = False
        _installed.setdefault(place.key, []).append(self)
        place.put(self.function)

    def end(self):
        self.has_ended = True
        covers = _installed[self._place.key]
        while covers and covers[-1].has_ended:
            last = covers.pop()
            if self._place.function is last.function:  # else somebody put another one over it, which stays and calls it
                self._place.put(last._below)
        if not covers:
            del _installed[self._place.key]


class AttentionTap:
    """Between `install` and `remove` each call of a listed module goes on to the function that it would have reached, and is
    told to `heard(layer, call)`. What the model computes stays what it was."""

    def __init__(self, modules, heard):
        self._modules = modules  # module -> layer
        self._heard = heard
        self._covers = []

    def install(self):
        with _lock:
            places = [_Place(sys.modules[type(module).__module__], module.config._attn_implementation) for module in self._modules]
            for place in {place.key: place for place in places}.values():
                self._covers.append(_Cover(place, functools.partial(self._listener, implementation=place.implementation)))

    def remove(self):
        with _lock:
            while self._covers:
                self._covers.pop().end()
        self._modules = {}  # What lies below another one is still called, and a graph that was compiled meanwhile calls it later, too.

    def _listener(self, original, implementation):
        # Out of the graphs of torch.compile, which go on with `original`.
        tell = torch.compiler.disable(functools.partial(self._tell, implementation))

        @functools.wraps(original)
        def attention(module, query, key, value, attention_mask=None, **arguments):
            result = original(module, query, key, value, attention_mask, **arguments)
            tell(module, query, key, value, attention_mask, arguments, result[0])
            return result
        return attention

    def _tell(self, implementation, module, query, key, value, mask, arguments, output):
        layer = self._modules.get(module)
        if layer is not None:
            self._heard(layer, AttentionCall(module, query, key, value, mask, arguments, implementation, output))


class AttentionReplacement(AttentionTap):
    """Each call of a listed module is answered by `heard(layer, call, original)`, with attention's output [batch, new tokens, q heads,
    dim], in place of the function that it would have reached: original(query, key, value, mask, **arguments)."""

    def _listener(self, original, implementation):
        answer = torch.compiler.disable(functools.partial(self._answer, original, implementation))

        @functools.wraps(original)
        def attention(module, query, key, value, attention_mask=None, **arguments):
            return answer(module, query, key, value, attention_mask, arguments)
        return attention

    def _answer(self, original, implementation, module, query, key, value, mask, arguments):
        layer = self._modules.get(module)
        if layer is None:
            return original(module, query, key, value, mask, **arguments)
        call = AttentionCall(module, query, key, value, mask, arguments, implementation)
        return self._heard(layer, call, functools.partial(original, module)), None


class AttentionCall:
    """Of one layer in one forward; query [batch, q heads, new tokens, dim], key and value [batch, kv heads, keys, dim]. `given` are
    these three as they came, with their gradients."""

    def __init__(self, module, query, key, value, mask, arguments, implementation, output=None):
        self.module = module
        self.given = query, key, value
        self.query, self.key, self.value = (_local(tensor).detach() for tensor in self.given)
        self.output = None if output is None else _local(output).detach()
        self.mask = mask
        self.arguments = arguments
        self.implementation = implementation


def _local(tensor):
    """This rank's share of a distributed tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
