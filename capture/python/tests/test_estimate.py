"""What a recording is said to take, against the arrays that were stored."""
import unittest

import h5py

import kvloupe

from .support import CHUNK, FAMILIES, STEPS, load_model, prompt, recorded


def stored(path):
    """{part: bytes} of the arrays in a trace."""
    sizes = {}
    with h5py.File(path) as file:
        for layer in file["layers"].values():
            for part, names in (("qkv", "qkv"), ("lse", ["lse"]), ("mass", ["key_mass"])):
                for name in names:
                    if name in layer:
                        sizes[part] = sizes.get(part, 0) + layer[name].nbytes
    return {**sizes, "bytes": sum(sizes.values())}


class Estimate(unittest.TestCase):
    def test_it_is_what_is_stored(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                said = kvloupe.estimate(load_model(family), prompt(family).shape[1], new_tokens=STEPS + 1, chunk_size=CHUNK, dtype="float32")
                self.assertEqual(said, stored(recorded(family)))

    def test_of_some_layers_and_parts(self):
        model, tokens = load_model("qwen3"), 64
        whole = kvloupe.estimate(model, tokens, store=("qkv", "lse", "mass"))
        one = kvloupe.estimate(model, tokens, layers=[1], store=("qkv", "lse", "mass"))
        self.assertEqual({part: size * model.config.num_hidden_layers for part, size in one.items()}, whole)
        self.assertEqual(set(kvloupe.estimate(model, tokens, store=("qkv",))), {"qkv", "bytes"})
        self.assertEqual(kvloupe.estimate(model, tokens, dtype="float32")["qkv"], 2 * whole["qkv"])
        # Of a long text the mass is left out, as it would be.
        self.assertNotIn("mass", kvloupe.estimate(model, 100_000))

    def test_refusals(self):
        for words, options in (("0 tokens", dict(tokens=0)), ("layers=[99]", dict(tokens=8, layers=[99])), ("chunk", dict(tokens=8, chunk_size=0))):
            with self.subTest(words=words), self.assertRaises(kvloupe.KvloupeError) as caught:
                kvloupe.estimate(load_model("qwen3"), **options)
            self.assertIn(words.split("=")[0], str(caught.exception))


if __name__ == "__main__":
    unittest.main()
