"""The queries of one layer, where only those of some chunks are stored."""
import numpy as np


class QueryRows:
    """They stand one after the other, in the order of the chunks. Those of the last chunk alone wait for the end: in the file, one chunk's
    would take the place of another's, and a kill would leave some of both."""

    def __init__(self, layer, writer, most_waiting):
        self._layer, self._writer, self._most_waiting = layer, writer, most_waiting
        self._choice = writer.header.queries
        self._end = 0  # of the rows accepted
        self._waiting = []  # (begin, rows)
        self._last, self._rows_of_last = None, []

    def hear(self, q, pieces):
        """q [q heads, new tokens, D]. Returns what the forward would add, for `accept`: (chunk, number of rows, those not written yet)."""
        first = pieces[0].begin
        named = [piece for piece in pieces if self._choice.takes(piece.chunk)]
        if self._choice.only_last:
            named = [piece for piece in named if piece.chunk == named[-1].chunk]
        waits = self._choice.only_last or sum(piece.end - piece.begin for piece in named) < self._most_waiting
        heard, at = [], self._end
        for piece in named:
            rows = q[:, piece.begin - first : piece.end - first].cpu().numpy()
            if not waits:
                self._writer.write_queries(self._layer, at, rows)
            at += rows.shape[1]
            # They may lie in the memory of a cache, which the next forward writes to.
            heard.append((piece.chunk, rows.shape[1], rows.copy() if waits else None))
        return heard

    def accept(self, heard):
        for chunk, count, rows in heard:
            if self._choice.only_last:
                self._rows_of_last = self._rows_of_last + [rows] if chunk == self._last else [rows]
                self._last = chunk
            elif rows is not None:
                self._waiting.append((self._end, rows))
            self._end += count

    def write(self):
        for at, rows in self._waiting:
            self._writer.write_queries(self._layer, at, rows)
        self._waiting = []

    def close(self, num_chunks):
        """When so many chunks are done."""
        if self._choice.only_last and self._choice.of(num_chunks) == [self._last]:
            self._writer.write_queries(self._layer, 0, np.concatenate(self._rows_of_last, axis=1))
