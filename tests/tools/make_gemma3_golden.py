#!/usr/bin/env python3
"""Writes tests/data/capture/gemma3_270m.json: what transformers computes of the GGUF file of Gemma 3 270M, in fp32.

    python make_gemma3_golden.py gemma-3-270m-q4_k_m.gguf tests/data/capture/gemma3_270m.json

transformers dequantises the file itself. Token ids are given (its tokenizer of this file is wrong): the six of "The capital
of France is", and 700 that begin so and go on by a rule, so that they reach beyond the windows of 512. By prompt: ids, the
most probable next tokens with their logits, and the sums of |q|, |k| and |v| of each layer as they enter attention.
"""
import json
import pathlib
import sys

import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

CAPITAL = [2, 818, 5279, 529, 7001, 563]


def main():
    path = pathlib.Path(sys.argv[1])
    sums = []
    eager = transformers.models.gemma3.modeling_gemma3.eager_attention_forward

    def watch(module, query, key, value, *args, **more):
        sums.append([float(t.double().abs().sum()) for t in (query, key, value)])
        return eager(module, query, key, value, *args, **more)

    ALL_ATTENTION_FUNCTIONS.register("watched", watch)
    transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(
        "watched", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32, attn_implementation="watched").eval()
    prompts = [CAPITAL, CAPITAL + [1000 + i * i * 7 % 20011 for i in range(694)]]
    answers = []
    for ids in prompts:
        sums.clear()
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        top = torch.topk(logits, 20)
        answers.append({"ids": ids, "top": top.indices.tolist(), "logits": [round(v, 5) for v in top.values.tolist()],
                        "sums": [[round(v, 3) for v in layer] for layer in sums]})
    pathlib.Path(sys.argv[2]).write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
