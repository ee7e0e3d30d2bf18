#!/usr/bin/env python3
"""Writes the tiny models of tests/data/models as GGUF files, tests/data/models/<family>/model.gguf: weights, and of the
byte-level tokenizers those of llama.

    pip install gguf==0.19.0 numpy && python make_tiny_ggufs.py tests/data/models

Names of tensors are those of PyPI's gguf (llama.cpp's own table), keys those of its writer; what llama.cpp's converter does
to weights is done here again: query and key rows permuted for llama and smollm3, norms plus one for gemma3, experts in one
tensor, Llama 3's scaling as a tensor of divisors. GGUF files cannot tell gemma3's scale of the softmax: its share that is
not the head's goes into the norm of queries.
"""
import json
import math
import pathlib
import sys

import gguf
import numpy as np

ARCHITECTURES = {"llama": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3", "qwen3_moe": "QWEN3MOE", "smollm3": "SMOLLM3",
                 "gpt_oss": "GPT_OSS", "olmoe": "OLMOE", "gemma3_text": "GEMMA3"}
PERMUTED = ("llama", "smollm3")
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        raw = np.frombuffer(data[begin:end], dtype={"F32": "<f4", "BF16": "<u2", "U8": "u1"}[entry["dtype"]])
        if entry["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        yield name, raw.reshape(entry["shape"])


def weights_of(folder):
    weights = {}
    for path in sorted(folder.glob("model*.safetensors")):
        weights.update(read_safetensors(path))
    return weights


def permuted(rows, heads):
    """Half-split pairs to neighbouring ones, in every head."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def from_mxfp4(blocks, scales):
    values = np.stack([FP4[blocks & 15], FP4[blocks >> 4]], axis=-1).reshape(*blocks.shape[:-1], 32)
    return (values * np.exp2(scales.astype(np.float32) - 127)[..., None]).reshape(*blocks.shape[:2], -1)


def gpt_oss_experts(weights):
    for name in [name for name in weights if name.endswith("_blocks")]:
        stem = name[:-len("_blocks")]
        weights[stem] = from_mxfp4(weights.pop(name), weights.pop(stem + "_scales"))
    for name in [name for name in weights if ".experts." in name]:
        rows = weights.pop(name)
        bias = name.endswith("_bias")
        stem, end = name.removesuffix("_bias"), ".bias" if bias else ".weight"
        if stem.endswith("gate_up_proj"):
            weights[stem.replace("gate_up_proj", "gate_proj") + end] = rows[:, 0::2]
            weights[stem.replace("gate_up_proj", "up_proj") + end] = rows[:, 1::2]
        else:
            weights[stem + end] = rows


def stacked_experts(weights, count):
    for name in [name for name in weights if ".experts.0." in name]:
        stem = name.replace(".experts.0.", ".experts.{}.")
        weights[name.replace(".experts.0.", ".experts.")] = np.stack([weights.pop(stem.format(e)) for e in range(count)])


def llama3_divisors(config):
    rope, dim = config["rope_scaling"], config["head_dim"]
    old, low, high = (rope[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    divisors = []
    for i in range(0, dim, 2):
        wavelength = 2 * math.pi * config["rope_theta"] ** (i / dim)
        share = min(1.0, max(0.0, (old / wavelength - low) / (high - low)))
        divisors.append(1 / ((1 - share) / rope["factor"] + share))
    return np.array(divisors, dtype=np.float32)


def add_keys(writer, family, config):
    head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    rope = config.get("rope_parameters") or config
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config.get("moe_intermediate_size", config["intermediate_size"]))
    if family in ("gpt_oss", "gemma3_text"):
        writer.add_sliding_window(config["sliding_window"])
    if family == "gpt_oss":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
        writer.add_rope_scaling_orig_ctx_len(config["rope_scaling"]["original_max_position_embeddings"])
    if family == "gemma3_text":
        writer.add_sliding_window_pattern(config["sliding_window_pattern"])


def add_tokenizer(writer, folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    more = json.loads((folder / "tokenizer_config.json").read_text())
    ids = dict(tokenizer["model"]["vocab"])
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = sorted({**ids, **special}.items(), key=lambda entry: entry[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list([token for token, _ in tokens])
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token, _ in tokens])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(special[more["bos_token"]])
    writer.add_eos_token_id(special[more["eos_token"]])
    writer.add_add_bos_token(False)
    writer.add_chat_template(more["chat_template"])


def write(folder):
    family, config = folder.name, json.loads((folder / "config.json").read_text())
    arch = gguf.MODEL_ARCH[ARCHITECTURES[family]]
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    writer = gguf.GGUFWriter(folder / "model.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_keys(writer, family, config)
    if family == "llama":
        add_tokenizer(writer, folder)
    weights = weights_of(folder)
    if family == "gpt_oss":
        gpt_oss_experts(weights)
    elif any(".experts.0." in name for name in weights):
        stacked_experts(weights, config.get("num_local_experts") or config["num_experts"])
    for name, tensor in weights.items():
        if family in PERMUTED and (".q_proj." in name or ".k_proj." in name):
            heads = config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
            tensor = permuted(tensor, heads)
        if family == "gemma3_text" and name.endswith("norm.weight"):
            tensor = tensor + 1
            if "q_norm" in name:
                tensor = tensor * math.sqrt(config["head_dim"] / config["query_pre_attn_scalar"])
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if stored and not stored.endswith((".weight", ".bias")):
            stored += ".weight"
        writer.add_tensor(stored, np.ascontiguousarray(tensor, dtype=np.float32))
    if family == "llama":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        if folder.name in ARCHITECTURES:
            write(folder)


if __name__ == "__main__":
    main()
