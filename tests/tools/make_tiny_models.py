#!/usr/bin/env python3
"""Writes a tiny random model of every family, with what transformers computes of it, to tests/data/models/<family>/.

    PYTHONPATH="$(cmake/deps.sh folder python)" python3.11 tests/tools/make_tiny_models.py tests/data/models [FAMILY...]

A folder is what Hugging Face calls a model: config.json, generation_config.json, model.safetensors (olmoe: two shards and
an index) and a byte-level tokenizer with a chat template; all but llama's know the printable ASCII characters alone, each
a token. Beside it golden.safetensors, all of it by eager attention in fp32:
    input_ids [T]           the prompt, longer than every window
    logits [T, vocab]       of the whole prompt in one pass
    chunked_logits [T, vocab]   of the prompt in chunks of 16
    decode_ids [3]          decode_ids[0] is the most probable token after the prompt, the next ones follow greedily
    decode_logits [3, vocab]    after feeding decode_ids[i]
    layers.{l}.q [q_heads, T, head_dim], layers.{l}.k and .v [kv_heads, T, head_dim]
                            after QK-norm and RoPE, as they enter the dot product of the one pass
    layers.{l}.attention [T, q_heads * head_dim]    the attention's output before o_proj
Everything follows from the seed and the versions that requirements.txt pins (cmake/deps.sh fetch python).
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NUM_TOKENS, CHUNK, STEPS = 34, 16, 3
VOCAB = 100
COMMON = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0,
              attn_implementation="eager", tie_word_embeddings=False)


def plain_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


# --- the families ----------------------------------------------------------------------------------------------------
# Each gives its configuration, and what to change in config.json so that it reads as published folders do: most were
# written by transformers 4 (rope_theta, rope_scaling), those without changes have the form of transformers 5.

def as_version_4(config, **more):
    """rope_parameters taken apart into the keys of transformers 4."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config.update(more)


def llama():
    # Bases and lengths are such that the scaling leaves one frequency, blends one and divides the others.
    rope = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=40)
    return transformers.LlamaConfig(**{
        **COMMON, "vocab_size": 272, "bos_token_id": 270, "eos_token_id": 271, "pad_token_id": None, "head_dim": 8,
        "rope_parameters": rope}), as_version_4


def mistral():
    config = transformers.MistralConfig(**COMMON, head_dim=8, sliding_window=12, rope_parameters=plain_rope(10000.0))
    return config, as_version_4


def qwen2():
    config = transformers.Qwen2Config(**COMMON, use_sliding_window=False, rope_parameters=plain_rope(1000000.0))

    def publish(saved):
        saved.pop("layer_types", None)
        # The window that published folders name and do not use.
        as_version_4(saved, use_sliding_window=False, sliding_window=8, max_window_layers=2)
    return config, publish


def qwen3():
    return transformers.Qwen3Config(**COMMON, head_dim=16, rope_parameters=plain_rope(1000000.0)), None


def qwen3_moe():
    config = transformers.Qwen3MoeConfig(**COMMON, head_dim=8, num_experts=4, num_experts_per_tok=2,
                                         moe_intermediate_size=16, norm_topk_prob=True, decoder_sparse_step=1,
                                         mlp_only_layers=[], rope_parameters=plain_rope(1000000.0))

    def publish(saved):
        saved.pop("num_local_experts", None)
        as_version_4(saved, num_experts=4)
    return config, publish


def smollm3():
    settings = {**COMMON, "num_hidden_layers": 4, "tie_word_embeddings": True}
    config = transformers.SmolLM3Config(**settings, no_rope_layers=[1, 1, 1, 0], no_rope_layer_interval=4,
                                        use_sliding_window=False, rope_parameters=plain_rope(5000000.0))
    return config, as_version_4


def gpt_oss():
    # Rows of the experts' matrices are one and two blocks of MXFP4 long.
    settings = {**COMMON, "intermediate_size": 64, "num_hidden_layers": 4}
    rope = dict(rope_type="yarn", rope_theta=150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=16)
    config = transformers.GptOssConfig(**settings, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                                       sliding_window=12, attention_bias=True, rope_parameters=rope)

    def publish(saved):
        as_version_4(saved, quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=[
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]))
    return config, publish


def olmoe():
    settings = {**COMMON, "intermediate_size": 16, "num_key_value_heads": 4}
    return transformers.OlmoeConfig(**settings, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
                                    rope_parameters=plain_rope(10000.0)), None


def gemma3_text():
    settings = {**COMMON, "num_hidden_layers": 4, "num_key_value_heads": 1, "tie_word_embeddings": True}
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    rope = {"sliding_attention": plain_rope(10000.0), "full_attention": plain_rope(1000000.0)}
    config = transformers.Gemma3TextConfig(**settings, head_dim=16, sliding_window=12, layer_types=kinds,
                                           query_pre_attn_scalar=20, rope_parameters=rope)

    def publish(saved):
        for key in ("layer_types", "rope_parameters", "_sliding_window_pattern"):
            saved.pop(key)
        saved.update(rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None, sliding_window_pattern=3)
    return config, publish


FAMILIES = [llama, mistral, qwen2, qwen3, qwen3_moe, smollm3, gpt_oss, olmoe, gemma3_text]


# --- weights ---------------------------------------------------------------------------------------------------------

def randomise(model, generator):
    """Values of a size at which every part matters: attention looks at few keys, no norm is 1, no bias 0."""
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        # Gemma's norms multiply by 1 + weight.
        around = 0.0 if model.config.model_type.startswith("gemma") else 1.0
        if "norm" in name:
            value = around + 0.3 * noise
        elif parameter.dim() == 1:
            value = (1.0 if name.endswith("sinks") else 0.3) * noise
        elif "embed_tokens" in name:
            value = noise if model.config.model_type != "gemma3_text" else 0.3 * noise
        elif name.endswith("bias"):
            value = 0.3 * noise
        else:
            # Fused experts of gpt_oss are stored [experts, in, out], everything else [.., out, in].
            fan_in = parameter.shape[1 if model.config.model_type == "gpt_oss" and parameter.dim() == 3 else -1]
            gain = 2.0 if any(part in name for part in ("q_proj", "k_proj", "router", "mlp.gate.")) else 1.0
            value = gain * noise / fan_in**0.5
        parameter.data.copy_(value)


FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def random_mxfp4(experts, rows, columns, generator):
    """Blocks of 32 values of 4 bits with a power of two each: (blocks, scales, values [experts, rows, columns])."""
    codes = torch.randint(0, 16, (experts, rows, columns // 32, 32), generator=generator, dtype=torch.uint8)
    scales = torch.randint(122, 125, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
    blocks = codes[..., 0::2] | (codes[..., 1::2] << 4)
    values = torch.ldexp(FP4[codes.long()], scales.int().sub(127).unsqueeze(-1))
    return blocks, scales, values.reshape(experts, rows, columns)


def quantise_experts(model, generator):
    """Gives the experts values that MXFP4 holds exactly, and returns their tensors by the names of published files."""
    packed = {}
    for index, layer in enumerate(model.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            parameter = getattr(layer.mlp.experts, name)
            experts, columns, rows = parameter.shape
            blocks, scales, values = random_mxfp4(experts, rows, columns, generator)
            parameter.data.copy_(values.transpose(1, 2))
            packed[f"model.layers.{index}.mlp.experts.{name}_blocks"] = blocks
            packed[f"model.layers.{index}.mlp.experts.{name}_scales"] = scales
    return packed


# --- goldens ---------------------------------------------------------------------------------------------------------

class Tap:
    """An attention interface of transformers that keeps what passes through it, by layer."""

    def __init__(self, model):
        self.eager = sys.modules[type(model).__module__].eager_attention_forward
        self.layers = {}

    def __call__(self, module, query, key, value, mask, **more):
        output, weights = self.eager(module, query, key, value, mask, **more)
        self.layers[module.layer_idx] = (query[0], key[0], value[0], output[0].flatten(1))
        return output, weights


def goldens(model, generator):
    tap = Tap(model)
    ALL_ATTENTION_FUNCTIONS.register("eager", tap)
    ids = torch.randint(3, model.config.vocab_size, (1, NUM_TOKENS), generator=generator)
    golden = {"input_ids": ids[0].int(), "logits": model(ids).logits[0]}
    for layer, tensors in tap.layers.items():
        for name, tensor in zip(("q", "k", "v", "attention"), tensors):
            golden[f"layers.{layer}.{name}"] = tensor
    assert len(tap.layers) == model.config.num_hidden_layers

    cache = transformers.DynamicCache(config=model.config)
    chunks = [model(ids[:, at : at + CHUNK], past_key_values=cache).logits[0] for at in range(0, NUM_TOKENS, CHUNK)]
    golden["chunked_logits"] = torch.cat(chunks)
    last, fed, after = chunks[-1][-1], [], []
    for _ in range(STEPS):
        best = last.topk(2).values
        assert best[0] - best[1] > 1e-3, "the greedy token must not hang on rounding"
        fed.append(last.argmax().reshape(1, 1))
        last = model(fed[-1], past_key_values=cache).logits[0, -1]
        after.append(last)
    golden["decode_ids"] = torch.cat(fed)[:, 0].int()
    golden["decode_logits"] = torch.stack(after)
    drift = (golden["chunked_logits"] - golden["logits"]).abs().max() / golden["logits"].abs().max()
    assert drift < 1e-5, f"chunks change the logits by {drift}"
    return {name: tensor.detach().clone().contiguous() for name, tensor in golden.items()}


# --- folders ---------------------------------------------------------------------------------------------------------

# The pre-tokenizer of Llama 3.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def write_tokenizer(folder, config):
    special = {config.bos_token_id: "<|begin_of_text|>", config.eos_token_id: "<|end_of_text|>"}
    if config.pad_token_id is not None:
        special[config.pad_token_id] = "<|pad|>"
    first = [special[id] for id in sorted(special) if id < 3]
    last = [special[id] for id in sorted(special) if id >= 3]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if first:
        letters = "".join(map(chr, range(33, 127)))
        alphabet = [*letters, "\u0120", "\u010a", "\u0109"]  # Blank, line feed and tab as byte-level BPE writes them.
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS), "isolated"), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    text = [] if first else ["the cat and the dog sat on the mat in the rain, and then they ran to the house"]
    trainer = trainers.BpeTrainer(vocab_size=config.vocab_size - len(last), initial_alphabet=alphabet,
                                  special_tokens=first, show_progress=False)
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.add_special_tokens(last)
    assert tokenizer.get_vocab_size() == config.vocab_size
    assert all(tokenizer.token_to_id(word) == id for id, word in special.items())
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=special[config.bos_token_id], eos_token=special[config.eos_token_id],
        pad_token=special.get(config.pad_token_id), clean_up_tokenization_spaces=False).save_pretrained(folder)
    # As published folders have it: the template here, and the class that both versions of transformers know.
    path = folder / "tokenizer_config.json"
    settings = {**json.loads(path.read_text()), "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
    settings.pop("backend", None)
    path.write_text(json.dumps(settings, indent=2) + "\n")


def write_weights(model, folder, packed):
    """save_pretrained, and for gpt_oss what published folders have: bf16, with experts in MXFP4."""
    shard = "100KB" if model.config.model_type == "olmoe" else "1GB"
    model.save_pretrained(folder, max_shard_size=shard)
    if packed:
        path = folder / "model.safetensors"
        tensors = {name: tensor.bfloat16() for name, tensor in load_file(path).items()}
        for name in packed:
            tensors.pop(name.removesuffix("_blocks").removesuffix("_scales"), None)
        save_file({**tensors, **packed}, path, metadata={"format": "pt"})


def write_family(family, root, number):
    name = family.__name__
    config, publish = family()
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(1200 + number)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    randomise(model, generator)
    packed = {}
    if name == "gpt_oss":
        for parameter in model.parameters():
            parameter.data.copy_(parameter.data.bfloat16())
        packed = quantise_experts(model, generator)
    write_weights(model, folder, packed)

    path = folder / "config.json"
    saved = json.loads(path.read_text())
    if publish:
        publish(saved)
    if packed:
        saved["dtype"] = "bfloat16"
    if "rope_theta" in saved:
        saved["torch_dtype"] = saved.pop("dtype")  # The same key's name in transformers 4.
    path.write_text(json.dumps(saved, indent=2) + "\n")

    write_tokenizer(folder, config)
    golden = goldens(model, generator)
    save_file(golden, folder / "golden.safetensors")
    for path in folder.iterdir():
        path.chmod(0o644)
    check_reload(folder, golden)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1024:.0f} KiB, logits up to {golden['logits'].abs().max():.1f}")


def check_reload(folder, golden):
    """The folder as a user loads it gives the goldens: nothing was lost in its old-fashioned keys."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    logits = model.float()(golden["input_ids"].long()[None]).logits[0]
    assert torch.equal(logits, golden["logits"]), f"{folder}: {(logits - golden['logits']).abs().max()}"


def main(root, names):
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for number, family in enumerate(FAMILIES):
        if not names or family.__name__ in names:
            write_family(family, pathlib.Path(root), number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
