"""What a recording will take on the disk, from the model's configuration alone. Needs torch and transformers."""
import numpy as np

from . import guards
from .chunks import ChunkTable
from .errors import KvloupeError
from .head_choice import chosen_heads, numbers_of_heads
from .mass_rule import is_small
from .model_info import attention_modules, require_layers, text_config
from .query_choice import QueryChoice


def estimate(model, tokens, *, new_tokens=0, chunk_size=128, layers=None, dtype="float16", store=None, heads=None, queries="all", chunks=None):
    """{part: bytes} and "bytes", their sum: see kvloupe.estimate."""
    if isinstance(tokens, bool) or not isinstance(tokens, (int, np.integer)) or tokens < 1:
        raise KvloupeError(f"{tokens!r} tokens cannot be recorded", "a prompt has 1 or more", "give their number")
    guards.check_options(chunk_size, dtype, store, 0)
    chosen = require_layers(model, attention_modules(model), layers, is_part=False)
    shape = Shape(text_config(model))
    shape.keep(chosen_heads(numbers_of_heads(heads), shape.num_kv_heads))
    fed = tokens + max(0, new_tokens - 1)  # the last token that is sampled is not fed
    rows = QueryChoice(queries, chunks).num_rows(chunk_size, tokens, fed - tokens)
    parts = {"qkv": len(chosen) * (rows * shape.num_q_heads + 2 * fed * shape.num_kv_heads) * shape.head_dim * np.dtype(dtype).itemsize,
             "lse": len(chosen) * fed * shape.num_q_heads * 4}
    prefill_keys = ChunkTable(chunk_size).prefill_keys(tokens)
    if "mass" in store if store is not None else is_small(shape, dtype, fed, prefill_keys):
        parts["mass"] = len(chosen) * shape.num_kv_heads * prefill_keys * 4
    if store is not None:
        parts = {part: size for part, size in parts.items() if part in store}
    return {**parts, "bytes": sum(parts.values())}


class Shape:
    """Heads and channels as a trace has them."""

    def __init__(self, config):
        self.num_q_heads = config.num_attention_heads
        self.num_kv_heads = getattr(config, "num_key_value_heads", None) or self.num_q_heads
        of_keys = getattr(config, "qk_head_dim", None) or getattr(config, "head_dim", None) or config.hidden_size // self.num_q_heads
        self.head_dim = max(of_keys, getattr(config, "v_head_dim", None) or 0)

    def keep(self, kv_heads):
        """Of these KV heads alone; () for all."""
        if kv_heads:
            group = self.num_q_heads // self.num_kv_heads
            self.num_q_heads, self.num_kv_heads = len(kv_heads) * group, len(kv_heads)


def words(sizes, tokens, layers):
    """"recording 2,048 tokens of 30 layers takes about 140 MiB"."""
    return f"recording {tokens:,} tokens of {layers} layer{'' if layers == 1 else 's'} takes about {max(1, round(sizes['bytes'] / 2**20)):,} MiB"
