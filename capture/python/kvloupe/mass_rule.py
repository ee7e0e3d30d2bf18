"""Whether key_mass is worth its bytes: it follows from q and k, and grows with the square of the tokens."""
import numpy as np


def is_small(model, dtype, num_tokens, prefill_keys):
    """At most a quarter of the bytes of q, k and v; prefill_keys: as ChunkTable.prefill_keys."""
    mass = 4 * model.num_kv_heads * prefill_keys
    rows = (model.num_q_heads + 2 * model.num_kv_heads) * model.head_dim * np.dtype(dtype).itemsize
    return 4 * mass <= rows * num_tokens
