"""Block methods that take a file: SeerAttention's gate and MInference's patterns.

In a SPEC of the goldens `@` stands for the folder of the trace.
"""
import json
import os
import struct

import h5py
import numpy as np

import blocks
from ranking import TIE, Choice, choose

DEFAULTS = {
    "seer_attention": {"block_size": 64, "threshold": 0.0003, "gate": "", **blocks.LOWERING},
    "minference": {"config": "", **blocks.LOWERING},
}

SPECS = [
    "seer_attention:lowering=union,block_size=8,threshold=0.1,gate=@gate.safetensors",
    "seer_attention:lowering=union,block_size=5,threshold=0.03,gate=@gate.safetensors",
    "compact_attention:selector=seer_attention,block_size=4,threshold=0.05,gate=@gate.safetensors",
    "seer_attention:budget_tokens=30,block_size=8,gate=@gate.safetensors,lowering=budget",
    "seer_attention:gate=@gate.safetensors,block_size=8", "minference:config=@patterns.json",
    "minference:lowering=union,config=@patterns.json",
    "minference:budget_tokens=70,config=@patterns.json,lowering=budget",
]


def file_of(tr, name):
    """Of the goldens, one file for each trace: group3_f16_gate.safetensors."""
    return f"{os.path.splitext(tr.path)[0]}_{name[1:]}" if name.startswith("@") else name


def weights(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    return {name: np.frombuffer(data[slice(*e["data_offsets"])], "<f4").reshape(e["shape"]).astype(np.float64)
            for name, e in header.items() if name != "__metadata__"}


def write_files(tr, seed):
    """A gate of random weights and a list of patterns for a trace of the goldens."""
    rng, tensors, hidden = np.random.default_rng(seed), {}, 12
    for layer in tr.layers:
        at = f"model.layers.{layer}.self_attn.attn_gate.mask_linear_"
        tensors[at + "k.weight"] = rng.normal(size=(tr.G, 3 * tr.d, hidden)) * 0.4
        tensors[at + "q.weight"] = rng.normal(size=(tr.H, tr.d, hidden)) * 0.4
    header, data = {}, b""
    for name, values in tensors.items():
        begin = len(data)
        data += values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    with open(file_of(tr, "@gate.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    kinds = [["vertical_and_slash", 31, 10, 1], ["stream_llm", 3, 17, 1], ["block_sparse", 1, 1, 1]]
    with open(file_of(tr, "@patterns.json"), "w") as f:
        json.dump([{str(h): kinds[(h + l) % 3] for h in range(tr.H)} for l in range(tr.num_layers)], f)


def turned(rows, positions, theta):
    """Half-split pairs turned on by the positions."""
    half = rows.shape[-1] // 2
    pairs = rows[..., :half] + 1j * rows[..., half:]
    angles = np.asarray(positions)[:, None] * theta ** (-np.arange(half) / half)
    pairs = pairs * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], axis=-1)


def before_rotary(tr, rows, positions):
    with h5py.File(tr.path, "r") as f:
        m = f["model"].attrs
        theta, pairing = float(m["rope_theta"]), m["rope_pairing"]
    if pairing == "interleaved":
        rows = np.concatenate([rows[..., 0::2], rows[..., 1::2]], axis=-1)
    return turned(rows, -np.asarray(positions), theta), theta


def seer_attention(tr, layer, begin, length, v):
    b, total = v["block_size"], begin + length
    mask = blocks.Mask(tr, begin, length, b)
    w = weights(file_of(tr, v["gate"]))
    at = f"model.layers.{layer}.self_attn.attn_gate.mask_linear_"
    first = np.arange(mask.keep.shape[2]) * b
    for h in range(tr.H):
        keys, theta = before_rotary(tr, tr.k[layer][h // tr.R, :total], np.arange(total))
        pooled = [keys[j:j + b] for j in first]
        pooled = np.array([np.concatenate([x.max(0), x.min(0), x.mean(0)]) for x in pooled])
        y = turned(pooled @ w[at + "k.weight"][tr.first_kv_head + h // tr.R], first, theta)
        for i, own in enumerate(mask.query_blocks):
            rows = blocks.rows_of_block(begin, length, own, b)
            q = before_rotary(tr, tr.q[layer][h, rows], rows)[0].mean(axis=0)
            x = turned((q @ w[at + "q.weight"][tr.first_head + h])[None], [own * b], theta)[0]
            z = y[:own + 1] @ x / np.sqrt(len(x))
            e = np.exp(z - z.max())
            s = mask.score[h, i, :own + 1] = e / e.sum()
            mask.keep[h, i, :own + 1] = s > v["threshold"]
            mask.near[h, i, :own + 1] = np.abs(s - v["threshold"]) <= TIE * v["threshold"]
    return mask


def spec_with_files(tr, spec):
    """The SPEC as the program takes it."""
    for name in ("@gate.safetensors", "@patterns.json"):
        spec = spec.replace(name, file_of(tr, name))
    return spec


def best(values, count, by_rule):
    """0, 1, or 2 (by rule) for each, and which of them hang on a hair."""
    choice = choose(values, list(range(len(values))), count, range(min(by_rule, len(values))))
    marks = np.zeros(len(values), dtype=int)
    marks[choice.positions] = [2 if i < by_rule else 1 for i in choice.positions]
    near = np.zeros(len(values), dtype=bool)
    near[list(choice.near)] = True
    return marks, near


def pairs_of_lines(tr, layer, begin, length, pattern, h, p):
    """keep and near, [m, T]: what row i computes, by column and by distance."""
    total, count = begin + length, p.shape[1]
    kind, vertical, slash, _ = pattern
    sums = np.zeros(total)
    for r in range(count):
        position = total - count + r
        sums[:position + 1] += p[h, r, position::-1]
    if kind == "stream_llm":
        columns, distances = best(np.zeros(total), vertical, vertical), best(np.zeros(total), slash, slash)
    else:
        columns = best(p[h].sum(axis=0), max(vertical, 30), 30)
        distances = best(sums, max(slash, 50), 100)
    rows, keys = np.arange(begin, total)[:, None], np.arange(total)[None, :]
    seen = keys <= rows
    pick = lambda of: np.where(seen, np.maximum(of(columns)[keys], of(distances)[np.where(seen, rows - keys, 0)]), 0)
    return pick(lambda x: x[0]), pick(lambda x: x[1]).astype(bool)


def pairs_of_blocks(tr, layer, begin, length, h):
    total = begin + length
    keep, near = np.zeros((length, total), dtype=int), np.zeros((length, total), dtype=bool)
    means = blocks.block_means(tr.k[layer][h // tr.R, :total], 64)
    for own in blocks.query_blocks(begin, length, 64):
        rows = blocks.rows_of_block(begin, length, own, 64)
        dots = means[:own + 1] @ tr.q[layer][h, rows].mean(axis=0)
        choice = choose(dots, list(range(own + 1)), 100, relative_to_spread=True)
        for blocks_of, out in ((choice.positions, keep), (choice.near, near)):
            for j in blocks_of:
                out[np.ix_(rows - begin, np.arange(j * 64, min(total, j * 64 + 64)))] = 1
    return keep, near


def minference(tr, layer, begin, length, v, n):
    """Rows per KV head: the keys that any row of the chunk computes in any head of the group."""
    with open(file_of(tr, v["config"])) as f:
        config = json.load(f)
    count = min(v.get("observed", 64), length)
    p = tr.probabilities(layer, begin, length, rows=np.arange(length - count, length))
    mask = blocks.Mask(tr, begin, length, 64)
    keep, near = np.zeros((tr.H, begin), dtype=int), np.zeros((tr.H, begin), dtype=bool)
    for h in range(tr.H):
        pattern = (config[layer] if layer < len(config) else {}).get(str(tr.first_head + h), ["vertical_and_slash", 1000, 6096, 1])
        kept, close = (pairs_of_blocks(tr, layer, begin, length, h) if pattern[0] == "block_sparse" else
                       pairs_of_lines(tr, layer, begin, length, pattern, h, p))
        keep[h], near[h] = kept[:, :begin].max(axis=0), close[:, :begin].any(axis=0)
        for i, own in enumerate(mask.query_blocks):
            rows = blocks.rows_of_block(begin, length, own, 64) - begin
            for j in range(own + 1):
                mask.keep[h, i, j] = kept[rows, j * 64:j * 64 + 64].max()
                mask.score[h, i, j] = p[h, :, j * 64:j * 64 + 64].sum() / count
    if v["lowering"] == "budget":
        return [blocks.by_budget(mask, h, tr.R, n) for h in range(0, tr.H, tr.R)]
    if v["lowering"] == "native":
        return [blocks.by_union(mask, h, 1, n) for h in range(tr.H)]
    keep[:, mask.past_blocks * 64:] = 2  # the straddling block
    out = []
    for h in range(0, tr.H, tr.R):
        union = keep[h:h + tr.R].max(axis=0)
        out.append(Choice(np.flatnonzero(union), np.flatnonzero(near[h:h + tr.R].any(axis=0)),
                          int((union == 2).sum())))
        out[-1].mask, out[-1].heads = mask, range(h, h + tr.R)
    return out


blocks.DEFAULTS.update(DEFAULTS)
blocks.DEFAULTS["compact_attention"].update(threshold=0.0005, gate="")
blocks.MASKS["seer_attention"] = seer_attention
blocks.SELECT["minference"] = minference
