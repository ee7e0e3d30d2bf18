"""Traces: read with h5py as fp64, and written with made-up values."""
import copy
import math

import h5py
import numpy as np


class Trace:
    first_head = first_kv_head = 0  # where this is one head of a model: which

    def __init__(self, path):
        self.path = path
        with h5py.File(path, "r") as f:
            m = f["model"].attrs
            self.H, self.G, self.d = int(m["num_q_heads"]), int(m["num_kv_heads"]), int(m["head_dim"])
            self.R = self.H // self.G
            self.num_layers = int(m["num_layers"])
            self.scale = float(m["softmax_scale"])
            self.chunks = [(int(b), int(n), int(p)) for b, n, p in zip(
                f["chunks/begin"][:], f["chunks/length"][:], f["chunks/phase"][:])]
            self.layers = sorted(int(l) for l in f["layers"])
            self.q = {l: f[f"layers/{l}/q"][:].astype(np.float64) for l in self.layers}
            self.k = {l: f[f"layers/{l}/k"][:].astype(np.float64) for l in self.layers}
            # For infinipot; not every trace has them.
            self.novelty = f["tokens/nll"][:].astype(np.float64) if "tokens/nll" in f else None
            self.probe = {l: f[f"layers/{l}/probe_q"][:].astype(np.float64) for l in self.layers
                          if f"layers/{l}/probe_q" in f}
            self.v = {l: f[f"layers/{l}/v"][:].astype(np.float64) for l in self.layers}

    def alone(self, h):
        """The same trace of a model that has query head h and its KV head only."""
        one, g = copy.copy(self), h // self.R
        one.H = one.G = one.R = 1
        one.first_head, one.first_kv_head = self.first_head + h, self.first_kv_head + g
        one.q = {l: x[h:h + 1] for l, x in self.q.items()}
        one.k = {l: x[g:g + 1] for l, x in self.k.items()}
        one.v = {l: x[g:g + 1] for l, x in self.v.items()}
        one.probe = {l: x[:, h:h + 1] for l, x in self.probe.items()}
        return one

    def probabilities(self, layer, begin, length, keys=None, rows=None):
        """p [H, rows, len(keys)] over the given keys, causal; keys default to all of [0, T)."""
        total = begin + length
        keys = np.arange(total) if keys is None else keys
        rows = np.arange(length) if rows is None else rows
        out = np.zeros((self.H, len(rows), total if keys is None else self._len(keys)))
        for h in range(self.H):
            own = keys[h // self.R] if isinstance(keys, list) else keys
            z = self.scale * self.q[layer][h, begin + rows] @ self.k[layer][h // self.R, own].T
            z[own[None, :] > (begin + rows)[:, None]] = -np.inf
            z -= z.max(axis=1, keepdims=True)
            e = np.exp(z)
            out[h, :, :len(own)] = e / e.sum(axis=1, keepdims=True)
        return out

    @staticmethod
    def _len(keys):
        return max(len(k) for k in keys) if isinstance(keys, list) else len(keys)


def write_probe(f, seed, H, d, chunks, layers, dtype):
    """Five probe queries after each prefill chunk, and the novelty of every token."""
    rng = np.random.default_rng(seed + 1000)
    nll = rng.exponential(2.0, size=chunks[-1][0] + chunks[-1][1])
    nll[0] = np.inf
    f["tokens/nll"] = nll.astype(np.float32)
    f.create_group("probe").attrs.update(dict(text="What matters?", num_tokens=5))
    for layer in layers:
        probe = rng.normal(size=(sum(c[2] == 0 for c in chunks), H, 5, d)) * 1.5
        f[f"layers/{layer}/probe_q"] = probe.astype(dtype)


def write_trace(path, seed, H, G, d, lengths, decode, layers, num_layers, dtype):
    rng = np.random.default_rng(seed)
    chunks = [(sum(lengths[:i]), n, 0) for i, n in enumerate(lengths)]
    chunks += [(sum(lengths) + i, 1, 1) for i in range(decode)]
    T = sum(lengths) + decode
    vlen = h5py.string_dtype()
    with h5py.File(path, "w") as f:
        f.attrs.update(dict(format="kvloupe-trace", schema_version="1.1", producer="selection_oracle",
                            created="2026-01-01T00:00:00Z", complete=1, chunks_done=len(chunks),
                            mode="open_loop"))
        m = f.create_group("model")
        m.attrs.update(dict(name="synthetic", architecture="llama", num_layers=num_layers, num_q_heads=H,
                            num_kv_heads=G, head_dim=d, hidden_size=H * d, softmax_scale=1 / math.sqrt(d),
                            rope_theta=10000.0, rope_pairing="half_split", rope_scaling="none",
                            file_hash="0" * 64))
        m.attrs.create("layer_types", ["full"] * num_layers, dtype=vlen)
        f["tokens/ids"] = np.arange(T, dtype=np.int32)
        f["tokens/text"] = np.frombuffer(b"ab" * T, dtype=np.uint8)
        f["tokens/text_offsets"] = np.arange(T + 1, dtype=np.uint64) * 2
        f["tokens/generated"] = np.arange(decode, dtype=np.int32)
        spans = np.array([("needle", 9, 13)], dtype=[("name", vlen), ("begin", "i4"), ("end", "i4")])
        f["tokens/spans"] = spans
        f["chunks/begin"] = np.array([c[0] for c in chunks], dtype=np.int32)
        f["chunks/length"] = np.array([c[1] for c in chunks], dtype=np.int32)
        f["chunks/phase"] = np.array([c[2] for c in chunks], dtype=np.uint8)
        for layer in layers:
            centre = rng.normal(size=d)
            k = rng.normal(size=(G, T, d)) + 0.7 * centre
            q = rng.normal(size=(H, T, d)) * 1.5 + 0.5 * centre
            k[:, 0] += 2 * centre
            q[:, T // 2:T // 2 + 6] += 1.5 * k[0, 9]
            for name, x in (("q", q), ("k", k), ("v", rng.normal(size=(G, T, d)))):
                f[f"layers/{layer}/{name}"] = x.astype(dtype)
        write_probe(f, seed, H, d, chunks, layers, dtype)
