#!/usr/bin/env python3
"""diff_of_runs_test.py PROGRAM TRACE: `kvloupe diff` of two recorded runs against a plain numpy comparison of what the
file says that they kept, and of the attention that its queries and keys make."""
import json
import subprocess
import sys

import h5py
import numpy as np


def masses(trace, layer, begin, length, group):
    """M of each KV head over the past keys, from a plain causal softmax: [kv_heads, begin]."""
    q = trace[f"layers/{layer}/q"][:, begin:begin + length].astype(np.float64)
    k = trace[f"layers/{layer}/k"][:, :begin + length].astype(np.float64)
    logits = float(trace["model"].attrs["softmax_scale"]) * q @ np.repeat(k, group, axis=0).transpose(0, 2, 1)
    hidden = np.arange(begin + length)[None, :] > np.arange(begin, begin + length)[:, None]
    logits[:, hidden] = -np.inf
    p = np.exp(logits - logits.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    return p.sum(axis=1).reshape(k.shape[0], group, -1).sum(axis=1)[:, :begin]


def kept(trace, run, layer, cell, begin):
    data = trace[f"runs/{run}/layers/{layer}"]
    if data["flags"][:].reshape(-1)[cell] != 0:
        return np.arange(begin)
    offsets = data["offsets"][:]
    return data["positions"][offsets[cell]:offsets[cell + 1]]


def main():
    program, path = sys.argv[1:]
    answer = json.loads(subprocess.run([program, "diff", path, "--method", "run:0", "--method", "run:1", "--json"], check=True,
                                       capture_output=True, text=True).stdout)
    rows = iter(answer["rows"])
    first = None
    with h5py.File(path) as trace:
        heads = int(trace["model"].attrs["num_kv_heads"])
        group = int(trace["model"].attrs["num_q_heads"]) // heads
        assert answer["aligned_tokens"] == len(trace["tokens/ids"])
        for layer in sorted(map(int, trace["runs/0/layers"])):
            for chunk, (begin, length) in enumerate(zip(trace["chunks/begin"][:], trace["chunks/length"][:])):
                mass = masses(trace, layer, begin, length, group)
                for head in range(heads):
                    a, b = (kept(trace, run, layer, chunk * heads + head, begin) for run in (0, 1))
                    either = len(np.union1d(a, b))
                    row = next(rows)
                    where = (layer, chunk, head)
                    assert (row["layer"], row["chunk"], row["kv_head"]) == where, (row, where)
                    assert row["jaccard"] == (len(np.intersect1d(a, b)) / either if either else 1), (row, where)
                    assert row["only_a"] == len(np.setdiff1d(a, b)) and row["only_b"] == len(np.setdiff1d(b, a)), (row, where)
                    for name, keys in (("mass_a", a), ("mass_b", b)):
                        share = mass[head, keys].sum() / mass[head].sum() if begin else 1
                        assert abs(row[name] - share) < 1e-4, (row, where, share)
                    if row["jaccard"] < 1 and (first is None or (chunk, layer, head) < first):
                        first = (chunk, layer, head)
    assert next(rows, None) is None
    assert first is not None, "the two runs should differ"
    said = answer["first_divergence"]
    assert (said["chunk"], said["layer"], said["kv_head"]) == first, (said, first)
    print(f"{len(answer['rows'])} rows are as numpy has them")


main()
