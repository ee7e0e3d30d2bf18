"""What a trace says of a transformers model, read from its configuration and its modules."""
import dataclasses
import json
import os
import sys

from .calls import decoder_of
from .errors import KvloupeError
from .header import MOST
from .trace_model import ModelInfo

_UNSUITED = "record a language model of a decoder alone, whose attention runs through transformers' attention interface"


@dataclasses.dataclass(frozen=True)
class LayerShape:
    num_q_heads: int
    num_kv_heads: int
    qk_head_dim: int
    v_head_dim: int
    scale: float

    @property
    def head_dim(self):
        """Of a trace, which has one: the fewer channels are filled up by zeros, which change no product."""
        return max(self.qk_head_dim, self.v_head_dim)

    def __str__(self):
        values = "" if self.v_head_dim == self.qk_head_dim else f" (values {self.v_head_dim})"
        return (f"{self.num_q_heads} query and {self.num_kv_heads} KV heads of {self.qk_head_dim} channels{values} and the scale "
                f"{self.scale:.6g}")


def text_config(model):
    config = model.config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def num_kv_heads_of(model):
    """As the configuration has it. What a layer is given decides: this is to refuse early."""
    config = text_config(model)
    named = [getattr(config, name, None) for name in ("num_key_value_heads", "num_attention_heads")]
    return next((count for count in named if isinstance(count, int)), MOST["num_kv_heads"])


def attention_modules(model):
    """The modules that compute the decoder's softmax attention: module -> layer."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "get_text_config"):
        raise KvloupeError("this model cannot be recorded", f"{type(model).__name__} is no model of transformers", _UNSUITED)
    if getattr(config, "is_encoder_decoder", False):
        raise KvloupeError("this model cannot be recorded", f"{type(model).__name__} has an encoder", _UNSUITED)
    found = {}
    for name, module in decoder_of(model).named_modules():
        layer = getattr(module, "layer_idx", None)
        is_attention = isinstance(layer, int) and "attention" in type(module).__name__.lower() and "cross" not in name
        has_interface = hasattr(sys.modules[type(module).__module__], "ALL_ATTENTION_FUNCTIONS") and hasattr(module, "config")
        if is_attention and has_interface:
            found[module] = layer
    return found


def as_option(layers):
    """Layers as a user names them: [0, 2], or range(8) where they are many in a row."""
    layers = list(layers)
    if len(layers) > 3 and layers == list(range(layers[0], layers[-1] + 1)):
        return f"range({layers[0]}, {layers[-1] + 1})" if layers[0] else f"range({len(layers)})"
    return str(layers)


def require_layers(model, modules, layers, is_part):
    """The layers to record; each must have one attention module, but of a part each that is there."""
    count = text_config(model).num_hidden_layers
    by_layer = sorted(modules.values())
    wanted = range(count) if layers is None else sorted(set(layers))
    outside = [layer for layer in wanted if not 0 <= layer < count]
    if outside or not wanted:
        raise KvloupeError(f"layers={layers} cannot be recorded", f"the model has the layers 0 to {count - 1}",
                           "name layers of the model")
    suited = [layer for layer in range(count) if by_layer.count(layer) == 1]
    missing = [layer for layer in wanted if layer not in suited]
    if is_part and len(missing) < len(wanted):
        return [layer for layer in wanted if layer in suited]
    if missing:
        why = "has more than one softmax attention" if missing[0] in by_layer else "has no attention that is known"
        other = _class_in_layer(model, missing[0])
        if missing[0] not in by_layer and other:
            why += f": {other} does not use transformers' attention interface"
        whole = "not all layers of this model can be recorded" if suited else "this model cannot be recorded"
        raise KvloupeError(whole if layers is None else f"layers={layers} cannot be recorded",
                           f"layer {missing[0]} of {type(model).__name__} {why}",
                           f"record the layers that have one, as layers={as_option(suited)}" if suited else _UNSUITED)
    return list(wanted)


def _class_in_layer(model, layer):
    return next((type(module).__name__ for module in model.modules() if getattr(module, "layer_idx", None) == layer), "")


_COMPUTE = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}
_OTHER_ROPE = '{"rope_type": "other"}'


def describe_model(model, modules, shape, rank, turning):
    """shape: the LayerShape of a call; the heads of a rank are some of those that the configuration names. turning: a Turning. Layer
    types are filled in as layers are seen."""
    config = text_config(model)
    num_q_heads, num_kv_heads = shape.num_q_heads, shape.num_kv_heads
    if rank:
        num_q_heads = config.num_attention_heads
        num_kv_heads = getattr(config, "num_key_value_heads", None) or num_q_heads
    theta, scaling = rope_of(config)
    if scaling == "none" and has_rope(config) and not turning.follows_theta:
        scaling = _OTHER_ROPE
    name = os.path.basename(os.path.normpath(getattr(model.config, "_name_or_path", "") or type(model).__name__))
    return ModelInfo(
        name=name, architecture=config.model_type.removesuffix("_text"), num_layers=config.num_hidden_layers, num_q_heads=num_q_heads,
        num_kv_heads=num_kv_heads, head_dim=shape.head_dim, hidden_size=config.hidden_size,
        softmax_scale=shape.scale, rope_theta=theta, rope_scaling=scaling, rope_pairing=turning.pairing,
        layer_types=layer_types(config, modules, turning), layers_without_rope=turning.still, compute=_COMPUTE.get(str(getattr(model, "dtype", "")), ""),
        v_head_dim=shape.v_head_dim if shape.v_head_dim < shape.head_dim else 0)


def layer_types(config, modules, turning):
    """full, sliding or nope of each layer."""
    declared = getattr(config, "layer_types", None) or []
    types = []
    for layer in range(config.num_hidden_layers):
        module = next((module for module, at in modules.items() if at == layer), None)
        sliding = window_of(module, {}) > 0 if module is not None else declared[layer : layer + 1] == ["sliding_attention"]
        types.append("sliding" if sliding else "nope" if layer in turning.still else "full")
    return types


def window_of(module, arguments):
    """Keys that a query sees, its own included; 0: all before it. `arguments` are those of the attention's call."""
    window = arguments.get("sliding_window", getattr(module, "sliding_window", None))
    return int(window) if window else 0


def has_rope(config):
    return bool(getattr(config, "rope_parameters", None)) or getattr(config, "rope_theta", None) is not None


def rope_of(config):
    """(theta, scaling): scaling is `none`, or JSON with the keys of config.json: one object, or, where kinds of layers
    turn by different bases, one of each kind beside those of the full layers."""
    rope = getattr(config, "rope_parameters", None)
    if not rope:  # transformers 4
        rope = dict(getattr(config, "rope_scaling", None) or {}, rope_theta=getattr(config, "rope_theta", None) or 0.0)
        rope.setdefault("partial_rotary_factor", getattr(config, "partial_rotary_factor", None))
        local = getattr(config, "rope_local_base_freq", None)
        if local is not None:
            rope = {"full_attention": rope, "sliding_attention": {"rope_theta": local}}
    kinds = {kind: dict(value) for kind, value in rope.items() if isinstance(value, dict)}
    main = kinds.pop("full_attention", None) or (kinds.pop(sorted(kinds)[0]) if kinds else dict(rope))
    theta = float(main.pop("rope_theta", 0.0) or 0.0)
    scaling = _without_defaults(main)
    for kind, value in kinds.items():
        if value.get("rope_theta") != theta or _without_defaults(value) != scaling:
            scaling[kind] = value
    turned = getattr(config, "qk_rope_head_dim", None)
    if turned:  # The last channels alone.
        scaling["qk_rope_head_dim"] = turned
    return theta, json.dumps(scaling, sort_keys=True) if scaling else "none"


def _without_defaults(rope):
    kept = {key: value for key, value in rope.items() if value is not None and key not in ("rope_theta", "type")}
    if kept.get("rope_type", "default") == "default":
        kept.pop("rope_type", None)
    if kept.get("partial_rotary_factor") == 1.0:
        kept.pop("partial_rotary_factor")
    return kept
