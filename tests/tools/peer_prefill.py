"""The peer of the benchmark row capture_vs_peer: a chunked prefill by transformers (SDPA, DynamicCache,
logits_to_keep=1, fp32) with a hook that writes q, k, v, the row log-sum-exp and the column mass of every layer by
h5py, as f16 (lse and mass fp32) like `kvloupe capture`.

    peer_prefill.py --model M.gguf --ids IDS.txt --output T.h5 [--threads N] [--repetitions 3]

Prints a JSON list of milliseconds, one a repetition after a warm-up; loading the model is not part of them.
"""
import argparse
import json
import os
import pathlib
import time

import gguf
import h5py
import torch
from transformers import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from make_goldens import make_model

CHUNK = 128


class Recorder:
    """Wraps the SDPA attention function; `file` is where the arrays of the running prefill go."""

    def __init__(self, config, num_tokens):
        self.config, self.num_tokens = config, num_tokens
        self.file = None
        inner = ALL_ATTENTION_FUNCTIONS["sdpa"]

        def record(module, query, key, value, mask, **kwargs):
            self.store(module, query[0], key[0], value[0], kwargs.get("scaling", module.scaling))
            return inner(module, query, key, value, mask, **kwargs)

        ALL_ATTENTION_FUNCTIONS["sdpa"] = record

    def start(self, path):
        self.file = h5py.File(path, "w")
        c, n = self.config, self.num_tokens
        dim = c.hidden_size // c.num_attention_heads
        for layer in range(c.num_hidden_layers):
            group = self.file.create_group(f"layers/{layer}")
            group.create_dataset("q", (c.num_attention_heads, n, dim), "f2")
            group.create_dataset("k", (c.num_key_value_heads, n, dim), "f2")
            group.create_dataset("v", (c.num_key_value_heads, n, dim), "f2")
            group.create_dataset("lse", (c.num_attention_heads, n), "f4")
            group.create_group("key_mass")

    def finish(self):
        self.file.flush()
        self.file.close()

    def store(self, module, query, key, value, scale):
        new, kv_len = query.shape[1], key.shape[1]
        begin = kv_len - new
        group = self.file[f"layers/{module.layer_idx}"]
        group["q"][:, begin:kv_len] = query.half().numpy()
        group["k"][:, begin:kv_len] = key[:, begin:].half().numpy()
        group["v"][:, begin:kv_len] = value[:, begin:].half().numpy()
        kv_heads = key.shape[0]
        scores = query.reshape(kv_heads, -1, query.shape[-1]) @ key.transpose(1, 2) * scale
        scores = scores.view(query.shape[0], new, kv_len)
        scores.masked_fill_(torch.ones(new, kv_len, dtype=torch.bool).triu_(begin + 1), float("-inf"))
        lse = scores.logsumexp(-1)
        mass = (scores - lse.unsqueeze(-1)).exp_().view(kv_heads, -1, kv_len).sum(1)
        group["lse"][:, begin:kv_len] = lse.numpy()
        group["key_mass"].create_dataset(str(begin), data=mass.numpy())


@torch.inference_mode()
def prefill(model, recorder, ids, path):
    begin = time.perf_counter()
    recorder.start(path)
    cache = DynamicCache()
    for first in range(0, len(ids), CHUNK):
        model(torch.tensor([ids[first:first + CHUNK]]), past_key_values=cache, use_cache=True, logits_to_keep=1)
    recorder.finish()
    return 1000 * (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ids = [int(line) for line in pathlib.Path(args.ids).read_text().split()]
    model = make_model(gguf.GGUFReader(args.model))
    recorder = Recorder(model.config, len(ids))
    times = [prefill(model, recorder, ids, args.output) for _ in range(1 + args.repetitions)]
    os.remove(args.output)
    print(json.dumps(times[1:]))


if __name__ == "__main__":
    main()
