"""kvloupe.sparse against kvloupe capture --closed-loop, transformers itself, and a plain mask."""
import copy
import unittest

import h5py
import numpy as np
import torch
import transformers

import kvloupe

from .selector_cases import CHUNK, FREE, with_files
from .sparse_cases import STEPS, ClosedLoop, attend_plainly, cells_of, logits_of, losses_of, recorded, text
from .support import FAMILIES, generate, load_model, program, program_json, scratch

ACROSS = ["snapkv:budget_tokens=8,window=4", "quoka:budget_tokens=8", "quest:budget_tokens=8,page_size=4,skip_layers=0", "infinipot:budget_tokens=8"]


class SameAsTheProgram(unittest.TestCase):
    def compare(self, family, spec):
        """Sets, evictions, logits and answers; the trace is sound."""
        theirs = ClosedLoop(family, spec)
        path, generated = recorded(family, spec, theirs.ids, max(1, len(theirs.generated)))
        with h5py.File(path, "r") as file:
            cells, about = cells_of(file), dict(file["runs/0"].attrs)
        self.assertEqual(cells.keys(), theirs.cells.keys())
        for layer, arrays in theirs.cells.items():
            self.assertEqual(cells[layer].keys(), arrays.keys())
            for name, array in arrays.items():
                np.testing.assert_array_equal(cells[layer][name], array, f"{spec}, layer {layer}, {name}")
        for name in ("method", "mode", "row_axis", "q_heads_per_row", "granularity", "state_action", "budget_scope", "decode", "block_size", "lowering",
                     "block_tables"):
            self.assertEqual(about.get(name), theirs.about.get(name), (spec, name))
        losses = losses_of(logits_of(family, spec, theirs.ids), theirs.ids)
        np.testing.assert_allclose(losses, theirs.losses, atol=1e-4)
        if theirs.generated:
            self.assertEqual(generated, theirs.generated)
        self.assertIn("sound", program("validate", path))
        return theirs.ids, losses

    def test_every_method(self):
        ran = set()
        for spec in FREE + with_files():
            with self.subTest(spec=spec):
                self.compare("qwen3", spec)
                ran.add(spec.split(":")[0])
        everything = {method["id"] for method in program_json("methods")["methods"]}
        self.assertEqual(everything, ran)

    def test_nine_families(self):
        for family in FAMILIES:
            for spec in ACROSS:
                with self.subTest(family=family, spec=spec):
                    ids, losses = self.compare(family, spec)
                    with torch.no_grad():
                        away = np.abs(losses - losses_of(load_model(family)(ids).logits[0], ids)).max()
                    self.assertGreater(away, 1e-3, "the method left nothing out that matters, so nothing was tested")

    def test_keys_at_other_positions(self):
        for family in ("smollm3", "qwen2"):  # the first has layers without positions
            with self.subTest(family=family):
                ids, losses = self.compare(family, "streaming_llm:budget_tokens=10,positions=reassigned")
                original = losses_of(logits_of(family, "streaming_llm:budget_tokens=10", ids), ids)
                self.assertGreater(np.abs(losses - original).max(), 1e-3)

    def test_what_is_replayed_is_what_was_recorded(self):
        for spec in ("h2o:budget_tokens=24", "quoka:budget_tokens=24", "quest:budget_tokens=32,skip_layers=0", "infinipot:budget_tokens=24"):
            path, _ = recorded("qwen3", spec, text())
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.mode, "closed_loop")
                report, run = program_json("select", path, "--method", spec), trace.runs[0]
                for entry in report["layers"]:
                    for cell in entry["chunks"]:
                        rows = cell.get("kv_heads") or cell["q_heads"]
                        for row, said in enumerate(rows):
                            self.assertEqual(run.selected(entry["layer"], cell["chunk"], row).tolist(), said["selected"], spec)


def exact_logits(model, ids):
    """Of the model in float64: two runs in float32 may be further from each other than each is from it. Layers of experts have no such kernel."""
    exact = model if hasattr(model.config, "num_experts") or hasattr(model.config, "num_local_experts") else copy.deepcopy(model).double()
    return exact(ids).logits[0].float()


class AgainstTransformers(unittest.TestCase):
    def test_dense_is_the_models_own(self):
        for family in FAMILIES:
            for attention in ("eager", "sdpa") if family != "gpt_oss" else ("eager",):
                model, ids = load_model(family, attention), text() % load_model(family).config.vocab_size
                with self.subTest(family=family, attention=attention), torch.no_grad():
                    torch.testing.assert_close(logits_of(family, "dense", ids, attention=attention), exact_logits(model, ids), atol=1e-4, rtol=0)
                    with kvloupe.sparse(model, "dense", chunk_size=7):
                        self.assertTrue(torch.equal(generate(model, ids), answer := generate(model, ids)))
                    self.assertTrue(torch.equal(generate(model, ids), answer))

    def test_a_plain_mask_gives_the_same(self):
        for family, spec in (("qwen3", "sparq:budget_tokens=24"), ("qwen3", "oracle:budget_tokens=24,budget_scope=all"), ("qwen3", "keydiff:budget_tokens=24"),
                             ("gemma3_text", "tova:budget_tokens=8"), ("gpt_oss", "quest:budget_tokens=8,page_size=4,skip_layers=0"),
                             ("gemma3_text", "xattention:block_size=8,stride=4,lowering=union,tau=0.6"), ("gemma3_text", "xattention:block_size=8,stride=4,tau=0.6"),
                             ("qwen3", "flash_prefill:block_size=16,sink_blocks=1,window_blocks=1,alpha=0.3"), ("gpt_oss", "flex_prefill:block_size=16,min_budget=16,gamma=0.6")):
            with self.subTest(family=family, spec=spec):
                ids = text()[:, :110] % load_model(family).config.vocab_size
                path, _ = recorded(family, spec, ids, 1)
                torch.testing.assert_close(logits_of(family, spec, ids), attend_plainly(path, load_model(family), ids), atol=1e-4, rtol=0)

    def test_caches_of_all_kinds(self):
        for family in ("gemma3_text", "llama"):
            model, ids = load_model(family), text()[:, :90] % load_model(family).config.vocab_size
            for spec in ("h2o:budget_tokens=24", "quoka:budget_tokens=8"):
                with kvloupe.sparse(model, spec, chunk_size=CHUNK):
                    answers = [generate(model, ids, steps=8, output_logits=True, return_dict_in_generate=True, **options)
                               for options in ({}, {"cache_implementation": "static"}, {"prefill_chunk_size": 2 * CHUNK})]
                    cache = transformers.DynamicCache()  # without windows
                    answers.append(generate(model, ids, steps=8, output_logits=True, return_dict_in_generate=True, past_key_values=cache))
                for answer in answers[1:]:
                    self.assertTrue(torch.equal(answer.sequences, answers[0].sequences))
                    torch.testing.assert_close(answer.logits, answers[0].logits, atol=1e-4, rtol=0)

    def test_half_precision_and_gradients(self):
        model = transformers.AutoModelForCausalLM.from_config(load_model("qwen3").config).to(torch.bfloat16).eval()
        with kvloupe.sparse(model, "quoka:budget_tokens=24", chunk_size=CHUNK), torch.no_grad():
            self.assertEqual(model(text()).logits.dtype, torch.bfloat16)
        model = model.float()
        grads = []
        for spec in (None, "dense"):
            model.zero_grad()
            if spec is None:
                model(text()).logits.square().mean().backward()
            else:
                with kvloupe.sparse(model, spec, chunk_size=CHUNK):
                    model(text()).logits.square().mean().backward()
            grads.append([parameter.grad.clone() for parameter in model.parameters()])
        for own, ours in zip(*grads):
            torch.testing.assert_close(ours, own, atol=1e-5, rtol=1e-3)


def newest(count):
    def last(layer, chunk, q, k, v):
        past = k.shape[1]
        return [range(max(0, past - count), past)] * len(k)
    return last


class OwnFunction(unittest.TestCase):
    def test_it_is_what_our_method_is(self):
        want = logits_of("qwen3", "sliding_window:budget_tokens=24", text())
        torch.testing.assert_close(logits_of("qwen3", newest(24), text()), want, atol=1e-6, rtol=0)
        scores = lambda layer, chunk, q, k, v: np.tile(np.arange(k.shape[1], dtype=np.float32), (len(q), 1))  # noqa: E731
        torch.testing.assert_close(logits_of("qwen3", scores, text(), rows="q_head", budget=24), want, atol=1e-6, rtol=0)

    def test_it_gets_what_a_trace_gives_and_its_run_is_recorded(self):
        seen = {}

        def half(layer, chunk, q, k, v):
            seen[layer, chunk] = [array.copy() for array in (q, k, v)]
            return np.arange(k.shape[1]) % 2 == np.zeros((len(k), 1))

        path, _ = recorded("qwen3", half, text())
        with kvloupe.open(path) as trace:
            run = trace.runs[0]
            self.assertEqual((run.method, run.mode, len(trace.chunks)), ("custom:half", "closed_loop", -(-text().shape[1] // CHUNK) + STEPS - 1))
            self.assertEqual(len(seen), len(trace.layers) * (len(trace.chunks) - 1))
            for (layer, chunk), (q, k, v) in seen.items():
                at = trace.chunks[chunk]
                for ours, stored in ((q, trace.q(layer)[:, at.begin : at.end]), (k, trace.k(layer)[:, : at.begin]), (v, trace.v(layer)[:, : at.begin])):
                    np.testing.assert_array_equal(ours, stored)
                self.assertEqual(run.selected(layer, chunk, 1).tolist(), list(range(0, at.begin, 2)))
        self.assertIn("sound", program("validate", path))
        self.assertIn("custom:half", program("info", path, "--json"))


class Refusals(unittest.TestCase):
    def setUp(self):
        self.model, self.ids = load_model("llama"), text()[:, :40]
        with torch.no_grad():
            self.before = self.model(self.ids).logits
            self.model(self.ids, output_attentions=True)  # once asked for, transformers' own hooks stay
        self.state = self.state_of_model()

    def tearDown(self):
        self.assertEqual(self.state_of_model(), self.state)
        with torch.no_grad():
            self.assertTrue(torch.equal(self.before, self.model(self.ids).logits))

    def state_of_model(self):
        source = __import__(type(self.model).__module__, fromlist=["x"])
        modules = [(sorted(vars(module)), len(module._forward_hooks), len(module._forward_pre_hooks)) for module in self.model.modules()]
        return modules, source.eager_attention_forward, dict(source.ALL_ATTENTION_FUNCTIONS), torch.get_rng_state().tolist()

    def refuse(self, sentence, run=None, method="quoka:budget_tokens=8", **options):
        with self.assertRaisesRegex(kvloupe.KvloupeError, sentence) as caught, torch.no_grad():
            with kvloupe.sparse(self.model, method, chunk_size=options.pop("chunk_size", 16), **options):
                (run or (lambda: self.model(self.ids)))()
        said = str(caught.exception)
        self.assertGreaterEqual(said.count("; "), 2, f"what; why; what to do: {said}")
        self.assertNotRegex(said, "record[^=]*$|layers=")

    def test_methods_that_do_more_than_choose_keys(self):
        for method, sentence in (("aqua:basis=absent.h5", "absent.h5"), ("static_slicing", "give basis=PATH"), ("aqua_h2o:dim_ratio=0.5,basis=auto", "give basis=PATH"), ("aqua:basis=self", "whole text"), ("infinipot:budget_tokens=8", "give the model's tokenizer"),
                                 ("streaming_llm:budget_tokens=8,positions=reassigned", "how this model turns its keys"),
                                 ("nothing:budget_tokens=8", "nothing"), ("quoka:budget_tokens=0", "budget"), ("loki:budget_tokens=8,basis=absent.h5", "absent.h5")):
            self.refuse(sentence, method=method)

    def test_options(self):
        self.refuse("chunk_size=0", chunk_size=0)
        self.refuse("a SPEC says itself", budget=4)
        self.refuse('rows="head" is unknown', method=newest(4), rows="head")
        self.refuse("0 is no budget", method=newest(4), budget=0)
        self.refuse("3 selects nothing; it cannot be called", method=3)

    def test_more_than_one_sequence(self):
        two = self.ids.expand(2, -1)
        self.refuse("given 2 sequences; run one", lambda: self.model(two))
        self.refuse("given 2 sequences", lambda: self.model.generate(self.ids, num_beams=2, do_sample=False, max_new_tokens=4))
        mask = torch.ones_like(self.ids)
        mask[0, :3] = 0
        self.refuse("padding stands before", lambda: self.model(self.ids, attention_mask=mask))
        mask = torch.ones_like(self.ids)
        mask[0, 30:32] = 0
        self.refuse("the attention mask leaves tokens out", lambda: self.model(self.ids, attention_mask=mask))

    def test_caches_that_are_not_the_texts(self):
        with torch.no_grad():
            filled = self.model(self.ids).past_key_values
        self.refuse("40 tokens of which 0 were run", lambda: self.model(self.ids[:, :1], past_key_values=filled))

        def cropped():
            cache = self.model(self.ids).past_key_values
            cache.crop(-10)
            self.model(self.ids[:, :1], past_key_values=cache)
        self.refuse("cropped from 40 tokens to 30", cropped)

        def edited():
            cache = self.model(self.ids).past_key_values
            cache.layers[1].keys[:, :, 3] += 1
            self.model(self.ids[:, :1], past_key_values=cache)
        self.refuse("cache of layer 1 does not hold the sequence that was run", edited)
        self.refuse("as it is without a cache", lambda: generate(self.model, self.ids, use_cache=False))

    def test_what_the_model_is_asked_for(self):
        self.refuse("output_attentions", lambda: self.model(self.ids, output_attentions=True))
        self.model.config.output_attentions = True
        try:
            self.refuse("output_attentions")
        finally:
            self.model.config.output_attentions = False
        self.refuse("without input_ids", lambda: self.model(inputs_embeds=self.model.get_input_embeddings()(self.ids)))
        mask = torch.zeros(1, 1, 40, 40)
        self.refuse("mask of layer 0 is not causal", lambda: self.model(self.ids, attention_mask=mask))

    def test_another_block_of_the_same_model(self):
        def inner(other):
            with other:
                self.model(self.ids)
        self.refuse("another sparse run of this model is open", lambda: inner(kvloupe.sparse(self.model, "dense")))
        with self.assertRaisesRegex(kvloupe.KvloupeError, "a sparse run of it is open"), kvloupe.sparse(self.model, "dense"):
            kvloupe.record(self.model, scratch("nested.h5")).__enter__()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "a recording or another sparse run"), kvloupe.record(self.model, scratch("nested.h5")):
            kvloupe.sparse(self.model, "dense").__enter__()

    def test_models_that_attend_otherwise(self):
        class Odd(torch.nn.Module):
            layer_idx = 1

            def forward(self, hidden_states, **_):
                return hidden_states, None

        with torch.random.fork_rng():
            odd, linear = transformers.AutoModelForCausalLM.from_config(self.model.config), torch.nn.Linear(2, 2)
        odd.model.layers[1].self_attn = Odd()
        for model, sentence in ((odd, "layer 1 of LlamaForCausalLM has no attention that is known: Odd does not"), (linear, "is no model of transformers")):
            with self.assertRaisesRegex(kvloupe.KvloupeError, f"run sparsely; .*{sentence}.*; run a"):
                kvloupe.sparse(model, "dense")

    def test_a_function_that_gives_something_else(self):
        for given, sentence in ((None, "nothing came back for layer 0, chunk 1"), ([[0]], "1 rows came back"), ([[0], [16]], "position 16 .* is none of its candidates"),
                                ([[1, 0], [0]], "do not ascend"), (np.zeros((2, 16), np.float32), "nothing says how many keys"), (np.ones((2, 15), bool), "15 values")):
            self.refuse(sentence, method=lambda layer, chunk, q, k, v, given=given: given)

        def fails(layer, chunk, q, k, v):
            k[0] = 0
        self.refuse(r"the method failed in layer 0, chunk 1; line \d+ of .*read-only", method=fails)

    def test_after_a_forward_that_failed(self):
        def fails_once(layer, chunk, q, k, v):
            if layer == 1 and not failed:
                failed.append(chunk)
                raise ValueError("once")
            return [range(k.shape[1])] * len(k)

        failed, cache = [], transformers.DynamicCache()
        with kvloupe.sparse(self.model, fails_once, chunk_size=16), torch.no_grad():
            with self.assertRaisesRegex(kvloupe.KvloupeError, "ValueError: once"):
                self.model(self.ids, past_key_values=cache)
            with self.assertRaisesRegex(kvloupe.KvloupeError, "failed half way; begin the text anew"):
                self.model(self.ids[:, :1], past_key_values=cache)
            torch.testing.assert_close(self.model(self.ids).logits, self.before, atol=1e-4, rtol=0)

    def test_a_recording_that_ends_early(self):
        path = scratch("early.h5")
        with self.assertRaisesRegex(RuntimeError, "mine"), torch.no_grad():
            with kvloupe.sparse(self.model, "h2o:budget_tokens=8", chunk_size=16, record=path):
                self.model(self.ids)
                raise RuntimeError("mine")
        with kvloupe.open(path) as trace:
            self.assertEqual((trace.num_tokens, trace.complete, trace.runs[0].mode, trace.warnings), (40, False, "closed_loop", []))
        self.assertIn("sound", program("validate", path))
        self.refuse("exists; a recording would", record=path)
        path.unlink()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "a second sequence began, and a trace holds one"), torch.no_grad():
            with kvloupe.sparse(self.model, "h2o:budget_tokens=8", chunk_size=16, record=path):
                self.model(self.ids)
                self.model(self.ids[:, 5:])


if __name__ == "__main__":
    unittest.main()
