"""Where recording listens: the functions that transformers' attention modules hand their queries, keys and values to."""
import functools
import sys

import torch


class AttentionTap:
    """Between `install` and `remove` each call of a listed module goes on to the function that it would have reached, and is
    told to `heard(layer, call)`. What the model computes stays what it was."""

    def __init__(self, modules, heard):
        self._modules = modules  # module -> layer
        self._heard = heard
        self._undo = []

    def install(self):
        done = set()
        for module in self._modules:
            source = sys.modules[type(module).__module__]
            implementation = module.config._attn_implementation
            # A file of models may have an interface of its own, most share one.
            place = source if implementation in (None, "eager") else source.ALL_ATTENTION_FUNCTIONS
            if (id(place), implementation) in done:
                continue
            done.add((id(place), implementation))
            if place is source:
                self._replace_eager(source)
            else:
                self._replace_registered(place, implementation)

    def _replace_eager(self, source):
        # Not in the interface: the attention modules of a file call its function of this name.
        original = source.eager_attention_forward
        source.eager_attention_forward = self._listener(original, "eager")
        self._undo.append(lambda: setattr(source, "eager_attention_forward", original))

    def _replace_registered(self, interface, implementation):
        own = interface._local_mapping.get(implementation)
        interface[implementation] = self._listener(interface[implementation], implementation)
        if own is None:
            self._undo.append(lambda: interface.__delitem__(implementation))
        else:
            self._undo.append(lambda: interface.__setitem__(implementation, own))

    def remove(self):
        while self._undo:
            self._undo.pop()()
        self._modules = {}  # A graph that was compiled meanwhile may still call the listener for them.

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
