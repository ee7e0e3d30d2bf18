"""Adapters that peft has put into a model: their names, and their part in the hash of the weights."""
import hashlib

import torch

from .errors import KvloupeError


def adapter_of(model):
    """As `adapter` of /model in FORMAT.md: the adapters at work, each as name(kind), or "" without any. `model` is what was
    given to record."""
    configs = getattr(model, "peft_config", None) or {}
    for config in configs.values():
        if getattr(config, "is_prompt_learning", False):
            raise KvloupeError("this model cannot be recorded", f"{_kind(config)} puts tokens without ids before the sequence",
                               "record the model without it: model.get_base_model()")
    layers = _adapted_layers(model)
    names = sorted({name for layer in layers for name in _at_work(layer)})
    return ", ".join(f"{name}({_kind(configs[name])})" if name in configs else name for name in names)


def hash_with_adapter(model, base, adapter):
    """`base` where no adapter is at work; else the SHA-256 of it, of what the adapters are called, and of their weights."""
    layers = _adapted_layers(model)
    if not adapter or not base:
        return base
    names = set().union(*(_at_work(layer) for layer in layers))
    digest = hashlib.sha256(f"{base}\n{adapter}\n".encode())
    for at, layer in enumerate(layers):
        for kind in sorted(layer.adapter_layer_names):
            held = getattr(layer, kind, None)
            for name in sorted(names & set(_keys(held))):
                weights = held[name]
                tensors = weights.state_dict() if isinstance(weights, torch.nn.Module) else {"": weights}
                for part, tensor in sorted(tensors.items()):
                    digest.update(f"{at} {kind} {name} {part} {tuple(tensor.shape)}\n".encode())
                    digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=torch.uint8).numpy())
        scaling = getattr(layer, "scaling", {})
        digest.update(f"{[(name, scaling[name]) for name in sorted(names & set(_keys(scaling)))]}\n".encode())
    return digest.hexdigest()


def _adapted_layers(model):
    return [module for module in model.modules() if hasattr(module, "adapter_layer_names") and hasattr(module, "active_adapters")]


def _at_work(layer):
    """Names of the adapters that change what the layer computes, merged ones too."""
    if layer.disable_adapters:
        return set()
    return (set(layer.active_adapters) | set(getattr(layer, "merged_adapters", ()))) & set(_names(layer))


def _names(layer):
    return {name for kind in layer.adapter_layer_names for name in _keys(getattr(layer, kind, None))}


def _keys(held):
    return held.keys() if hasattr(held, "keys") else ()


def _kind(config):
    kind = getattr(config, "peft_type", "")
    return str(getattr(kind, "value", kind))
