"""How models turn their keys by position is what their recordings say, by the keys of one token at two places."""
import types
import unittest
import warnings

import numpy as np
import torch
import transformers

import kvloupe
from kvloupe.model_info import attention_modules
from kvloupe.turning import Turning, turning_of

from .support import load_model, program, prompt, scratch

SIZES = dict(vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
HYBRID = dict(sliding_window=9, layer_types=["sliding_attention"] * 3 + ["full_attention"])
# Configuration -> (pairing, layer types), by the modelling code of each.
EXPECTED = {
    ("LlamaConfig",): ("half_split", ["full"] * 4),
    ("CohereConfig",): ("interleaved", ["full"] * 4),
    ("Cohere2Config", "hybrid"): ("interleaved", ["sliding"] * 3 + ["nope"]),
    ("HeliumConfig", "head_dim"): ("interleaved", ["full"] * 4),
    ("Ernie4_5Config", "head_dim"): ("interleaved", ["full"] * 4),
    ("Exaone4Config", "no window"): ("half_split", ["full"] * 4),
    ("Exaone4Config", "hybrid"): ("half_split", ["sliding"] * 3 + ["nope"]),
    ("SmolLM3Config",): ("half_split", ["full"] * 3 + ["nope"]),
}
MORE = {"hybrid": HYBRID, "head_dim": dict(head_dim=8), "no window": dict(sliding_window=None, layer_types=["full_attention"] * 4)}


def model_of(name, *more):
    torch.manual_seed(0)
    options = {key: value for one in more for key, value in MORE[one].items()}
    config = getattr(transformers, name)(**{**SIZES, **options})
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def recorded(model, path, ids):
    with kvloupe.record(model, path, chunk_size=8, dtype="float32", force=True), torch.no_grad():
        model(ids)
    return path


def turned(key, by, theta, pairing):
    """One key, channel by channel."""
    dim, turned = len(key), np.array(key, np.float64)
    for i in range(dim // 2):
        a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + dim // 2)
        angle = by * theta ** (-2 * i / dim)
        turned[a] = key[a] * np.cos(angle) - key[b] * np.sin(angle)
        turned[b] = key[a] * np.sin(angle) + key[b] * np.cos(angle)
    return turned


class Recorded(unittest.TestCase):
    def test_pairing_and_layers(self):
        for dtype in (torch.float32, torch.bfloat16):
            for names, (pairing, types_of_layers) in EXPECTED.items():
                with self.subTest(names=names, dtype=dtype), warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    path = recorded(model_of(*names).to(dtype), scratch("turning.h5"), prompt("llama") % 50)
                    with kvloupe.open(path) as trace:
                        self.assertEqual((trace.model["rope_pairing"], trace.model["rope_scaling"]), (pairing, "none"))
                        self.assertEqual(trace.model["layer_types"], types_of_layers)
                    self.assertIn("sound", program("validate", path))

    def test_keys_of_the_first_layer_are_turned_as_it_says(self):
        ids = torch.full((1, 24), 7)
        for names, (pairing, _) in EXPECTED.items():
            with self.subTest(names=names), kvloupe.open(recorded(model_of(*names), scratch("same.h5"), ids)) as trace:
                keys = trace.k(0)
                for head in range(2):
                    np.testing.assert_allclose(turned(keys[head, 3], 17, trace.model["rope_theta"], pairing), keys[head, 20], atol=1e-5)

    def test_large_channels_hide_nothing(self):
        """Most of each key is a bias in channels that hardly turn, as in models of this kind with a large base."""
        config = transformers.Qwen2Config(**{**SIZES, "hidden_size": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.k_proj.bias.view(2, -1)[:, 14:16] = 500.0
                layer.self_attn.k_proj.bias.view(2, -1)[:, 30:32] = -300.0
        for dtype in (torch.float32, torch.bfloat16):
            seen = turning_of(model.to(dtype), attention_modules(model))
            self.assertEqual(seen, Turning(turned=frozenset(range(4))))

    def test_scaled_frequencies_are_no_plain_ones(self):
        model = model_of("LlamaConfig")
        model.model.rotary_emb.inv_freq *= 0.5  # behind the configuration's back
        with kvloupe.open(recorded(model, scratch("other.h5"), prompt("llama") % 50)) as trace:
            self.assertEqual(trace.model["rope_scaling"], '{"rope_type": "other"}')
        with self.assertRaisesRegex(AssertionError, "scales its rotary frequencies"):
            program("compare", scratch("other.h5"), "--method", "streaming_llm:budget_tokens=6,positions=reassigned")

    def test_positions_that_are_learned(self):
        config = transformers.GPT2Config(vocab_size=50, n_embd=32, n_head=4, n_layer=2, n_positions=64)
        model = transformers.GPT2LMHeadModel(config).eval()
        self.assertEqual(turning_of(model, attention_modules(model)), Turning(still=frozenset({0, 1}), follows_theta=False))


class Looking(unittest.TestCase):
    def test_another_recording_does_not_hear_of_it(self):
        model, ids = load_model("smollm3"), prompt("smollm3")
        first, second = scratch("first.h5"), scratch("second.h5")
        with torch.no_grad(), kvloupe.record(model, first, chunk_size=8, force=True, store=("qkv", "lse")):
            model(ids)
        alone = first.read_bytes()
        with torch.no_grad(), kvloupe.record(model, first, chunk_size=8, force=True, store=("qkv", "lse")) as recorder:
            with kvloupe.record(model, second, chunk_size=8, force=True):
                model(ids)
            self.assertFalse(recorder._listener.is_deaf)
        self.assertEqual(len(first.read_bytes()), len(alone))
        for path in (first, second):
            with kvloupe.open(path) as trace:
                self.assertEqual((trace.num_tokens, trace.complete), (ids.shape[1], True))

    def test_a_model_that_cannot_run_one_token_says_so(self):
        model = model_of("LlamaConfig")
        whole = model.model.forward
        model.model.forward = types.MethodType(lambda self, input_ids=None, **options: whole(input_ids=input_ids, **options)
                                               if input_ids.shape[1] > 1 else (_ for _ in ()).throw(ValueError("too short")), model.model)
        with self.assertWarnsRegex(RuntimeWarning, "one token alone could not be run .*too short.*is not known"):
            recorded(model, scratch("short.h5"), prompt("llama") % 50)


if __name__ == "__main__":
    unittest.main()
