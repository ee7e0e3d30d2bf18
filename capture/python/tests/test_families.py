"""A recording of each family against what transformers computed, plain numpy, and the program."""
import functools
import unittest

import numpy as np
import torch

import kvloupe

from .support import CHUNK, FAMILIES, STEPS, generate, golden, load_model, plain_softmax, program, program_json, prompt, recorded

WINDOWS = {"mistral": {0: 12, 1: 12, 2: 12}, "gpt_oss": {0: 12, 2: 12}, "gemma3_text": {0: 12, 1: 12, 3: 12}}
SCALES = {"gemma3_text": 20**-0.5, "qwen3": 16**-0.5}
METHODS = ["oracle:budget_tokens=6", "quoka:budget_tokens=6,num_queries=4", "snapkv:budget_tokens=6,window=4", "h2o:budget_tokens=6",
           "sparq:budget_tokens=6"]


def for_each_family(test):
    @functools.wraps(test)
    def run(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                test(self, family)
    return run


class Families(unittest.TestCase):
    @for_each_family
    def test_queries_keys_and_values_are_those_of_the_model(self, family):
        expected, trace = golden(family), kvloupe.open(recorded(family))
        count = prompt(family).shape[1]
        for layer in range(trace.model["num_layers"]):
            for name in "qkv":
                stored = getattr(trace, name)(layer)[:, :count]
                np.testing.assert_allclose(stored, expected[f"layers.{layer}.{name}"], atol=2e-5, rtol=1e-4)

    @for_each_family
    def test_half_precision_stores_the_rounded_values(self, family):
        half, full = kvloupe.open(recorded(family, "float16")), kvloupe.open(recorded(family))
        for layer in full.layers:
            for name in "qkv":
                expected = np.asarray(getattr(full, name)(layer)).astype(np.float16)
                np.testing.assert_array_equal(getattr(half, name)(layer), expected)

    @for_each_family
    def test_tokens_chunks_and_spans(self, family):
        expected, trace = golden(family), kvloupe.open(recorded(family))
        count = prompt(family).shape[1]
        decoded = expected["decode_ids"].tolist()
        self.assertEqual(trace.tokens.tolist(), expected["input_ids"].tolist() + decoded)
        table = [(at, min(CHUNK, count - at), "prefill") for at in range(0, count, CHUNK)]
        table += [(count + step, 1, "decode") for step in range(STEPS)]
        self.assertEqual([tuple(chunk) for chunk in trace.chunks], table)
        self.assertEqual([tuple(span) for span in trace.spans], [("needle", 3, 7)])
        self.assertTrue(trace.complete)
        self.assertEqual(trace.warnings, [])

    @for_each_family
    def test_softmax_of_each_layer(self, family):
        for dtype in ("float32", "float16"):
            trace = kvloupe.open(recorded(family, dtype))
            self.assertAlmostEqual(trace.model["softmax_scale"], SCALES.get(family, 8**-0.5))
            weights = dict(load_model(family).named_parameters())
            for layer in trace.layers:
                window = WINDOWS.get(family, {}).get(layer, 0)
                sinks = weights.get(f"model.layers.{layer}.self_attn.sinks")
                kind = "sliding" if window else "nope" if (family, layer) == ("smollm3", 3) else "full"
                self.assertEqual(trace.layer(layer).window, window)
                self.assertEqual(trace.model["layer_types"][layer], kind)
                sinks = None if sinks is None else sinks.detach().numpy()
                p, lse = plain_softmax(trace.q(layer), trace.k(layer), trace.model["softmax_scale"], window, 0.0, sinks)
                np.testing.assert_allclose(trace.lse(layer), lse, atol=2e-5)
                self.check_mass(trace, layer, p)

    def check_mass(self, trace, layer, p):
        """key_mass as it lies in the file: chunk after chunk, the group's heads and the chunk's rows summed."""
        groups = p.reshape(trace.model["num_kv_heads"], -1, *p.shape[1:])
        expected = [groups[:, :, chunk.begin : chunk.end, : chunk.end].sum((1, 2)).ravel()
                    for chunk in trace.chunks if chunk.phase == "prefill"]
        stored = trace._files[0][f"layers/{layer}/key_mass"][:]
        np.testing.assert_allclose(stored, np.concatenate(expected), atol=1e-4)

    @for_each_family
    def test_attention_gives_the_models_output(self, family):
        trace, count = kvloupe.open(recorded(family)), prompt(family).shape[1]
        for layer in trace.layers:
            group = trace.layer(layer).group_size
            heads = [trace.attention(layer, head, 5, count) @ trace.v(layer)[head // group, :count]
                     for head in range(trace.model["num_q_heads"])]
            output = np.stack(heads, axis=1).reshape(count - 5, -1)
            np.testing.assert_allclose(output, golden(family)[f"layers.{layer}.attention"][5:], atol=1e-4, rtol=1e-4)

    @for_each_family
    def test_outputs_are_unchanged_bit_for_bit(self, family):
        for attention in ("eager", "sdpa") if family != "gpt_oss" else ("eager",):
            model, ids = load_model(family, attention), prompt(family)
            plain = generate(model, ids, output_logits=True, return_dict_in_generate=True)
            with kvloupe.record(model, recorded(family).with_suffix(".twice.h5"), force=True):
                heard = generate(model, ids, output_logits=True, return_dict_in_generate=True)
            again = generate(model, ids, output_logits=True, return_dict_in_generate=True)
            for step, logits in enumerate(plain.logits):
                self.assertTrue(torch.equal(logits, heard.logits[step]))
                self.assertTrue(torch.equal(logits, again.logits[step]))

    @for_each_family
    def test_every_attention_implementation_is_heard_alike(self, family):
        if family == "gpt_oss":
            return  # transformers has no SDPA with sinks.
        eager, sdpa = kvloupe.open(recorded(family)), kvloupe.open(recorded(family, attention="sdpa"))
        for layer in eager.layers:
            np.testing.assert_allclose(sdpa.k(layer), eager.k(layer), atol=1e-4)
            np.testing.assert_allclose(sdpa.lse(layer), eager.lse(layer), atol=1e-4)

    @for_each_family
    def test_the_program_finds_each_sound(self, family):
        for dtype in ("float32", "float16"):
            self.assertIn("sound", program("validate", recorded(family, dtype)))
        info = program_json("info", recorded(family))
        with kvloupe.open(recorded(family)) as trace:
            for key, value in trace.info.items():
                self.assertEqual(info[key], value if key != "model" else {**info["model"], **value}, key)

    @for_each_family
    def test_the_program_selects_on_each(self, family):
        for method in METHODS:
            answer = program_json("select", recorded(family), "--method", method)
            self.check_selection(family, answer)

    def check_selection(self, family, answer):
        trace = kvloupe.open(recorded(family))
        self.assertEqual([entry["layer"] for entry in answer["layers"]], trace.layers)
        for entry in answer["layers"]:
            for cell, chunk in zip(entry["chunks"], trace.chunks):
                candidates = set(range(trace.layer(entry["layer"]).first_visible(chunk.begin), chunk.begin))
                for row in cell.get("kv_heads") or cell["q_heads"]:
                    self.assertLessEqual(set(row["selected"]), candidates)
                    if cell["dense_reason"] is None:
                        self.assertGreater(len(row["selected"]), 0)
                        self.assertTrue(0.0 <= row["mass_recall"] <= 1.0 + 1e-6)

    @for_each_family
    def test_the_oracle_keeps_what_the_recorded_probabilities_say(self, family):
        """The program's selection against the trace's own arithmetic, to which transformers' output was compared."""
        trace, chunk = kvloupe.open(recorded(family)), 2
        begin, end = trace.chunks[chunk].begin, trace.chunks[chunk].end
        answer = program_json("select", recorded(family), "--method", "oracle:budget_tokens=6", "--chunk", chunk)
        for entry in answer["layers"]:
            group = trace.layer(entry["layer"]).group_size
            for row in entry["chunks"][0]["kv_heads"]:
                heads = range(row["kv_head"] * group, (row["kv_head"] + 1) * group)
                mass = sum(trace.attention(entry["layer"], head, begin, end)[:, :begin].sum(0) for head in heads)
                self.assertEqual(row["selected"], sorted(np.argsort(-mass, kind="stable")[:6].tolist()))

    @for_each_family
    def test_the_program_draws_each(self, family):
        path = recorded(family)
        program("export", path, "--view", "kv_map", "--method", METHODS[1], "--png", path.with_suffix(".png"))
        self.assertGreater(path.with_suffix(".png").stat().st_size, 1000)


class Views(unittest.TestCase):
    def test_every_view_draws_a_recording(self):
        path = recorded("llama")
        described = program_json("views")
        views = [view["id"] for view in described["views"] if view["shows"] == "trace"]
        self.assertGreater(len(views), 15)
        methods = {"aqua_lanes": "aqua", "quest_pages": "quest:budget_tokens=6,page_size=2,skip_layers=0",
                   "block_tables": "xattention:lowering=union,block_size=4,stride=2"}
        for view in views:
            with self.subTest(view=view):
                if view == "decode_drift":
                    continue  # It is about losses, which a recording does not have.
                method = methods.get(view, METHODS[1]) + (":basis=self" if view == "aqua_lanes" else "")
                program("export", path, "--view", view, "--method", method, "--goto", "layer=1,chunk=2,key=4", "--csv",
                        path.with_suffix(".csv"))


if __name__ == "__main__":
    unittest.main()
