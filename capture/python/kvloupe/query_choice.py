"""Of which chunks the queries are stored: all but them is kept of every chunk."""
import re

from .chunks import ChunkTable
from .errors import KvloupeError

WORDS = ("all", "last")
CHUNKS = re.compile(r"every:([1-9][0-9]{0,8})|([0-9]{1,9})-([0-9]{1,9})")


class QueryChoice:
    """queries: "all" or "last", of the chunks that `chunks` names: None for all, "every:N" for the Nth, the 2Nth and so on, or "A-B",
    both included."""

    def __init__(self, queries="all", chunks=None):
        if not isinstance(queries, str) or queries not in WORDS:
            raise KvloupeError(f"queries={queries!r} cannot be used", "the queries of all chunks are stored, or of the last one", 'give "all" or "last"')
        self.text, self.only_last = chunks, queries == "last"
        self._every, self._first, self._last = 1, 0, None
        if chunks is not None:
            self._every, self._first, self._last = _parsed(chunks)
        self.is_all = not self.only_last and self._every == 1 and self._last is None

    def takes(self, chunk):
        """Whether its number is among those named."""
        return (chunk + 1) % self._every == 0 and self._first <= chunk and (self._last is None or chunk <= self._last)

    def of(self, num_chunks):
        """The chunks of so many whose queries are stored at the end, ascending."""
        named = [chunk for chunk in range(num_chunks) if self.takes(chunk)]
        return named[-1:] if self.only_last else named

    def num_rows(self, chunk_size, tokens, decoded):
        """Queries that are stored of a prompt of so many tokens and of those decoded after it."""
        if self.is_all:
            return tokens + decoded
        lengths = [piece.end - piece.begin for piece in ChunkTable(chunk_size).cut(tokens)] + [1] * decoded
        return sum(lengths[chunk] for chunk in self.of(len(lengths)))

    def check_some(self, num_chunks):
        if num_chunks and not self.of(num_chunks):
            raise KvloupeError("no queries were stored", f"{num_chunks} chunks were recorded, and chunks={self.text} names none of them",
                               "record again and name some of these chunks")


def _parsed(chunks):
    match = CHUNKS.fullmatch(chunks) if isinstance(chunks, str) else None
    every, first, last = match.groups() if match else (None, "1", "0")
    if every is None and int(first) > int(last):
        raise KvloupeError(f"chunks={chunks!r} cannot be used", "it names the chunks whose queries are stored", 'give "every:4", say, or a range such as "8-15"')
    return (int(every), 0, None) if every else (1, int(first), int(last))


def check_one_process(choice, rank):
    if rank and not choice.is_all:
        raise KvloupeError("the queries of some chunks alone cannot be recorded", "the model is spread over processes, whose parts have those of all chunks",
                           "leave queries and chunks out, or record in one process")
