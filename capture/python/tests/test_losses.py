"""The losses of tokens and the probe, against the model run again token by token, and read by the program."""
import math
import sys
import unittest
from unittest import mock

import h5py
import numpy as np
import peft
import torch
import transformers

import kvloupe
from kvloupe.probe import TEXT

from .class_table_models import build
from .support import FAMILIES, MODELS, STEPS, generate, load_model, load_tokenizer, program, program_json, prompt, scratch

EVERYTHING = ("qkv", "lse", "mass", "probe", "loss")


def plain_losses(model, ids):
    """Of each token given those before it: each prefix is run anew, without a cache."""
    losses = [math.inf]
    for count in range(1, ids.shape[1]):
        with torch.no_grad():
            logits = model(ids[:, :count], use_cache=False).logits[0, -1].double()
        losses.append(float(torch.log(torch.exp(logits - logits.max()).sum()) - (logits - logits.max())[ids[0, count]]))
    return np.array(losses)


def queries_after(model, ids, probe):
    """layer -> [q heads, probe tokens, D]: what enters attention of the probe when it follows these ids, in one forward."""
    found, place = {}, sys.modules[type(model).__module__]

    def attention(module, query, *arguments, **options):
        found[module.layer_idx] = query[0, :, -len(probe) :].numpy()
        return own(module, query, *arguments, **options)
    own = place.eager_attention_forward
    with mock.patch.object(place, "eager_attention_forward", attention), torch.no_grad():
        model(torch.cat([ids, torch.tensor([probe])], 1), use_cache=False)
    return found


class Losses(unittest.TestCase):
    def test_every_token_of_prefill_and_decoding(self):
        for family in FAMILIES:
            path, model = scratch(f"losses-{family}.h5"), load_model(family)
            with kvloupe.record(model, path, chunk_size=16, dtype="float32", store=("qkv", "loss")):
                sequences = generate(model, prompt(family), logits_to_keep=0)
            with h5py.File(path) as file:
                expected = plain_losses(model, sequences[:, :-1])
                self.assertEqual(file["tokens/nll"].dtype, np.float32)
                np.testing.assert_allclose(file["tokens/nll"][:], expected, atol=1e-4, err_msg=family)
            self.assertIn("sound", program("validate", path))

    def test_forwards_of_any_size(self):
        path, model, ids = scratch("losses.h5"), load_model("llama"), prompt("llama")
        cache = transformers.DynamicCache(config=model.config)
        with kvloupe.record(model, path, chunk_size=16, store=("loss",), batch_index=1), torch.no_grad():
            for begin, end in ((0, 3), (3, 19), (19, 33), (33, 34)):
                model(torch.cat([ids.flip(1), ids])[:, begin:end], past_key_values=cache)
        with h5py.File(path) as file:
            np.testing.assert_allclose(file["tokens/nll"][:], plain_losses(model, ids), atol=1e-4)
            self.assertEqual(set(file["layers/0"]), set())

    def test_padding_on_the_left_has_none(self):
        model, ids, pads = load_model("llama"), prompt("llama"), 3
        padded = torch.cat([torch.full((1, pads), 2), ids], 1)
        mask = (torch.arange(padded.shape[1]) >= pads).long()[None]

        def generated():
            return model.generate(padded, attention_mask=mask, max_new_tokens=4, do_sample=False, eos_token_id=None, pad_token_id=2,
                                  logits_to_keep=0)
        for run, count in ((generated, 37), (lambda: model(padded, attention_mask=mask), 34)):
            path = scratch("padded-losses.h5")
            with kvloupe.record(model, path, chunk_size=16, store=("loss",), force=True), torch.no_grad():
                run()
            with h5py.File(path) as file:
                tokens = torch.tensor(file["tokens/ids"][:].astype(np.int64))[None]
                self.assertEqual((tokens.shape[1], tokens[0, :34].tolist()), (count, ids[0].tolist()))
                np.testing.assert_allclose(file["tokens/nll"][:], plain_losses(model, tokens), atol=1e-4)

    def test_a_model_that_is_called_around_its_language_head(self):
        """The decoder alone is heard there, whose output has no logits."""
        path, model, ids = scratch("around.h5"), load_model("llama"), prompt("llama")
        for store in (("qkv", "loss"), ("qkv", "probe")):
            with self.subTest(store=store), torch.no_grad(), \
                    self.assertRaisesRegex(kvloupe.KvloupeError, "output has no logits; .* and call that one"):
                with kvloupe.record(model, path, store=store, tokenizer=load_tokenizer("llama")):
                    model.model(ids)
            self.assertFalse(path.exists() or path.with_name("around.h5.part").exists())

    def test_logits_that_are_missing(self):
        path, whole, ids = scratch("no-losses.h5"), load_model("llama"), prompt("llama")
        few, none = "logits of 1 token of 34; pass logits_to_keep=0", "output has no logits; record the model with its language head"
        for run, model, sentence in ((lambda model: generate(model, ids), whole, few),
                                     (lambda model: model(ids, logits_to_keep=1), whole, few),
                                     (lambda model: model(ids, return_dict=False), whole, none),
                                     (lambda model: model(ids), whole.model, none)):
            with self.assertRaisesRegex(kvloupe.KvloupeError, sentence):
                with kvloupe.record(model, path, store=("qkv", "loss")), torch.no_grad():
                    run(model)
            self.assertFalse(path.exists() or path.with_name("no-losses.h5.part").exists())


class Probe(unittest.TestCase):
    def check(self, family, attention, feed, count):
        """feed(model, ids) runs the model on `count` tokens of prefill."""
        model, tokenizer = load_model(family, attention), load_tokenizer(family)
        ids, path = prompt(family), scratch(f"probe-{family}.h5")
        with torch.no_grad():
            before = feed(model, ids)
        with kvloupe.record(model, path, tokenizer=tokenizer, chunk_size=16, dtype="float32", store=EVERYTHING, force=True), \
                torch.no_grad():
            self.assertTrue(torch.equal(feed(model, ids), before), "the model's output changed")
        probe = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
        with h5py.File(path) as file:
            self.assertEqual((file["probe"].attrs["text"], file["probe"].attrs["num_tokens"]), (TEXT, len(probe)))
            self.assertEqual(file["probe/ids"][:].tolist(), probe)
            chunks = list(zip(file["chunks/begin"][:] + file["chunks/length"][:], file["chunks/phase"][:]))
            prefill = [number for number, (_, phase) in enumerate(chunks) if phase == 0]
            self.assertEqual(sum(int(file["chunks/length"][number]) for number in prefill), count)
            tokens = torch.tensor(file["tokens/ids"][:].astype(np.int64))[None]
            for number in prefill:
                expected = queries_after(load_model(family), tokens[:, : chunks[number][0]], probe)
                for layer, queries in expected.items():
                    stored = file[f"layers/{layer}/probe_q"]
                    self.assertEqual(stored.shape, (prefill[-1] + 1, *queries.shape))
                    np.testing.assert_allclose(stored[number], queries, atol=1e-4, err_msg=f"{family}, layer {layer}, chunk {number}")
        self.assertIn("sound", program("validate", path))
        return path

    def test_after_each_chunk_of_one_prefill(self):
        for family in FAMILIES:
            for attention in ("eager", "sdpa"):
                if (family, attention) != ("gpt_oss", "sdpa"):  # transformers has none with sinks.
                    self.check(family, attention, lambda model, ids: model(ids).logits, 34)

    def test_chunks_that_are_fed_in_pieces(self):
        """A sliding cache has forgotten the keys that a probe inside a chunk would need, but none that a window sees."""
        for family, kind in (("llama", transformers.DynamicCache), ("gemma3_text", transformers.DynamicCache),
                             ("gemma3_text", transformers.StaticCache)):
            def feed(model, ids):
                size = dict(max_cache_len=64) if kind is transformers.StaticCache else {}
                cache = kind(config=model.config, **size)
                return torch.cat([model(ids[:, begin:end], past_key_values=cache).logits
                                  for begin, end in ((0, 3), (3, 19), (19, 34), (5, 6), (6, 12))], 1)
            self.check(family, "eager", feed, 40)

    def test_the_methods_that_need_it(self):
        path = self.check("llama", "sdpa", lambda model, ids: generate(model, ids, logits_to_keep=0), 34)
        found = program_json("select", path, "--method", "infinipot:budget_tokens=8")
        self.assertEqual({layer["layer"] for layer in found["layers"]}, {0, 1, 2})
        for layer in found["layers"]:
            self.assertEqual([len(row["selected"]) for row in layer["chunks"][2]["kv_heads"]], [8, 8])
        with h5py.File(path) as file:
            self.assertEqual(len(file["chunks/phase"]), 3 + STEPS)

    def compare(self, model, given, ids):
        """Queries stored of a recording of `given`, which holds `model`, with those of the plain model."""
        path, tokenizer = scratch("probe-of-one-kind.h5"), load_tokenizer("llama")
        probe = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
        with kvloupe.record(given, path, tokenizer=tokenizer, chunk_size=16, dtype="float32", store=EVERYTHING, force=True), \
                torch.no_grad():
            given(ids)
        with h5py.File(path) as file, torch.compiler.set_stance("force_eager"):
            np.testing.assert_allclose(file["tokens/nll"][:], plain_losses(model, ids), atol=1e-4)
            for number, end in enumerate(file["chunks/begin"][:] + file["chunks/length"][:]):
                for layer, queries in queries_after(model, ids[:, :end], probe).items():
                    stored = file[f"layers/{layer}/probe_q"][number]
                    np.testing.assert_allclose(stored, queries, atol=1e-4, err_msg=f"layer {layer}, chunk {number}")
        self.assertIn("sound", program("validate", path))

    def test_a_model_with_an_adapter(self):
        self.addCleanup(load_model.cache_clear)
        load_model.cache_clear()
        torch.manual_seed(3)
        base = load_model("llama")
        config = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        self.compare(base, peft.get_peft_model(base, config), prompt("llama"))

    def test_a_compiled_model(self):
        torch._dynamo.reset()
        self.addCleanup(torch._dynamo.reset)
        self.addCleanup(load_model.cache_clear)
        load_model.cache_clear()
        model = load_model("llama")
        self.compare(model, torch.compile(model, backend="eager"), prompt("llama"))
        model.model.compile(backend="eager")
        self.compare(model, model, prompt("llama"))

    def test_latent_attention(self):
        """Its cache holds what keys are made from, so no past can be handed to the probe."""
        path, tokenizer = scratch("probe-latent.h5"), load_tokenizer("llama")
        model = build("DeepseekV3Wide", changes=dict(vocab_size=load_model("llama").config.vocab_size))
        with self.assertRaisesRegex(kvloupe.KvloupeError, "layer 0 caches .*leave probe out of store"), torch.no_grad():
            with kvloupe.record(model, path, store=("qkv", "probe"), tokenizer=tokenizer):
                model(prompt("llama"))
        with kvloupe.record(model, path, store=("qkv", "loss"), dtype="float32", force=True), torch.no_grad():
            model(prompt("llama"))
        with h5py.File(path) as file:
            np.testing.assert_allclose(file["tokens/nll"][:], plain_losses(model, prompt("llama")), atol=1e-4)

    def test_random_numbers_and_turning_frequencies_stay(self):
        config = transformers.AutoConfig.from_pretrained(MODELS / "llama")
        config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
        config.max_position_embeddings = 36  # The probe is beyond, the prompt is not.
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        ids, path = prompt("llama"), scratch("turning.h5")

        def run():
            torch.manual_seed(1)
            first = model(ids)
            return first.logits, model(ids[:, :2], past_key_values=first.past_key_values).logits, torch.rand(1)
        with torch.no_grad():
            before = run()
            with kvloupe.record(model, path, tokenizer=load_tokenizer("llama"), store=("qkv", "probe")):
                again = run()
        for one, other in zip(before, again):
            self.assertTrue(torch.equal(one, other))

    def test_refusals(self):
        path, model, ids, tokenizer = scratch("no-probe.h5"), load_model("llama"), prompt("llama"), load_tokenizer("llama")
        with self.assertRaisesRegex(kvloupe.KvloupeError, "probe cannot be recorded; .* tokenizer; give tokenizer="):
            kvloupe.record(model, path, store=("qkv", "probe"))
        with self.assertRaisesRegex(kvloupe.KvloupeError, "do not stand at the positions 0, 1, 2"), torch.no_grad():
            with kvloupe.record(model, path, store=("qkv", "probe"), tokenizer=tokenizer):
                model(ids, position_ids=torch.arange(5, 39)[None])
        mask = (torch.arange(34) >= 3).long()[None]
        with self.assertRaisesRegex(kvloupe.KvloupeError, "padding stands before the sequence"), torch.no_grad():
            with kvloupe.record(model, path, store=("qkv", "probe"), tokenizer=tokenizer):
                model(ids, attention_mask=mask)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
