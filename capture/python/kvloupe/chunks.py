"""The chunk table of a model that ran densely: where prefill is cut, and which tokens were decoded."""
import dataclasses

from .layout import DECODE, PREFILL


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive tokens of one forward that lie in one chunk."""
    begin: int
    end: int
    chunk_begin: int
    phase: int
    closes: bool  # the chunk ends with it
    chunk: int  # its number


class ChunkTable:
    """Prefill is cut at multiples of chunk_size from position 0; a forward of one token that is not the first is a
    decode chunk. The last prefill chunk stays open until a decoded token or the end closes it."""

    def __init__(self, chunk_size):
        self.chunk_size = chunk_size
        self.num_tokens = 0
        self.num_chunks = 0  # that have ended
        self.open_begin = None
        self._prefill_keys = 0  # of prefill chunks that have ended, all keys that each sees

    def cut(self, num_new):
        """The pieces of a forward of so many tokens; a prefill chunk left open must be closed before decoding."""
        begin, end = self.num_tokens, self.num_tokens + num_new
        if begin > 0 and num_new == 1:
            return [Piece(begin, end, begin, DECODE, True, self.num_chunks + (self.open_begin is not None))]
        pieces = []
        while begin < end:
            chunk_begin = begin if self.open_begin is None or pieces else self.open_begin
            limit = (begin // self.chunk_size + 1) * self.chunk_size
            pieces.append(Piece(begin, min(limit, end), chunk_begin, PREFILL, limit <= end, self.num_chunks + len(pieces)))
            begin = pieces[-1].end
        return pieces

    def advance(self, pieces):
        """Takes in a forward's pieces; returns the chunks (begin, length, phase) that they complete."""
        self.num_tokens = pieces[-1].end
        self.open_begin = None if pieces[-1].closes else pieces[-1].chunk_begin
        ended = [piece for piece in pieces if piece.closes]
        self.num_chunks += len(ended)
        self._prefill_keys += sum(piece.end for piece in ended if piece.phase == PREFILL)
        return [(piece.chunk_begin, piece.end - piece.chunk_begin, piece.phase) for piece in ended]

    def close_open(self):
        """The prefill chunk left open, or None; it ends here."""
        if self.open_begin is None:
            return None
        chunk = (self.open_begin, self.num_tokens - self.open_begin, PREFILL)
        self.open_begin = None
        self.num_chunks += 1
        self._prefill_keys += self.num_tokens
        return chunk

    def prefill_keys(self, num_new):
        """Keys that each prefill chunk sees, its own included, summed over the chunks after so many new tokens of prefill."""
        return self._prefill_keys + sum(piece.end for piece in self.cut(num_new))
