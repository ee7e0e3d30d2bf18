"""What enters the softmax of a layer besides the keys that a query sees."""
import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class SoftmaxForm:
    """As the attributes of /layers/{l} in FORMAT.md; 0 and None where the layer has none."""
    scale: float
    window: int = 0
    softcap: float = 0.0
    sinks: typing.Any = None  # [q heads], an array or a tensor
