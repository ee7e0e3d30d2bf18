"""A method of one's own: what a function or an array says is what the program reads, and what is none is refused."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import h5py
import numpy as np
import torch

import kvloupe

from .support import load_model, program, program_json, prompt, recorded, scratch

os.environ.setdefault("KVLOUPE_PYTHON", sys.executable)


def copy_of(family, name):
    path = scratch(f"own-{name}.h5")
    for end in ("", ".runs.h5"):
        if os.path.exists(f"{path}{end}"):
            os.unlink(f"{path}{end}")
    shutil.copy(recorded(family), path)
    return path


def selected_by_program(path, method, trace, layer):
    """{(chunk, row): positions} of the cells that chose."""
    report = program_json("select", path, "--method", method, "--layer", str(layer))
    cells = {}
    for chunk in report["layers"][0]["chunks"]:
        for i, row in enumerate(chunk.get("kv_heads", chunk.get("q_heads"))):
            cells[chunk["chunk"], i] = row["selected"] if chunk["dense_reason"] is None else None
    return cells


def last_keys(count):
    """The newest keys: a rule that plain arithmetic knows."""
    return lambda layer, chunk, q, k, v: [np.arange(max(0, k.shape[1] - count), k.shape[1]) for _ in range(k.shape[0])]


class OwnMethod(unittest.TestCase):
    def test_what_a_function_returns_is_what_the_program_reads(self):
        path, seen = copy_of("llama", "forms"), []

        def positions(layer, chunk, q, k, v):
            seen.append((layer, chunk, q.shape, k.shape, v.shape, q.dtype))
            return [range(row, k.shape[1], row + 2) for row in range(k.shape[0])]

        def mask(layer, chunk, q, k, v):
            kept = np.zeros(k.shape[:2], bool)
            for row in range(k.shape[0]):
                kept[row, row :: row + 2] = True
            return kept

        def scores(layer, chunk, q, k, v):
            return np.stack([[-float(j % 7) for j in range(k.shape[1])]] * k.shape[0])

        with kvloupe.open(path) as trace:
            model, chunks = trace.model, trace.chunks
            for name, function, budget in (("positions", positions, None), ("mask", mask, None), ("scores", scores, 5)):
                trace.add_run(name, function, budget=budget, note="a test")
            for layer, chunk, q, k, v, kind in seen:
                at = chunks[chunk]
                self.assertEqual((q, k, v, kind), ((model["num_q_heads"], at.length, model["head_dim"]), (model["num_kv_heads"], at.begin, model["head_dim"]),
                                                   (model["num_kv_heads"], at.begin, model["head_dim"]), np.float32))
            self.assertEqual({layer for layer, *_ in seen}, set(trace.layers))
            for layer in trace.layers:
                for name, want in (("positions", lambda row, past: list(range(row, past, row + 2))), ("mask", lambda row, past: list(range(row, past, row + 2))),
                                   ("scores", lambda row, past: sorted(sorted(range(past), key=lambda j: (j % 7, j))[:5]))):
                    for (chunk, row), kept in selected_by_program(path, f"custom:{name}", trace, layer).items():
                        past = chunks[chunk].begin
                        everything = past == 0 or (name == "scores" and past <= 5)
                        self.assertEqual(kept, None if everything else want(row, past), (name, layer, chunk, row))
        self.assertIn("sound", program("validate", path))
        listed = [run["method"] for run in program_json("info", path)["runs"]]
        self.assertEqual(listed[-3:], ["custom:positions", "custom:mask", "custom:scores"])

    def test_a_method_written_here_keeps_what_the_program_s_own_keeps(self):
        """uniform_queries: four rows of the chunk, the mean of a key's cosines over the group's heads, and of these the largest."""
        path = copy_of("qwen3", "uniform")

        def uniform(layer, chunk, q, k, v):
            m = q.shape[1]
            rows = [(2 * i + 1) * m // 8 for i in range(4)] if m > 4 else list(range(m))
            unit = lambda x: x / np.linalg.norm(x, axis=2, keepdims=True)  # noqa: E731
            group = len(q) // len(k)
            cosines = np.einsum("hnd,hpd->hnp", unit(q[:, rows]), np.repeat(unit(k), group, axis=0))
            return cosines.reshape(len(k), group, len(rows), -1).mean(axis=1).max(axis=1)

        with kvloupe.open(path) as trace:
            trace.add_run("uniform", uniform, budget=6)
            for layer in trace.layers:
                ours, own = (selected_by_program(path, method, trace, layer) for method in ("uniform_queries:budget_tokens=6,num_queries=4", "custom:uniform"))
                self.assertGreater(sum(kept is not None for kept in ours.values()), 4)
                self.assertEqual(ours, own, layer)

    def test_tensors_of_torch_in_place_of_arrays(self):
        path, seen = copy_of("llama", "torch"), []

        def scores(layer, chunk, q, k, v):
            seen.append({type(given) for given in (q, k, v)} | {given.dtype for given in (q, k, v)})
            q, k = (torch.tensor(given) if isinstance(given, np.ndarray) else given for given in (q, k))
            return torch.einsum("gnd,gpd->gp", q.unflatten(0, (len(k), -1)).mean(1), k)

        with kvloupe.open(path) as trace:
            kept = []
            for name, arrays in (("of-numpy", "numpy"), ("of-torch", "torch")):
                run = trace.add_run(name, scores, budget=5, arrays=arrays)
                kept.append([run.selected(layer, chunk, row).tolist() for layer in trace.layers for chunk in range(len(trace.chunks)) for row in range(run.num_rows)])
            self.assertEqual(*kept)
            self.assertEqual(seen[-1], {torch.Tensor, torch.float32})
            self.assertEqual(seen[0], {np.ndarray, np.dtype(np.float32)})
            with torch.inference_mode():
                trace.add_run("inference", lambda layer, chunk, q, k, v: scores(layer, chunk, q, k, v).bfloat16(), budget=5, arrays="torch")

            def changes(layer, chunk, q, k, v):
                k[0] *= 2
                return torch.zeros(k.shape[:2])

            def changes_a_view(layer, chunk, q, k, v):
                v.transpose(0, 1)[0].zero_()
                return torch.zeros(k.shape[:2])

            runs = len(trace.runs)
            for select in (changes, changes_a_view):
                for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
                    with self.assertRaisesRegex(kvloupe.KvloupeError, "the method changed its arrays in layer 0, chunk 1; .*; change a copy"), mode():
                        trace.add_run("changes", select, budget=5, arrays="torch")
            for arrays in ("jax", None, 3, ["torch"], np.array(["torch", "numpy"])):
                with self.assertRaisesRegex(kvloupe.KvloupeError, "arrays=.* is unknown; "):
                    trace.add_run("none", scores, budget=5, arrays=arrays)
            with mock.patch.dict("sys.modules", torch=None), self.assertRaisesRegex(kvloupe.KvloupeError, "torch is not installed"):
                trace.add_run("none", scores, budget=5, arrays="torch")
            self.assertEqual(len(trace.runs), runs)

    def test_rows_of_query_heads_and_some_layers(self):
        path = copy_of("llama", "q-heads")
        with kvloupe.open(path) as trace:
            run = trace.add_run("by-head", lambda layer, chunk, q, k, v: [[0]] * len(q), rows="q_head", layers=[trace.layers[-1]])
            self.assertEqual((run.row_axis, run.num_rows, run.layers), ("q_head", trace.model["num_q_heads"], [trace.layers[-1]]))
            self.assertEqual(run.selected(trace.layers[-1], 1, 2).tolist(), [0])
        report = program_json("compare", path, "--method", "custom:by-head")
        self.assertEqual(report["rows"][0]["effective_budget"], 1)

    def test_a_window_bounds_the_candidates(self):
        path = copy_of("gemma3_text", "window")
        with kvloupe.open(path) as trace:
            windowed = [layer for layer in trace.layers if trace.layer(layer).window]
            layer, index = windowed[0], len(trace.chunks) - 1
            first = trace.layer(layer).first_visible(trace.chunks[index].begin)
            self.assertGreater(first, 0)
            run = trace.add_run("few", lambda layer, chunk, q, k, v: np.zeros(k.shape[:2]), budget=2, layers=layer)
            self.assertEqual(run.selected(layer, index, 0).tolist(), [first, first + 1])
            with self.assertRaisesRegex(kvloupe.KvloupeError, f"position 0 of layer {layer}.* candidates; they are"):
                trace.add_run("first", lambda layer, chunk, q, k, v: [[0]] * len(k), layers=layer)
        self.assertIn("sound", program("validate", path))

    def test_scores_are_kept_and_explain_a_key(self):
        path = copy_of("llama", "scores")
        random = np.random.default_rng(3)
        with kvloupe.open(path) as trace:
            layer, index, rows = trace.layers[1], len(trace.chunks) - 1, trace.model["num_kv_heads"]
            given = {}

            def score(layer, chunk, q, k, v):
                given[layer, chunk] = random.random((rows, k.shape[1])).astype(np.float32).round(1)  # with ties
                given[layer, chunk][0, 3] = np.nan
                return given[layer, chunk]

            run = trace.add_run("scored", score, budget=5)
            for (of_layer, chunk), scores in list(given.items()):
                for row in range(rows):
                    np.testing.assert_array_equal(run.scores(of_layer, chunk, row), scores[row])
            self.assertIsNone(run.scores(layer, 0, 0))
            kept, past = run.selected(layer, index, 1).tolist(), trace.chunks[index].begin
            self.assertIsNone(trace.add_run("unscored", lambda layer, chunk, q, k, v: np.zeros((rows, k.shape[1])), budget=5, scores=False).scores(layer, index, 0))
            self.assertIsNone(trace.add_run("listed", last_keys(2)).scores(layer, index, 0))
        self.assertIn("sound", program("validate", path))
        scores = given[layer, index][1]
        order = sorted(range(past), key=lambda key: (-scores[key], key))
        self.assertEqual(sorted(order[:5]), kept)
        for key in (order[0], order[4], order[5], order[-1]):
            told = program_json("explain", path, "--method", "custom:scored", "--layer", str(layer), "--chunk", str(index), "--kv-head", "1", "--key", str(key))
            rank = order.index(key) + 1
            self.assertEqual((told["kept"], told["rank"], told["needed_budget"], told["candidates"]), (rank <= 5, rank, rank, past))
            self.assertAlmostEqual(told["score"], float(scores[key]), places=6)
            self.assertAlmostEqual(told["cut"], float(scores[order[4]]), places=6)
            self.assertEqual(told["lost_at"], None if rank <= 5 else "budget")
        told = program("explain", path, "--method", "custom:scored", "--layer", str(layer), "--chunk", str(index), "--kv-head", "1", "--key", str(order[5]))
        self.assertRegex(told, f"lost: budget[^#]*how they were scored[^#]*rank 6 of {past}[^#]*kept from a budget of 6 on")
        worst = program_json("explain", path, "--method", "custom:scored", "--worst", "3", "--layers", str(layer))
        self.assertEqual({line["lost_at"] for line in worst["keys"]}, {"budget"})
        of_span = program_json("explain", path, "--method", "custom:scored", "--span", "0-20")
        self.assertGreater(sum(row["lost"] for row in of_span["rows"]) if "lost" in of_span["rows"][0] else len(of_span["rows"]), 0)
        told = program_json("explain", path, "--method", "custom:listed", "--layer", str(layer), "--chunk", str(index), "--kv-head", "0", "--key", "0")
        self.assertEqual((told["kept"], told["rank"], told["stages"]), (False, None, []))
        # Scores by which others are the best explain nothing, and are a defect.
        with h5py.File(f"{path}.runs.h5", "r+") as file:
            stored = file[f"runs/0/layers/{layer}/scores"]
            stored[-past:] = -stored[-past:]
        told = program_json("explain", path, "--method", "custom:scored", "--layer", str(layer), "--chunk", str(index), "--kv-head", str(rows - 1), "--key", "0")
        self.assertIsNone(told["rank"])
        with self.assertRaisesRegex(AssertionError, "other keys than the best by its scores"):
            program("validate", path)
        # One that lacks the last of them.
        with h5py.File(f"{path}.runs.h5", "r+") as file:
            scores = file[f"runs/0/layers/{layer}/scores"]
            scores.resize(scores.shape[0] - 1, 0)
        told = program_json("explain", path, "--method", "custom:scored", "--layer", str(layer), "--chunk", str(index), "--kv-head", str(rows - 1), "--key", "0")
        self.assertIsNone(told["rank"])
        with self.assertRaisesRegex(AssertionError, "scores end at"):
            program("validate", path)
        with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "scores of layer"):
            next(run for run in trace.runs if run.method == "custom:scored").scores(layer, index, rows - 1)

    def test_arrays_of_positions_and_masks(self):
        path = copy_of("llama", "arrays")
        with kvloupe.open(path) as trace:
            chunks, layers, tokens, rows = len(trace.chunks), len(trace.layers), trace.num_tokens, trace.model["num_kv_heads"]
            positions = np.full((chunks, layers, 3), -1)
            mask = np.zeros((chunks, layers, rows, tokens), bool)
            for c, chunk in enumerate(trace.chunks):
                if chunk.begin >= 3:
                    positions[c, :, :2] = [2, 0]
                    mask[c, :, 1, : chunk.begin] = True
            run = trace.add_run("listed", positions=positions)
            for c, chunk in enumerate(trace.chunks):
                self.assertEqual(run.selected(trace.layers[0], c, rows - 1).tolist(), [0, 2] if chunk.begin >= 3 else [])
            run = trace.add_run("masked", positions=mask)
            self.assertEqual(len(run.selected(trace.layers[0], chunks - 1, 1)), trace.chunks[-1].begin)
            self.assertEqual(len(run.selected(trace.layers[0], chunks - 1, 0)), 0)
            for bad, why in ((positions[:-1], "first axis is"), (positions[:, :-1], "axis of layers"), (mask[:, :, :-1], "axis of rows"), (mask[..., :-1], "the mask has"),
                             (positions.astype(float), "cannot be taken"), (np.where(positions == 2, -5, positions), "position -5"),
                             (np.where(positions == 2, 10**6, positions), "of the future")):
                with self.assertRaisesRegex(kvloupe.KvloupeError, why):
                    trace.add_run("bad", positions=bad)
            with self.assertRaisesRegex(kvloupe.KvloupeError, "budget=2 cannot be taken"):
                trace.add_run("bad", positions=positions, budget=2)
            # Positions, fewer than the keys, are kept whatever the budget, and a mask can keep all.
            run = trace.add_run("more", last_keys(5), budget=2)
            self.assertEqual(len(run.selected(trace.layers[0], chunks - 1, 0)), 5)
            run = trace.add_run("all", lambda layer, chunk, q, k, v: np.ones(k.shape[:2], bool), budget=2)
            self.assertEqual(len(run.selected(trace.layers[0], chunks - 1, 0)), trace.chunks[-1].begin)
        self.assertIn("sound", program("validate", path))

    def test_a_run_of_the_same_name_is_replaced_and_others_stay(self):
        path = copy_of("llama", "again")
        program("select", path, "--method", "quoka:budget_tokens=6", "--save")
        with kvloupe.open(path) as trace:
            first = trace.add_run("mine", last_keys(4))
            trace.add_run("other", last_keys(2))
            again = trace.add_run("mine", last_keys(3))
            self.assertEqual((first.id, len(again.selected(trace.layers[0], 2, 0))), (again.id, 3))
            methods = [run.method for run in trace.runs]
            self.assertEqual([methods.count(name) for name in ("custom:mine", "custom:other")], [1, 1])
        self.assertEqual(len([run for run in program_json("info", path)["runs"] if run["method"].startswith("quoka:budget_tokens=6")]), 1)
        program("select", path, "--method", "oracle:budget_tokens=6", "--save")  # the program adds to what Python began
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.warnings, [])
            self.assertTrue(any(run.method.startswith("oracle") for run in trace.runs))

    def test_a_trace_without_arrays_keeps_its_type_and_its_runs(self):
        model = load_model("llama")
        for dtype in ("float32", "float16"):
            path = scratch(f"own-bare-{dtype}.h5")
            with kvloupe.record(model, path, chunk_size=8, dtype=dtype, store=("lse",), force=True), torch.no_grad():
                model(prompt("llama"))
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.dtype, {"float32": "f32", "float16": "f16"}[dtype])
                trace.add_run("mine", positions=np.zeros((len(trace.chunks), len(trace.layers), 1), np.int32))
            info = program_json("info", path)
            self.assertEqual(([run["method"] for run in info["runs"]], info["dtype"]), (["custom:mine"], {"float32": "f32", "float16": "f16"}[dtype]))

    def test_a_run_that_is_held_stays_readable(self):
        path = copy_of("llama", "held")
        with kvloupe.open(path) as trace:
            held = trace.add_run("mine", last_keys(4))
            trace.add_run("other", last_keys(2))
            replaced = trace.add_run("mine", last_keys(3))
            self.assertEqual(held.selected(trace.layers[0], 2, 0).tolist(), list(range(trace.chunks[2].begin - 4, trace.chunks[2].begin)))
            self.assertEqual(len(replaced.selected(trace.layers[0], 2, 0)), 3)
            del held, replaced
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):  # No file stays open for a run that nobody holds.
                trace.add_run("other", last_keys(2), layers=0)
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_a_name_that_a_run_of_the_trace_itself_has(self):
        """As after kvloupe slice, which makes the saved runs the new trace's own."""
        path, part = copy_of("llama", "whole"), scratch("own-part.h5")
        with kvloupe.open(path) as trace:
            trace.add_run("mine", last_keys(4))
        program("slice", path, "-o", part)
        methods = scratch("own_part.py")
        methods.write_text("def mine(layer, chunk, q, k, v):\n    return [[0]] * len(k)\n")
        why = "cannot add a run custom:mine to .*own-part.h5; the trace itself holds one of that name, .*; give another name"
        with kvloupe.open(part) as trace:
            with self.assertRaisesRegex(kvloupe.KvloupeError, why):
                trace.add_run("mine", lambda *_: self.fail("it is not asked"))
            with self.assertRaises(AssertionError) as caught:
                program("select", part, "--python", f"{methods}:mine")
            self.assertRegex(str(caught.exception), why)
            run = trace.add_run("mine-again", last_keys(2))
            self.assertEqual((run.method, len(run.selected(0, 2, 0))), ("custom:mine-again", 2))
        self.assertEqual([run["method"] for run in program_json("info", part)["runs"]], ["custom:mine", "custom:mine-again"])

    def test_what_is_no_selection_is_one_sentence_and_nothing_is_written(self):
        path = copy_of("llama", "refused")

        def fails(layer, chunk, q, k, v):
            return undefined_name  # noqa: F821

        def writes(layer, chunk, q, k, v):
            k[:] = 0

        ranks = lambda sign: lambda layer, chunk, q, k, v: sign * np.tile(np.arange(k.shape[1]), (len(k), 1))  # noqa: E731
        ones = lambda value: lambda layer, chunk, q, k, v: [value] * len(k)  # noqa: E731
        with kvloupe.open(path) as trace:
            for function, options, why in (
                    (lambda *_: None, {}, "the function returned None"), (ones([1, 0]), {}, "do not ascend"), (ones([0, 0]), {}, "do not ascend"), (ones([-1]), {}, "position -1 .* is none"),
                    (ones([10**9]), {}, "is none of its candidates"), (lambda *_: [[0]], {}, "1 rows came back"), (ones(np.zeros(3)), {"budget": 2}, "3 values came back"),
                    (lambda layer, chunk, q, k, v: np.zeros(k.shape[:2]), {}, "nothing says how many keys"), (ones(["a"]), {}, "positions are integers"), (ones([[0]]), {}, "one axis"), (ones([True]), {}, "1 values came back"),
                    (fails, {}, r"line \d+ of .*test_own_method.py: NameError"), (writes, {}, "read-only"), (last_keys(2), {"budget": 0}, "no budget"), (last_keys(2), {"rows": "head"}, "unknown"),
                    (last_keys(2), {"layers": [99]}, "layer 99 is not in"), ("quoka", {}, "cannot be called"), (last_keys(2), {"positions": [[[0]]]}, "one of them, not both"),
                    (ranks(1), {"budget": 8}, "integers are positions.*; return scores as floats"),
                    (ranks(-1), {"budget": 8}, "integers are positions.*; return scores as floats"),
                    (None, {"positions": [[[0]]], "budget": 2}, "budget=2 cannot be taken; positions say themselves"),
                    (None, {}, "one of them, not both")):
                with self.assertRaisesRegex(kvloupe.KvloupeError, why):
                    trace.add_run("bad", function, **options)
            for name in ("", "a b", "a,b", "a:b", "../x", "x" * 65, None, "é"):
                with self.assertRaisesRegex(kvloupe.KvloupeError, "is no name for a method"):
                    trace.add_run(name, last_keys(2))
        self.assertFalse(os.path.exists(f"{path}.runs.h5"))
        self.assertEqual([name for name in os.listdir(path.parent) if name.startswith(f"{path.name}.")], [])

    def test_a_sidecar_of_another_trace_or_a_damaged_one_stays_as_it_is(self):
        path, other = copy_of("llama", "mine"), copy_of("qwen3", "theirs")
        with kvloupe.open(other) as trace:
            trace.add_run("mine", last_keys(2))
        for content in (pathlib.Path(f"{other}.runs.h5").read_bytes(), b"no HDF5 file"):
            with open(f"{path}.runs.h5", "wb") as file:
                file.write(content)
            with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "cannot add a run to"):
                trace.add_run("mine", last_keys(2))
            with open(f"{path}.runs.h5", "rb") as file:
                self.assertEqual(file.read(), content)

    def test_a_full_disk_is_one_sentence_and_the_sidecar_stays_as_it_is(self):
        """In a process of its own: HDF5 ended it by a signal."""
        says = """
import resource, sys
import numpy as np
import kvloupe
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
with kvloupe.open(sys.argv[1]) as trace:
    try:
        trace.add_run("other", lambda layer, chunk, q, k, v: [np.arange(k.shape[1])] * k.shape[0])
    except kvloupe.KvloupeError as error:
        print(error)
"""
        path = copy_of("llama", "full")
        with kvloupe.open(path) as trace:
            trace.add_run("first", last_keys(2))
        sidecar = pathlib.Path(f"{path}.runs.h5")
        before = sidecar.read_bytes()
        ended = subprocess.run([sys.executable, "-c", says, path, str(len(before) + 100)], stdout=subprocess.PIPE, text=True)
        self.assertEqual(ended.returncode, 0)
        self.assertRegex(ended.stdout, "^cannot save the run in .*File too large; free some space")
        self.assertEqual(sidecar.read_bytes(), before)
        self.assertEqual(list(path.parent.glob(f"{sidecar.name}?*")), [])

    def test_a_sidecar_leads_to_no_other_file(self):
        path, victim = copy_of("llama", "linked"), scratch("victim.h5")
        with kvloupe.open(path) as trace:
            trace.add_run("mine", last_keys(2))
        shutil.copy(f"{path}.runs.h5", victim)
        before = victim.read_bytes()
        with h5py.File(f"{path}.runs.h5", "r+") as file:
            file["runs/7"] = h5py.ExternalLink(str(victim), "/runs/0")
            file["runs/0"].attrs["method"] = 5  # damaged: it stays where it is
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.add_run("mine", last_keys(3)).id, trace.add_run("mine", last_keys(3)).id)
        with h5py.File(f"{path}.runs.h5", "r+") as file:
            self.assertEqual(sorted(file["runs"]), ["0", "7", "8"])
            del file["runs"]
            file["runs"] = h5py.ExternalLink(str(victim), "/runs")
        with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "its /runs is a link"):
            trace.add_run("mine", last_keys(2))
        self.assertEqual(victim.read_bytes(), before)

    def test_values_that_are_not_finite_are_refused(self):
        path = copy_of("llama", "broken")
        with h5py.File(path, "r+") as file:
            layer = sorted(file["layers"])[0]
            file[f"layers/{layer}/k"][0, 3, 0] = np.nan
        with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "k of layer .* not finite"):
            trace.add_run("mine", last_keys(2))


if __name__ == "__main__":
    unittest.main()
