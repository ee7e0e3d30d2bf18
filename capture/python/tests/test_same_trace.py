"""The program's own capture of a folder and a recording of the same tokens in transformers are one trace."""
import json
import unittest

import numpy as np
import torch
import transformers

import kvloupe

from .support import CHUNK, FAMILIES, MODELS, load_model, load_tokenizer, program, program_json, scratch

PROMPT = "the cat and the dog sat on the mat in the rain, and then they ran"
METHODS = ["oracle:budget_tokens=8", "quoka:budget_tokens=8,num_queries=4", "snapkv:budget_tokens=8,window=4", "keydiff:budget_tokens=8",
           "h2o:budget_tokens=8"]
# Selections may differ in keys that lie at the cut; there are few of those.
MOST_DIFFERING_CELLS = 0.02


def captured(family, dtype):
    path = scratch(f"captured-{family}-{dtype}.h5")
    prompt = scratch("prompt.txt")
    prompt.write_text(PROMPT)
    program("capture", "--model", MODELS / family, "--prompt-file", prompt, "--raw", "--chunk-size", CHUNK, "--dtype", dtype,
            "--max-new-tokens", 3, "--compute", "fp32", "-o", path)
    return path


def recorded_again(family, path, dtype):
    """A recording of the tokens of a trace, chunk by chunk."""
    again = scratch(f"recorded-{family}-{dtype}.h5")
    with kvloupe.open(path) as trace:
        ids, chunks = torch.from_numpy(trace.tokens).long()[None], trace.chunks
    model = load_model(family)
    cache = transformers.DynamicCache(config=model.config)
    with kvloupe.record(model, again, tokenizer=load_tokenizer(family), chunk_size=CHUNK, dtype=dtype), torch.no_grad():
        prefilled = sum(chunk.length for chunk in chunks if chunk.phase == "prefill")
        model(ids[:, :prefilled], past_key_values=cache)
        for at in range(prefilled, ids.shape[1]):
            model(ids[:, at : at + 1], past_key_values=cache)
    return again


def selected(path, method):
    """Sets of all cells, in the order of the program's answer."""
    return [row["selected"] for layer in program_json("select", path, "--method", method)["layers"] for chunk in layer["chunks"]
            for name in ("kv_heads", "q_heads", "subgroups") for row in chunk.get(name, ())]


class SameTrace(unittest.TestCase):
    def test_every_family(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                path = captured(family, "f32")
                again = recorded_again(family, path, "float32")
                self.check_description(path, again)
                self.check_values(path, again, 2e-4)
                self.check_selections(path, again)
                path = captured(family, "f16")
                self.check_values(path, recorded_again(family, path, "float16"), 4e-3)

    def check_description(self, path, again):
        with kvloupe.open(path) as trace, kvloupe.open(again) as recording:
            for name, value in trace.model.items():
                other = recording.model[name]
                if name == "rope_scaling" and value != "none":
                    value, other = json.loads(value), json.loads(other)
                if isinstance(value, float):
                    self.assertAlmostEqual(value, other, 6, name)
                elif name not in ("name", "architecture"):
                    self.assertEqual(value, other, name)
            self.assertEqual(trace.chunks, recording.chunks)
            self.assertEqual(trace.text(), recording.text())
            self.assertEqual(trace.tokens.tolist(), recording.tokens.tolist())

    def check_values(self, path, again, tolerance):
        with kvloupe.open(path) as trace, kvloupe.open(again) as recording:
            self.assertEqual(trace.layers, recording.layers)
            for layer in trace.layers:
                ours, other = trace.layer(layer), recording.layer(layer)
                self.assertEqual((ours.window, ours.softcap), (other.window, other.softcap))
                if ours.sinks is not None or other.sinks is not None:
                    np.testing.assert_allclose(ours.sinks, other.sinks)
                for name in "qkv":
                    expected = np.asarray(getattr(recording, name)(layer), np.float32)
                    found = np.asarray(getattr(trace, name)(layer), np.float32)
                    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max(), err_msg=f"{name} of layer {layer}")
                np.testing.assert_allclose(trace.lse(layer), recording.lse(layer), atol=10 * tolerance)

    def check_selections(self, path, again):
        for method in METHODS:
            ours, other = selected(path, method), selected(again, method)
            self.assertEqual(len(ours), len(other))
            differing = sum(one != two for one, two in zip(ours, other))
            self.assertLessEqual(differing, MOST_DIFFERING_CELLS * len(ours), method)


if __name__ == "__main__":
    unittest.main()
