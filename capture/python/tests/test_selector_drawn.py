"""kvloupe.Selector keeps what the program keeps, in cells of drawn numbers and shapes."""
import os
import subprocess
import unittest

import h5py
import numpy as np

import kvloupe
from kvloupe.import_trace import import_trace

from . import test_selector
from .file_cases import specs_with_files
from .selector_cases import FREE, Stored
from .support import program, program_json, scratch

# layers, query heads, KV heads, channels, tokens, chunk size, decoded tokens, type
SHAPES = [(3, 6, 2, 16, 150, 24, 3, "float32"), (4, 4, 4, 8, 143, 17, 2, "float16"), (3, 8, 2, 32, 190, 48, 0, "float32")]
# Tokens of the probe.
PROBE = 5


def drawn(seed, layers, q_heads, kv_heads, dim, tokens, chunk_size, decoded, dtype):
    """The path of a trace of such a shape: keys with a few directions that many have, so that methods tell them apart."""
    draw, path = np.random.default_rng(seed), scratch(f"drawn-{seed}.h5")

    def rows(heads):
        common = draw.standard_normal((layers, heads, 4, dim))
        return np.take_along_axis(common, draw.integers(0, 4, (layers, heads, tokens, 1)), 2) * 2 + draw.standard_normal((layers, heads, tokens, dim))
    for name, heads in (("q", q_heads), ("k", kv_heads), ("v", kv_heads)):
        np.save(scratch(f"{name}.npy"), rows(heads).astype(np.float32))
    import_trace(path, *(scratch(f"{name}.npy") for name in "qkv"), chunk_size=chunk_size, dtype=dtype, rope_theta=10000.0, force=True)
    prefill = tokens - decoded
    begins = [*range(0, prefill, chunk_size), *range(prefill, tokens)]
    lengths = np.diff([*begins, tokens])
    with h5py.File(path, "r+") as file:
        for name, values in (("begin", begins), ("length", lengths), ("phase", [int(begin >= prefill) for begin in begins])):
            del file[f"chunks/{name}"]
            file[f"chunks/{name}"] = np.array(values, "u1" if name == "phase" else "<i4")
        file.attrs.modify("chunks_done", np.int64(len(begins)))
        probe = file.create_group("probe")
        probe.attrs["text"], probe.attrs["num_tokens"] = "what was said?", np.int64(PROBE)
        count = sum(begin < prefill for begin in begins)
        for layer in range(layers):
            file[f"layers/{layer}/probe_q"] = draw.standard_normal((count, q_heads, PROBE, dim)).astype(dtype)
        file["model"].attrs["file_hash"] = "ab" * 32  # by which a basis is known to be of this model
        file["tokens/nll"] = np.append(np.inf, draw.exponential(size=tokens - 1)).astype("<f4")
    return path


class Drawn(unittest.TestCase):
    compare = test_selector.SameAsTheProgram.compare

    def test_every_method(self):
        for seed, shape in enumerate(SHAPES):
            path = drawn(seed, *shape)
            self.assertIn("sound", program("validate", path))
            stored, chosen, refused = Stored(path), set(), set()
            for spec in FREE + specs_with_files(path):
                with self.subTest(shape=shape, spec=spec):
                    try:
                        stored.selector(spec).close()
                    except kvloupe.KvloupeError:
                        self.assertTrue(is_refused(path, spec))
                        refused.add(spec.split(":")[0])
                        continue
                    if self.compare(path, spec, stored) > 0:
                        chosen.add(spec.split(":")[0])
            everything = {method["id"] for method in program_json("methods")["methods"]} - {"dense"}
            self.assertEqual(everything - chosen, refused - chosen)
            # Sub-groups of two heads do not divide a group of three, or of one.
            self.assertLessEqual(refused, {"compact_attention"} if seed < 2 else set())


def is_refused(path, spec):
    done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], "select", path, "--method", spec, "--json"], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode != 0 and done.stderr.startswith("error: ")


if __name__ == "__main__":
    unittest.main()
