"""What a trace says of its model. Needs neither torch nor transformers."""
import dataclasses
import typing


@dataclasses.dataclass
class ModelInfo:
    """As the attributes of /model in FORMAT.md."""
    name: str
    architecture: str
    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    softmax_scale: float
    rope_theta: float
    rope_scaling: str
    layer_types: typing.List[str]
    rope_pairing: str = "half_split"
    layers_without_rope: typing.FrozenSet[int] = frozenset()  # told by layer_types where they have no window
    file_hash: str = ""
    compute: str = ""  # fp32, bf16 or fp16; empty where the weights are of another type
    v_head_dim: int = 0  # channels of v that are not padding; 0 where all are
    adapter: str = ""
    kv_heads: typing.Tuple[int, ...] = ()  # their numbers in the model, where only some were recorded
