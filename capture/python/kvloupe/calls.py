"""How a model is called: the modules that a forward passes through, and what each was given, however it was passed."""
import inspect

import torch

# Under these names a model takes the keys and values that it goes on from.
_PASTS = ("past_key_values", "past_key_value", "cache_params", "cache")


def held_model(model):
    """The model of transformers that a compiler, an adapter or a wrapper for several devices holds; or the model itself."""
    while True:
        inner = _held(model)
        if inner is None or inner is model:
            return model
        model = inner


def _held(model):
    if hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
        return model.get_base_model()
    modules = model._modules if isinstance(model, torch.nn.Module) else {}
    if "_orig_mod" in modules:  # torch.compile
        return modules["_orig_mod"]
    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    return model.module if isinstance(model, parallel) else None


def decoder_of(model):
    return held_model(model.get_decoder()) if hasattr(model, "get_decoder") else model


def entries(given):
    """What a forward of the given model may enter before its layers, the decoder last. A wrapper may call what it holds past
    its hooks, and another object may hold the same model: so each of them is listened to."""
    model = held_model(given)
    listed = []
    for module in (given, model, decoder_of(model)):
        if all(module is not other for other in listed):
            listed.append(module)
    return listed


def cache_of(calls):
    """What the decoder goes on from, or None."""
    return next((called.cache for called in reversed(calls) if called.cache is not None), None)


def positions_of(calls):
    """position_ids of the tokens, or None where the decoder counts them itself."""
    return next((called.positions for called in reversed(calls) if called.positions is not None), None)


class Called:
    """One call of such a module: its arguments by name."""

    def __init__(self, module, arguments, options):
        self.module = module
        try:
            signature = inspect.signature(module.forward)
            bound = signature.bind_partial(*arguments, **options)
        except (TypeError, ValueError):
            self.by_name = dict(options)  # The call itself will say what is wrong with it.
            return
        self.by_name = {}
        for name, value in bound.arguments.items():
            more = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            self.by_name.update(value if more else {name: value})

    @property
    def ids(self):
        """[batch, tokens], or None."""
        return self.by_name.get("input_ids")

    @property
    def mask(self):
        """As it was given: a tensor, a table of them by kinds of layers, or None."""
        return self.by_name.get("attention_mask")

    @property
    def positions(self):
        return self.by_name.get("position_ids")

    @property
    def wants_weights(self):
        return bool(self.by_name.get("output_attentions"))

    @property
    def cache(self):
        return next((self.by_name[name] for name in _PASTS if self.by_name.get(name) is not None), None)


def cached_tokens(cache):
    """Tokens that a cache has; 0 without one, None where that cannot be told."""
    if cache is None:
        return 0
    if hasattr(cache, "get_seq_length"):
        return int(cache.get_seq_length())
    try:  # (keys, values) of each layer
        return max((int(layer[0].shape[-2]) for layer in cache if layer is not None), default=0)
    except (TypeError, AttributeError, IndexError):
        return None


def room_of(cache, layer):
    """Tokens that a layer of a cache was made for, where it has its room from the beginning; else None."""
    for name in ("get_max_length", "get_max_cache_shape"):  # transformers 5 and 4
        if hasattr(cache, name):
            most = getattr(cache, name)(layer)
            return int(most) if most is not None and most > 0 else None
    return None
