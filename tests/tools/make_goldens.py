#!/usr/bin/env python3
"""Makes the goldens of tests/capture from independent tools, or checks a whole trace against them.

    python3 -m venv VENV && VENV/bin/pip install torch==2.11.0 transformers==4.57.1 tokenizers==0.22.2 \
        gguf==0.19.0 h5py==3.16.0 jinja2 numpy
    VENV/bin/python tests/tools/make_goldens.py MODEL.gguf                 writes tests/data/capture/
    VENV/bin/python tests/tools/make_goldens.py MODEL.gguf --trace T.h5    compares every position of T.h5

MODEL.gguf is the bundled SmolLM2-135M-Instruct.Q4_1.gguf. Weights are dequantised by PyPI `gguf`, the model is
transformers' LlamaForCausalLM in fp32, the tokenizer is PyPI `tokenizers` built from the file's metadata, the chat
template is the file's own, rendered by Jinja.

Files of this architecture hold query and key rows permuted for interleaved rotation, transformers rotates halves: rows
are brought to its order, and its q and k back to the file's before they are written or compared.
"""
import argparse
import json
import pathlib
import random

import gguf
import jinja2
import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/capture"
CHUNK = 128
NEW_TOKENS = 32
NUM_LOGITS = 64  # the largest, and as many others


def metadata(reader, key):
    return reader.fields[key].contents()


def make_tokenizer(reader):
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in metadata(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    return tokenizer


def add_special_tokens(tokenizer, reader):
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    types = metadata(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, types) if kind == 3])


def interleave(x):
    """[..., head_dim] from the order of rotated halves to that of interleaved pairs."""
    half = x.shape[-1] // 2
    return torch.stack((x[..., :half], x[..., half:]), dim=-1).flatten(-2)


def make_model(reader):
    def number(key):
        return metadata(reader, "llama." + key)

    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    config = LlamaConfig(
        vocab_size=len(metadata(reader, "tokenizer.ggml.tokens")), hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"), num_hidden_layers=number("block_count"),
        num_attention_heads=heads, num_key_value_heads=kv_heads, rms_norm_eps=1e-5,
        max_position_embeddings=number("context_length"), rope_theta=number("rope.freq_base"),
        tie_word_embeddings=True, attn_implementation="sdpa")
    weights = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32))
               for t in reader.tensors}

    def halves(weight, num_heads):
        head_dim = weight.shape[0] // num_heads
        return weight.view(num_heads, head_dim // 2, 2, -1).transpose(1, 2).reshape(weight.shape)

    state = {"model.embed_tokens.weight": weights["token_embd.weight"],
             "lm_head.weight": weights["token_embd.weight"], "model.norm.weight": weights["output_norm.weight"]}
    for i in range(config.num_hidden_layers):
        source, target = f"blk.{i}.", f"model.layers.{i}."
        names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                 "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
                 "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
        for ours, theirs in names.items():
            state[f"{target}{theirs}.weight"] = weights[f"{source}{ours}.weight"]
        state[f"{target}self_attn.q_proj.weight"] = halves(weights[f"{source}attn_q.weight"], heads)
        state[f"{target}self_attn.k_proj.weight"] = halves(weights[f"{source}attn_k.weight"], kv_heads)
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    model.load_state_dict(state, strict=True)
    return model


class Recorder:
    """Keeps what enters the dot product: per layer q, k, v [heads, tokens, head_dim], in the file's order."""

    def __init__(self):
        self.qkv = {}
        inner = ALL_ATTENTION_FUNCTIONS["sdpa"]

        def record(module, query, key, value, mask, **kwargs):
            new = query.shape[2]
            entry = [interleave(query[0]), interleave(key[0, :, -new:]), value[0, :, -new:]]
            old = self.qkv.get(module.layer_idx)
            self.qkv[module.layer_idx] = entry if old is None else [torch.cat(p, 1) for p in zip(old, entry)]
            return inner(module, query, key, value, mask, **kwargs)

        ALL_ATTENTION_FUNCTIONS["sdpa"] = record

    def take(self):
        taken, self.qkv = self.qkv, {}
        return [taken[i] for i in range(len(taken))]


@torch.inference_mode()
def prefill(model, recorder, ids, chunk):
    cache = DynamicCache()
    for begin in range(0, len(ids), chunk):
        out = model(torch.tensor([ids[begin:begin + chunk]]), past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[0, -1], cache, recorder.take()


@torch.inference_mode()
def greedy(model, recorder, logits, cache):
    tokens, margins = [], []
    for _ in range(NEW_TOKENS):
        top = torch.topk(logits, 2)
        tokens.append(int(top.indices[0]))
        margins.append(float(top.values[0] - top.values[1]))
        logits = model(torch.tensor([tokens[-1:]]), past_key_values=cache, use_cache=True).logits[0, -1]
    recorder.take()
    return tokens, margins


def cosine(a, b):
    return float(torch.nn.functional.cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0))


def write_model_golden(model, recorder, ids):
    full, _, qkv = prefill(model, recorder, ids, len(ids))
    chunked, cache, chunked_qkv = prefill(model, recorder, ids, CHUNK)
    worst = min(cosine(a, b) for x, y in zip(qkv, chunked_qkv) for a, b in zip(x, y))
    apart = float((full - chunked).abs().max())
    print(f"{len(ids)} tokens: chunked against whole prefill: worst cosine {worst:.8f}, logits {apart:.2e} apart")
    assert worst > 0.999999 and apart < 5e-4, "the oracle disagrees with itself"
    tokens, margins = greedy(model, recorder, chunked, cache)
    generator = random.Random(1)
    positions = sorted({0, 1, len(ids) - 1} | set(generator.sample(range(2, len(ids) - 1), 3)))
    top = torch.topk(full, NUM_LOGITS).indices.tolist()
    others = generator.sample(sorted(set(range(len(full))) - set(top)), NUM_LOGITS)
    rows = torch.cat([torch.cat(layer, 0)[:, positions].flatten() for layer in qkv])
    name = f"smollm2_{len(ids)}"
    rows.to(torch.float16).numpy().astype("<f2").tofile(OUT / f"{name}.f16")
    golden = {
        "made_by": f"tests/tools/make_goldens.py, transformers {transformers.__version__}, torch {torch.__version__}",
        "rows": "f16 [layer][q heads, k heads, v heads][position][head_dim] after RoPE, interleaved pairs",
        "ids": ids, "positions": positions, "logit_ids": top + others,
        "logits": [round(float(full[i]), 6) for i in top + others],
        "greedy": tokens, "greedy_margins": [round(m, 6) for m in margins],
    }
    (OUT / f"{name}.json").write_text(json.dumps(golden) + "\n")


def tricky_texts():
    texts = [
        "", " ", "  ", "   ", "\n", "\n\n", " \n ", "\t\t\tx", "a", " a", "  a", "a ", "a  ", "Hello world",
        "One of the special magic numbers for agile-cat is: 1234567.", "  two  spaces\n\n\tTab's don't",
        "naïve café — 日本語 🙂", "we're they've I'm you'll he'd it's can't 'tis 'Twas ''s 's' S'S 'RE", "!'s ?'t 'x'",
        "3.14159 1,000,000 x2y 2x 12 34  56", "a 1", "a  1", "a   1 ", " 1", "\n1", "½ ² Ⅷ ٣ 五 ௧ x²", "1\n\n2", "½a",
        "\u00a0nbsp\u00a0\u00a0x", "a\u2003b\u3000c\u2028d\u0085e\u200bf\u180eg\ufeffh", "\x1c\x1f x", "a\x00b",
        "!\x04!", "..\x06..", "a\x04b", "=\x13=\x14=\x16=\x1d=", "\x7f\x80\u00ad", "e\u0301 combining", "👨‍👩‍👧‍👦 family",
        "ελληνικά Кириллица العربية हिन्दी ไทย", "<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n", "<|im_end|",
        "<repo_name><reponame><file_sep>x", "def f(x):\n    return x ** 2  # sq\n", "https://a.b/c?d=e&f=%20", "aaaaaaaaaaaaaaaaaaa",
        "SELECT * FROM t WHERE a<>b;", "\r\n\r\nwin", " \u00e9", "\u0130stanbul ß ẞ", "ʻokina ʼ ˈ", "_under_score_ __init__",
        "\U0001d7d8\U0001d7d9 digits", "ａｂｃ１２３", "the grass is green. " * 3, "\U000e0001tag", "\ue000private",
    ]
    generator = random.Random(7)
    pool = list("abcdeghxyzAEZ  \t\n''!.,-=#<|>019") + ["é", "ß", "日", "本", "🙂", "½", "\u00a0", "\u3000", "\u0301", "'s", "'ll", " the"]
    wide = [chr(c) for c in range(0x20, 0x2fff) if not 0xd800 <= c < 0xe000]
    for _ in range(120):
        texts.append("".join(generator.choice(pool) for _ in range(generator.randrange(1, 60))))
    for _ in range(120):
        texts.append("".join(generator.choice(wide if generator.random() < 0.5 else pool)
                             for _ in range(generator.randrange(1, 40))))
    return texts


def write_tokenizer_golden(reader):
    literal, parsing = make_tokenizer(reader), make_tokenizer(reader)
    add_special_tokens(parsing, reader)
    cases = [{"text": t, "literal": literal.encode(t).ids, "parsed": parsing.encode(t).ids} for t in tricky_texts()]
    template = jinja2.Environment().from_string(metadata(reader, "tokenizer.chat_template"))
    chats = []
    for messages in (
        [{"role": "user", "content": "Hi"}],
        [{"role": "system", "content": "Be short."}, {"role": "user", "content": " What is 12 x 3?\n"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "\n\nc 日本 "}],
    ):
        for prefix in ("", " The answer is"):
            text = template.render(messages=messages, add_generation_prompt=True) + prefix
            chats.append({"messages": messages, "prefix": prefix, "ids": parsing.encode(text).ids})
    golden = {"made_by": "tests/tools/make_goldens.py, PyPI tokenizers and Jinja", "texts": cases, "chats": chats}
    (OUT / "tokenizer.json").write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n")


def check_trace(model, recorder, path):
    """Cosine over all positions of each layer's q, k and v, and the greedy tokens after the prompt."""
    import h5py
    with h5py.File(path) as trace:
        prompt = int(trace["chunks/length"][:][trace["chunks/phase"][:] == 0].sum())
        ids = trace["tokens/ids"][:prompt].tolist()
        generated = trace["tokens/generated"][:].tolist()
        logits, cache, qkv = prefill(model, recorder, ids, CHUNK)
        worst = {}
        for i, layer in enumerate(qkv):
            for what, expected in zip("qkv", layer):
                stored = torch.from_numpy(trace[f"layers/{i}/{what}"][:, :prompt].astype(np.float32))
                rows = torch.nn.functional.cosine_similarity(stored, expected, dim=-1)
                worst[what] = min(worst.get(what, (2, 2, 0, 0)),
                                  (cosine(stored, expected), float(rows.min()),
                                   i, float((stored - expected).abs().max())))
        for what, (whole, row, layer, apart) in worst.items():
            print(f"{what}: worst layer {layer}: cosine {whole:.9f}, worst single row {row:.9f}, max difference {apart:.2e}")
        tokens, margins = greedy(model, recorder, logits, cache)
        alike = sum(a == b for a, b in zip(tokens, generated))
        print(f"{len(ids)} prompt tokens; {alike} of {min(len(tokens), len(generated))} greedy tokens alike; "
              f"smallest margin {min(margins):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path, help="compare this f32 or f16 trace instead of writing goldens")
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.model)
    model = make_model(reader)
    recorder = Recorder()
    if args.trace:
        check_trace(model, recorder, args.trace)
        return
    OUT.mkdir(parents=True, exist_ok=True)
    write_tokenizer_golden(reader)
    ids = make_tokenizer(reader).encode((ROOT / "LICENSE").read_text()).ids
    for count in (256, 2048):
        assert len(ids) >= count
        write_model_golden(model, recorder, ids[:count])


if __name__ == "__main__":
    main()
