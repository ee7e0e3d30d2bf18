"""One layer of a recording: rows as they are stored, and the sums of its softmax."""
import dataclasses

import numpy as np
import torch

from . import guards
from .layout import PREFILL
from .softmax import sum_rows

STORED = {"float16": torch.float16, "float32": torch.float32}
# Rows wait for the next writing only where they are few.
MOST_WAITING_ROWS = 64


class LayerRecorder:
    """`take` hears a forward; `accept` says that the whole forward went well, before which nothing of it counts."""

    def __init__(self, layer, writer, first_call):
        self.layer = layer
        self._writer = writer
        self._form = guards.softmax_of(first_call, writer.header.model.softmax_scale)
        self._mass_end = 0  # where the next chunk begins in key_mass
        self._open_mass = None  # [kv heads, keys] of the prefill chunk that is open
        self._waiting = []  # (begin, rows) of accepted forwards
        self._last_key = None
        self._heard = None
        sinks = self._form.sinks
        in_file = self._form if sinks is None else dataclasses.replace(self._form, sinks=sinks.detach().float().cpu().numpy())
        writer.begin_layer(layer, in_file)

    def take(self, call, batch_index, pieces):
        store, heads = self._writer.header.store, self._writer.header.heads
        guards.check_same_softmax(self.layer, self._form, guards.softmax_of(call, self._form.scale), call)
        begin, end = pieces[0].begin, pieces[-1].end
        keys, first_key = guards.visible_keys(call, batch_index, end)
        guards.check_same_cache(self.layer, call, keys, first_key, begin, self._last_key)
        kind = STORED[self._writer.header.dtype]
        q = call.query[batch_index].to(kind)
        values = guards.visible_values(call, batch_index, end)[:, begin - first_key :]
        guards.check_heads(self.layer, q, keys, values, heads, self._writer.header.model.head_dim)
        heard = Heard(begin, self._open_mass, self._mass_end, keys[:, -1].clone())
        k = keys.to(kind)
        if "qkv" in store:
            heard.rows.update(q=q.cpu().numpy(), k=k[:, begin - first_key :].cpu().numpy(), v=values.to(kind).cpu().numpy())
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
        self._open_mass, self._mass_end, self._last_key = heard.mass, heard.mass_end, heard.last_key

    def close_chunk(self):
        """The prefill chunk that was open has ended."""
        if self._open_mass is not None:
            self._write_mass(self._mass_end, self._open_mass)
            self._mass_end += self._open_mass.size
            self._open_mass = None

    def drop_mass(self):
        self._open_mass = None

    def write_probe(self, chunk, queries):
        """queries [q heads, probe tokens, D] after a prefill chunk."""
        self._writer.write_probe(self.layer, chunk, queries.to(STORED[self._writer.header.dtype]).cpu().numpy())

    def write(self):
        if not self._waiting:
            return
        rows = {name: np.concatenate([rows[name] for _, rows in self._waiting], axis=1) for name in self._waiting[0][1]}
        self._writer.write_rows(self.layer, self._waiting[0][0], rows)
        self._waiting = []


class Heard:
    """What a forward would change of the layer."""

    def __init__(self, begin, mass, mass_end, last_key):
        self.begin = begin
        self.rows = {}
        self.mass = mass
        self.mass_end = mass_end
        self.last_key = last_key

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
