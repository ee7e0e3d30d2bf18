#!/usr/bin/env python3
"""Writes a Hugging Face folder of random llama weights in bf16, two layers to a file, for trials of memory and time.

    python make_random_llama.py FOLDER [--layers 28] [--hidden 3072] [--ffn 8192] [--heads 24] [--kv-heads 8] [--vocab 128256]

The defaults are the shape of Llama 3.2 3B. The tokenizer is that of tests/data/models/llama. Needs numpy.
"""
import argparse
import json
import pathlib
import shutil

import numpy as np


def bf16(random, shape, deviation):
    values = random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def write(path, tensors):
    header, begin = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, begin + tensor.nbytes]}
        begin += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            tensor.tofile(file)


def layer(random, index, args, head_dim):
    stem, hidden = f"model.layers.{index}.", args.hidden
    shapes = {"self_attn.q_proj": (args.heads * head_dim, hidden), "self_attn.k_proj": (args.kv_heads * head_dim, hidden),
              "self_attn.v_proj": (args.kv_heads * head_dim, hidden), "self_attn.o_proj": (hidden, args.heads * head_dim),
              "mlp.gate_proj": (args.ffn, hidden), "mlp.up_proj": (args.ffn, hidden), "mlp.down_proj": (hidden, args.ffn)}
    tensors = {f"{stem}{name}.weight": bf16(random, shape, shape[1] ** -0.5) for name, shape in shapes.items()}
    for name in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{stem}{name}.weight"] = np.full(hidden, 0x3F80, dtype=np.uint16)
    return tensors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    for name, value in (("layers", 28), ("hidden", 3072), ("ffn", 8192), ("heads", 24), ("kv-heads", 8), ("vocab", 128256)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    head_dim = args.hidden // args.heads
    random = np.random.default_rng(1)
    config = dict(model_type="llama", num_hidden_layers=args.layers, hidden_size=args.hidden, intermediate_size=args.ffn,
                  num_attention_heads=args.heads, num_key_value_heads=args.kv_heads, head_dim=head_dim, vocab_size=args.vocab,
                  max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=500000.0, hidden_act="silu", tie_word_embeddings=True)
    (args.folder / "config.json").write_text(json.dumps(config))
    tiny = pathlib.Path(__file__).parents[1] / "data" / "models" / "llama"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny / name, args.folder)
    ends = {"model.embed_tokens.weight": bf16(random, (args.vocab, args.hidden), 0.02),
            "model.norm.weight": np.full(args.hidden, 0x3F80, dtype=np.uint16)}
    places = {}
    for number, first in enumerate(range(-1, args.layers, 2)):
        tensors = ends if first < 0 else {}
        for index in range(max(first, 0), min(first + 2, args.layers)):
            tensors.update(layer(random, index, args, head_dim))
        name = f"model-{number:05}.safetensors"
        write(args.folder / name, tensors)
        places.update(dict.fromkeys(tensors, name))
    (args.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


if __name__ == "__main__":
    main()
