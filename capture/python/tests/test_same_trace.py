"""The program's own capture of a folder against a recording of the same weights on the same tokens."""
import functools
import unittest

import numpy as np
import torch

import kvloupe

from .support import CHUNK, FAMILIES, MODELS, load_model, program, program_json, scratch

TEXT = "The one in the end, then there are others: 12 of them.\n"
METHODS = ["oracle:budget_tokens=8", "quoka:budget_tokens=8,num_queries=4", "tova:budget_tokens=8"]
# Of the largest value. In f16 the program goes on from the rounded values (what a trace stores is what its model attends to).
TOLERANCES = {"f32": ("float32", 1e-4), "f16": ("float16", 5e-3)}


@functools.lru_cache(maxsize=None)
def both(family, dtype):
    """Paths of the program's trace and of the recording."""
    own, recorded = scratch(f"own-{family}-{dtype}.h5"), scratch(f"same-{family}-{dtype}.h5")
    text = scratch("text.txt")
    text.write_text(TEXT)
    program("capture", "--model", MODELS / family, "--raw", "--prompt-file", text, "--chunk-size", CHUNK, "--dtype", dtype,
            "-o", own)
    ids = torch.tensor(kvloupe.open(own).tokens[None].astype(np.int64))
    with kvloupe.record(load_model(family), recorded, chunk_size=CHUNK, dtype=TOLERANCES[dtype][0]), torch.no_grad():
        load_model(family)(ids)
    return own, recorded


class SameTrace(unittest.TestCase):
    def test_queries_keys_and_values(self):
        for family in FAMILIES:
            for dtype, (_, tolerance) in TOLERANCES.items():
                own, recorded = (kvloupe.open(path) for path in both(family, dtype))
                self.assertEqual([tuple(chunk) for chunk in own.chunks], [tuple(chunk) for chunk in recorded.chunks])
                for layer in own.layers:
                    for name in ("q", "k", "v", "lse"):
                        ours, theirs = (np.asarray(getattr(trace, name)(layer)[...], np.float64) for trace in (own, recorded))
                        self.assertLessEqual(np.abs(ours - theirs).max(), tolerance * np.abs(theirs).max(), (family, layer, name))

    def test_what_the_header_says(self):
        for family in FAMILIES:
            own, recorded = (kvloupe.open(path).model for path in both(family, "f32"))
            for key in ("architecture", "num_layers", "num_q_heads", "num_kv_heads", "head_dim", "hidden_size", "rope_theta",
                        "rope_pairing", "layer_types", "file_hash"):
                self.assertEqual(own[key], recorded[key], (family, key))
            self.assertAlmostEqual(own["softmax_scale"], recorded["softmax_scale"])

    def test_selections(self):
        for family in FAMILIES:
            own, recorded = both(family, "f32")
            for method in METHODS:
                ours, theirs = (program_json("select", path, "--method", method) for path in (own, recorded))
                rows = other = 0
                for layer, same_layer in zip(ours["layers"], theirs["layers"], strict=True):
                    for cell, same_cell in zip(layer["chunks"], same_layer["chunks"], strict=True):
                        for row, same_row in zip(cell["kv_heads"], same_cell["kv_heads"], strict=True):
                            rows += 1
                            other += row["selected"] != same_row["selected"]
                self.assertGreater(rows, 0)
                self.assertEqual(other, 0, f"{family} {method}: {other} of {rows} rows differ")


if __name__ == "__main__":
    unittest.main()
