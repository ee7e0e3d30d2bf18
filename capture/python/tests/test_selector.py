"""kvloupe.Selector keeps what the program keeps, of the same numbers."""
import shutil
import unittest

import h5py
import numpy as np
import torch

import kvloupe
from kvloupe.spec_facts import spec_facts

from .selector_cases import BY_BASIS, FREE, Stored, arrays, by_program, captured, phase_of, plain, with_files
from .support import program, program_json, scratch


class SameAsTheProgram(unittest.TestCase):
    def compare(self, path, spec, stored, order=None, change=lambda array: array):
        cells, alive = by_program(path, spec)
        chosen = 0
        with stored.selector(spec) as selector:
            for layer, index in order or stored.live_order():
                rows = [row.tolist() for row in selector.select(layer, **stored.inputs(layer, index, change))]
                want, reason = cells[layer, index]
                if want is None:  # lanes alone are pruned: every key that some row sees is kept
                    chunk, window = stored.chunks[index], stored.windows[layer]
                    first = max(0, chunk.begin - window + 1) if window else 0
                    want = [list(range(first, chunk.begin))] * selector.num_rows
                self.assertEqual(rows, want, (spec, layer, index))
                self.assertEqual(selector.dense_reason, reason, (spec, layer, index))
                self.assertEqual(len(rows), selector.num_rows)
                chosen += reason is None
            for layer, want in alive.items():
                self.assertEqual([row.tolist() for row in selector.alive(layer)], want, (spec, layer))
        return chosen

    def compare_all(self, family, dtype, specs, decodes=True):
        path = captured(family, dtype)
        stored = Stored(path)
        self.assertGreater(len(stored.chunks), 12)
        self.assertEqual("decode" in {phase_of(chunk) for chunk in stored.chunks}, decodes)
        for spec in specs:
            with self.subTest(family=family, dtype=dtype, spec=spec):
                chosen = self.compare(path, spec, stored)
                if spec != "dense":
                    self.assertGreater(chosen, 0, "nothing was chosen, so nothing was tested")

    def test_every_method_is_named_here(self):
        named = {spec.split(":")[0] for spec in FREE + sum(BY_BASIS.values(), [])} | {"seer_attention", "minference"}
        self.assertEqual(named, {method["id"] for method in program_json("methods")["methods"]})

    def test_float32_with_files(self):
        self.compare_all("qwen3", "f32", FREE + with_files())

    def test_float16(self):
        self.compare_all("qwen3", "f16", FREE + with_files())

    def test_layers_with_windows(self):
        self.compare_all("gemma3_text", "f32", FREE)

    def test_layers_with_sinks_and_windows(self):
        self.compare_all("gpt_oss", "f16", [spec for spec in FREE if "start=decode" not in spec], decodes=False)  # it ends at once

    def test_layer_after_layer_and_arrays_of_torch(self):
        path = captured("qwen3", "f32")
        stored = Stored(path)
        order = [(layer, index) for layer in stored.layers for index in range(len(stored.chunks))]
        apart = lambda array: torch.from_numpy(array).transpose(0, 1).contiguous().transpose(0, 1)  # noqa: E731
        for spec in ("quoka:budget_tokens=24", "h2o:budget_tokens=24", "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=2"):
            for change in (lambda array: array, torch.from_numpy, apart, lambda array: torch.from_numpy(array).requires_grad_()):
                self.compare(path, spec, stored, order, change)

    def test_blocks_are_what_a_run_stores(self):
        path, chose = captured("qwen3", "f32"), set()
        stored = Stored(path)
        for spec in FREE + with_files():
            facts = spec_facts(spec)
            if facts["block_size"] is None:
                continue
            with stored.selector(spec) as selector, self.subTest(spec=spec):
                scratch("selector-blocks.h5.runs.h5").unlink(missing_ok=True)
                shutil.copy(path, scratch("selector-blocks.h5"))
                program("select", scratch("selector-blocks.h5"), "--method", spec, "--save", "--threads", 1)
                with h5py.File(scratch("selector-blocks.h5.runs.h5"), "r", locking=False) as file:
                    run = file["runs/0"]
                    want = {layer: {name: run[f"layers/{layer}/{name}"][:] for name in ("block_mask", "block_forced", "block_abstains")} for layer in stored.layers}
                    self.assertEqual((run.attrs["block_size"], run.attrs["lowering"]), (facts["block_size"], facts["lowering"]))
                for layer in stored.layers:
                    chose |= self.compare_blocks(selector, stored, layer, want[layer], spec)
        self.assertEqual(chose, {"flash_prefill", "xattention", "flex_prefill", "compact_attention", "seer_attention", "minference"})

    def test_others_have_no_blocks(self):
        with plain("quoka:budget_tokens=4") as selector:
            selector.select(0, *arrays(), 0)
            with self.assertRaisesRegex(kvloupe.KvloupeError, "quoka has no blocks"):
                selector.blocks()

    def compare_blocks(self, selector, stored, layer, want, spec):
        masks, votes, chose = 0, 0, set()
        for index, chunk in enumerate(stored.chunks):
            selector.select(layer, **stored.inputs(layer, index))
            blocks, (heads, size) = selector.blocks(), (stored.model["num_q_heads"], spec_facts(spec)["block_size"])
            total, queries = -(-chunk.end // size), -(-chunk.end // size) - chunk.begin // size
            count = heads * queries * -(-total // 8)
            self.assertEqual(blocks is None, selector.dense_reason is not None)
            if blocks is not None:
                self.assertEqual((blocks.size, blocks.past, blocks.kept.shape), (size, chunk.begin, (heads, queries, total)))
                for ours, name in ((blocks.kept, "block_mask"), (blocks.forced, "block_forced")):
                    stored_bits = np.unpackbits(want[name][masks : masks + count].reshape(heads, queries, -1), axis=-1, bitorder="little")[..., :total]
                    np.testing.assert_array_equal(ours, stored_bits, f"{spec}, layer {layer}, chunk {index}, {name}")
                np.testing.assert_array_equal(blocks.abstains, want["block_abstains"][votes : votes + queries])
                chose.add(spec.split(":")[0])
            masks, votes = masks + count, votes + queries
        self.assertEqual(masks, len(want["block_mask"]))
        return chose

    def test_a_method_without_a_memory_may_begin_anywhere(self):
        path = captured("qwen3", "f32")
        stored, index = Stored(path), 9
        evicting = {method["id"] for method in program_json("methods")["methods"] if method["state_action"] == "eviction"}
        for spec in FREE + with_files():
            with stored.selector(spec) as selector, self.subTest(spec=spec):
                try:
                    selector.reset(past=stored.chunks[index].begin, chunk=index)
                except kvloupe.KvloupeError as error:
                    self.assertIn("cannot begin at position", str(error))
                    self.assertIn(spec.split(":")[0], evicting)
                    continue
                cells = by_program(path, spec)[0]
                for at in range(index, len(stored.chunks)):
                    for layer in stored.layers:
                        rows = selector.select(layer, **stored.inputs(layer, at))
                        if cells[layer, at][0] is not None:
                            self.assertEqual([row.tolist() for row in rows], cells[layer, at][0], (layer, at))

    def test_a_fork_goes_its_own_way(self):
        stored = Stored(captured("qwen3", "f32"))
        order = stored.live_order()
        for spec in FREE + with_files():
            with stored.selector(spec) as selector, self.subTest(spec=spec):
                half = len(order) // 2 + 1  # between two layers of a chunk
                for layer, index in order[:half]:
                    last = selector.select(layer, **stored.inputs(layer, index))
                fork, other = selector.fork(), selector.fork()
                self.assertEqual(fork.spec, selector.spec)
                # The other one sees other keys in the same places.
                for layer, index in order[half : half + 6]:
                    given = stored.inputs(layer, index)
                    begin = given["past"]
                    given["k"] = np.concatenate([given["k"][:, :begin], -3 * given["k"][:, begin:]], axis=1)
                    other.select(layer, **given)
                other.close()
                self.assertEqual(len(last), fork.num_rows)
                want = [[row.tolist() for row in selector.select(layer, **stored.inputs(layer, index))] for layer, index in order[half:]]
                selector.close()
                found = [[row.tolist() for row in fork.select(layer, **stored.inputs(layer, index))] for layer, index in order[half:]]
                self.assertEqual(found, want)
                fork.close()

    def test_bfloat16_is_widened_as_it_is(self):
        stored = Stored(captured("qwen3", "f32"))
        for spec in FREE + with_files():
            with self.subTest(spec=spec), stored.selector(spec) as wide, stored.selector(spec) as narrow:
                for layer, index in stored.live_order():
                    rounded = narrow.select(layer, **stored.inputs(layer, index, lambda array: torch.from_numpy(array).bfloat16()))
                    same = wide.select(layer, **stored.inputs(layer, index, lambda array: torch.from_numpy(array).bfloat16().float().numpy()))
                    self.assertEqual([row.tolist() for row in rounded], [row.tolist() for row in same])
                    self.assertEqual(narrow.dense_reason, wide.dense_reason)

    def test_after_a_reset_all_begins_anew(self):
        path = captured("qwen3", "f32")
        stored = Stored(path)
        cells, _ = by_program(path, "random:budget_tokens=24")
        with stored.selector("random:budget_tokens=24") as selector, stored.selector("h2o:budget_tokens=24") as evicting:
            first = [selector.select(*given) for given in [(0, *stored.arrays[0][:2], None, 0)]]
            self.assertEqual(len(first[0]), selector.num_rows)
            # In the middle: a method without a memory needs no chunk before.
            index = 5
            selector.reset(past=stored.chunks[index].begin, chunk=index)
            rows = selector.select(1, **stored.inputs(1, index))
            self.assertEqual([row.tolist() for row in rows], cells[1, index][0])
            for _ in range(2):
                evicting.reset()
                for at in range(4):
                    rows = evicting.select(0, **stored.inputs(0, at))
            self.assertEqual([row.tolist() for row in rows], by_program(path, "h2o:budget_tokens=24")[0][0, 3][0])
            with self.assertRaisesRegex(kvloupe.KvloupeError, "h2o cannot begin at position 24; what is alive there"):
                evicting.reset(past=24)

if __name__ == "__main__":
    unittest.main()
