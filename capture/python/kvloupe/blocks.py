"""Which blocks of keys the query blocks of a chunk keep, of a block method (FORMAT.md, section 6)."""
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Keys stand in blocks of `size` tokens from position 0 on, and queries in query blocks likewise: query block i of a chunk after
    `past` keys is block past // size + i of the text."""
    size: int
    past: int
    kept: np.ndarray  # bool [q heads, query blocks, key blocks]
    forced: np.ndarray  # likewise: those that are kept by rule
    abstains: np.ndarray  # bool [query blocks]: without a vote in a union

    def seen(self, head, rows, keys):
        """bool [rows, keys]: whether the query at each position of `rows` attends to the block of each position of `keys`."""
        return self.kept[head][np.ix_(np.asarray(rows) // self.size - self.past // self.size, np.asarray(keys) // self.size)]


def causal_blocks(size, past, length):
    """bool [query blocks, key blocks]: all that are not in a query block's future."""
    first, last = past // size, -(-(past + length) // size)
    return np.arange(last) <= np.arange(first, last)[:, None]


def packed(masks):
    """Bytes of masks [.., key blocks] as a trace stores them: a bit a block, the lowest first, each query block in whole bytes."""
    return np.packbits(masks, axis=-1, bitorder="little").reshape(-1)


def block_table(positions, size, past, length):
    """The past blocks that hold any of these positions, then all that hold tokens of the chunk."""
    kept = np.unique(positions // size)
    return np.concatenate([kept[kept < past // size], np.arange(past // size, -(-(past + length) // size))]).astype(np.int32)
