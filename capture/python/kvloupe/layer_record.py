"""One layer of a recording: rows as they are stored, and the sums of its softmax."""
import dataclasses

import numpy as np
import torch

from . import guards
from .head_choice import HeadChoice
from .layout import PREFILL
from .past_rows import PastRows
from .query_rows import QueryRows
from .softmax import sum_rows

STORED = {"float16": torch.float16, "float32": torch.float32}
# Rows wait for the next writing only where they are few.
MOST_WAITING_ROWS = 64


class LayerRecorder:
    """`take` hears a forward; `accept` says that the whole forward went well, before which nothing of it counts."""

    def __init__(self, layer, writer, first_call):
        self.layer = layer
        self._writer = writer
        self._choice = HeadChoice(writer.header.model.kv_heads, first_call.query.shape[1] // first_call.key.shape[1])
        self._form = guards.softmax_of(first_call, writer.header.model.softmax_scale)
        if self._form.sinks is not None:
            self._form = dataclasses.replace(self._form, sinks=self._choice.of_q(self._form.sinks))
        self._mass_end = 0  # where the next chunk begins in key_mass
        self._open_mass = None  # [kv heads, keys] of the prefill chunk that is open
        self._waiting = []  # (begin, rows) of accepted forwards
        self._past_keys, self._past_values = PastRows(), PastRows()
        self._heard = None
        self._queries = None if writer.header.queries.is_all else QueryRows(layer, writer, MOST_WAITING_ROWS)
        sinks = self._form.sinks
        in_file = self._form if sinks is None else dataclasses.replace(self._form, sinks=sinks.detach().float().cpu().numpy())
        writer.begin_layer(layer, in_file)

    def take(self, call, batch_index, layout, pieces):
        header = self._writer.header
        store, head_dim = header.store, header.model.head_dim
        guards.check_same_softmax(self.layer, self._form, guards.softmax_of(call, self._form.scale))
        begin, end = pieces[0].begin, pieces[-1].end
        kind = STORED[header.dtype]
        first_key = max(0, layout.first_key - layout.pads)
        keys, values = (rows_up_to(self._choice.of_kv(rows[batch_index]), layout) for rows in (call.key, call.value))
        held = [past.look(rows, begin, first_key) for past, rows in ((self._past_keys, keys), (self._past_values, values))]
        guards.check_past(self.layer, [is_same for _, is_same in held])
        heard = Heard(begin, self._open_mass, self._mass_end, [seen for seen, _ in held])
        q = widened(self._choice.of_q(call.query[batch_index])[:, layout.skipped_rows :].to(kind), head_dim)
        k = widened(keys.to(kind), head_dim)
        if "qkv" in store:
            v = widened(values[:, begin - first_key :].to(kind), head_dim)
            if self._queries is None:
                heard.rows["q"] = q.cpu().numpy()
            else:
                heard.queries = self._queries.hear(q, pieces)
            heard.rows.update(k=k[:, begin - first_key :].cpu().numpy(), v=v.cpu().numpy())
        if store & {"lse", "mass"}:
            self._sum(q, k, first_key, pieces, heard)
        if end - begin >= MOST_WAITING_ROWS:
            self._writer.write_rows(self.layer, begin, heard.rows)
            heard.rows = {}
        self._heard = heard

    def _sum(self, q, k, first_key, pieces, heard):
        lse, begin = [], pieces[0].begin
        k = k.float()  # Each piece reads all of them.
        for piece in pieces:
            wants_mass = "mass" in self._writer.header.store and piece.phase == PREFILL
            first = max(0, piece.begin - self._form.window + 1) if self._form.window else 0
            first = max(first, first_key)
            sums, mass = sum_rows(q[:, piece.begin - begin : piece.end - begin], k[:, first - first_key : piece.end - first_key],
                                  self._form, piece.begin, first, wants_mass)
            lse.append(sums.cpu().numpy())
            if wants_mass:
                heard.add_mass(mass.cpu().numpy(), first, piece, self._write_mass)
        if "lse" in self._writer.header.store:
            heard.rows["lse"] = np.concatenate(lse, axis=1)

    def _write_mass(self, at, mass):
        self._writer.write_mass(self.layer, at, mass)

    def accept(self):
        heard, self._heard = self._heard, None
        if heard.rows:
            # They may lie in the memory of a cache, which the next forward writes to.
            self._waiting.append((heard.begin, {name: rows.copy() for name, rows in heard.rows.items()}))
        if self._queries is not None:
            self._queries.accept(heard.queries)
        self._open_mass, self._mass_end = heard.mass, heard.mass_end
        self._past_keys.accept(heard.seen[0])
        self._past_values.accept(heard.seen[1])

    def close_chunk(self):
        """The prefill chunk that was open has ended."""
        if self._open_mass is not None:
            self._write_mass(self._mass_end, self._open_mass)
            self._mass_end += self._open_mass.size
            self._open_mass = None

    def drop_mass(self):
        self._open_mass = None

    def write_probe(self, chunk, queries):
        """queries [q heads of the model, probe tokens, D] after a prefill chunk."""
        header = self._writer.header
        rows = widened(self._choice.of_q(queries).to(STORED[header.dtype]), header.model.head_dim)
        self._writer.write_probe(self.layer, chunk, rows.cpu().numpy())

    def close_queries(self, num_chunks):
        """At the end, when so many chunks are done."""
        if self._queries is not None:
            self._queries.close(num_chunks)

    def write(self):
        if self._queries is not None:
            self._queries.write()
        if not self._waiting:
            return
        rows = {name: np.concatenate([rows[name] for _, rows in self._waiting], axis=1) for name in self._waiting[0][1]}
        self._writer.write_rows(self.layer, self._waiting[0][0], rows)
        self._waiting = []


class Heard:
    """What a forward would change of the layer."""

    def __init__(self, begin, mass, mass_end, seen):
        self.begin = begin
        self.rows = {}
        self.queries = []  # of QueryRows
        self.mass = mass
        self.mass_end = mass_end
        self.seen = seen  # of the new keys, and of the new values

    def add_mass(self, mass, first_key, piece, write):
        whole = np.zeros((mass.shape[0], piece.end), dtype=np.float32)
        whole[:, first_key:] = mass
        if self.mass is not None:
            whole[:, : self.mass.shape[1]] += self.mass
        self.mass = whole
        if piece.closes:
            write(self.mass_end, whole)
            self.mass_end += whole.size
            self.mass = None


def rows_up_to(rows, layout):
    """Keys or values [heads, tokens, D] of the tokens fed: no padding before them, and no room for what is to come behind."""
    return rows[:, max(0, layout.pads - layout.first_key) : layout.end - layout.first_key]


def widened(rows, head_dim):
    """Channels of zeros behind those that there are, which change no product: where values have more or fewer than keys."""
    return rows if rows.shape[-1] == head_dim else torch.nn.functional.pad(rows, (0, head_dim - rows.shape[-1]))
