"""Adapters that peft has put into a model: their names, and their part in the hash of the weights."""
import functools
import hashlib

import torch

from .errors import KvloupeError


def adapter_of(model):
    """As `adapter` of /model in FORMAT.md: the adapters at work, each as name(kind), or "" without any. `model` is what was
    given to record."""
    for config in (getattr(model, "peft_config", None) or {}).values():
        if getattr(config, "is_prompt_learning", False):
            kind = getattr(config.peft_type, "value", config.peft_type)
            raise KvloupeError("this model cannot be recorded", f"{kind} puts tokens without ids before the sequence",
                               "record the model without it: model.get_base_model()")
    layers = _adapted_layers(model)
    return ", ".join(sorted({f"{name}({_kind(layer)})" for layer in layers for name in _at_work(layer)}))


def hash_with_adapter(model, base, adapter):
    """`base` where no adapter is at work; else the SHA-256 of it, of what the adapters are called, and of their weights."""
    if not adapter or not base:
        return base
    digest = hashlib.sha256(f"{base}\n{adapter}\n".encode())
    for at, layer in enumerate(_adapted_layers(model)):
        for name in sorted(_at_work(layer)):
            digest.update(f"{at} {name} {_of(layer, 'scaling').get(name)}\n".encode())
            for kind in layer.adapter_layer_names:
                _add(digest, kind, _of(layer, kind), name)
    return digest.hexdigest()


def _add(digest, kind, held, name):
    if name not in held:
        return
    tensors = held[name].state_dict() if isinstance(held[name], torch.nn.Module) else {"": held[name]}
    for part, tensor in sorted(tensors.items()):
        digest.update(f"{kind} {part} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=torch.uint8).numpy())


def _adapted_layers(model):
    return [module for module in model.modules() if hasattr(module, "adapter_layer_names") and hasattr(module, "active_adapters")]


def _at_work(layer):
    """Names of the adapters that change what the layer computes, merged ones too."""
    if layer.disable_adapters:
        return set()
    having = {name for kind in layer.adapter_layer_names for name in _of(layer, kind).keys()}
    return (set(layer.active_adapters) | set(layer.merged_adapters)) & having


def _of(layer, path):
    """What a layer holds by the names of adapters; the path may lead through another module."""
    held = functools.reduce(lambda module, name: getattr(module, name, None), path.split("."), layer)
    return held if hasattr(held, "keys") else {}


def _kind(layer):
    """LORA of peft.tuners.lora.layer.Linear, as peft names its kinds."""
    path = type(layer).__module__.split(".")
    return path[path.index("tuners") + 1].upper() if "tuners" in path else type(layer).__name__
