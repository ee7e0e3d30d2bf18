#!/usr/bin/env python3
"""Scores of NVIDIA kvpress on made-up queries and keys, in one shot, as goldens.

  kvpress_goldens.py WHEEL OUT.json    WHEEL: kvpress-0.5.5-py3-none-any.whl
                                       (pip download kvpress==0.5.5 --no-deps)

Runs the presses' own `score` from the wheel, unchanged: SnapKV, KeyDiff, TOVA, ObservedAttention. Only
these files are imported, for the package as a whole needs much else. kvpress compresses after a prefill
in one piece and differs from the papers when it is fed by blocks, so it serves as a scorer alone.
Needs torch and transformers.
"""
import importlib
import json
import sys
import types
import zipfile
import tempfile

import torch

HEADS, KV_HEADS, DIM, TOKENS = 6, 2, 16, 48
WINDOW, KERNEL = 8, 5


def presses(wheel):
    """The wheel's modules by name, with empty packages in place of the two that import everything."""
    folder = tempfile.mkdtemp()
    zipfile.ZipFile(wheel).extractall(folder)
    for name, path in (("kvpress", "kvpress"), ("kvpress.presses", "kvpress/presses")):
        package = types.ModuleType(name)
        package.__path__ = [f"{folder}/{path}"]
        sys.modules[name] = package
    return lambda name: importlib.import_module(f"kvpress.presses.{name}_press")


def attention_module():
    """What the presses ask of a Llama layer; hidden states are the queries themselves."""
    config = types.SimpleNamespace(num_attention_heads=HEADS, num_key_value_heads=KV_HEADS)
    return types.SimpleNamespace(config=config, head_dim=DIM, q_proj=lambda states: states)


def tensors():
    """Queries [1, H, T, d] and keys [1, G, T, d], in steps of 1/64 so that text holds them exactly."""
    torch.manual_seed(3)
    centre = torch.randn(DIM)
    q = torch.randn(1, HEADS, TOKENS, DIM) * 1.5 + 0.5 * centre
    k = torch.randn(1, KV_HEADS, TOKENS, DIM) + 0.6 * centre
    k[:, :, 0] += 1.5 * centre
    return (q * 64).round() / 64, (k * 64).round() / 64


def causal_attention(q, k):
    keys = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
    logits = q.double() @ keys.double().transpose(2, 3) / DIM**0.5
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return logits.masked_fill(later, float("-inf")).softmax(dim=-1)


def main(wheel, out):
    press, (q, k) = presses(wheel), tensors()
    hidden = q.transpose(1, 2).reshape(1, TOKENS, HEADS * DIM)
    unrotated = torch.ones(1, TOKENS, DIM), torch.zeros(1, TOKENS, DIM)  # cos, sin

    def score(one, attentions=None):
        scores = one.score(attention_module(), hidden, k, k, attentions, {"position_embeddings": unrotated})
        return scores.expand(1, KV_HEADS, TOKENS)[0].double().tolist()

    snapkv = press("snapkv").SnapKVPress(window_size=WINDOW, kernel_size=KERNEL)
    cases = [
        {"spec": f"snapkv:window={WINDOW},kernel={KERNEL},pool=avg", "smallest_budget": WINDOW,
         "scores": score(snapkv)},
        {"spec": "keydiff", "smallest_budget": 1, "scores": score(press("keydiff").KeyDiffPress())},
        {"spec": "tova", "smallest_budget": 1, "scores": score(press("tova").TOVAPress())},
        {"spec": "h2o:recent_ratio=0,normalise=by_age", "smallest_budget": 1,
         "scores": score(press("observed_attention").ObservedAttentionPress(), causal_attention(q, k))},
    ]
    golden = {"made_by": "kvpress 0.5.5, tests/tools/kvpress_goldens.py", "num_q_heads": HEADS,
              "num_kv_heads": KV_HEADS, "head_dim": DIM, "num_tokens": TOKENS,
              "q": q.flatten().tolist(), "k": k.flatten().tolist(), "cases": cases}
    with open(out, "w") as file:
        json.dump(golden, file, separators=(",", ":"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
