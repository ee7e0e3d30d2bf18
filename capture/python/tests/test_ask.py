"""Numbers and figures of the program in Python: the same as the command prints, and its refusals as exceptions."""
import ast
import json
import os
import pathlib
import sys
import types
import unittest
import xml.etree.ElementTree

import kvloupe

from .support import ROOT, program, program_json, recorded, scratch
from .test_own_method import copy_of, last_keys

QUOKA = "quoka:budget_tokens=8"
SNAPKV = "snapkv:budget_tokens=8,window=4"


def without_pandas(test):
    """Rows as Records, wherever pandas is installed."""
    def run(self):
        hidden = sys.modules.get("pandas")
        sys.modules["pandas"] = None
        try:
            test(self)
        finally:
            sys.modules.pop("pandas")
            if hidden is not None:
                sys.modules["pandas"] = hidden
    return run


class Tables(unittest.TestCase):
    @without_pandas
    def test_compare_has_the_rows_of_the_command(self):
        trace = kvloupe.open(recorded("qwen3"))
        rows = kvloupe.compare(trace, [QUOKA, SNAPKV], layers=[0, 1], span="needle", scope=["kv_head,layer", "chunk"], cells="own")
        said = program_json("compare", trace.path, "--method", QUOKA, "--method", SNAPKV, "--layers", "0,1", "--span", "needle",
                            "--scope", "layer,kv_head", "--scope", "chunk", "--cells", "own")
        said["rows"] = [row for row in said["rows"] if row["scope"] in ("layer,kv_head", "chunk")]
        for row in said["rows"]:
            row.update(zip(row["scope"].split(","), [row["index"]] if row["scope"] == "chunk" else row["index"]))
            for k, recall in row.pop("recall_at_k", {}).items():
                row[f"recall_at_k_{k}"] = recall
        self.assertEqual(list(rows), said["rows"])
        self.assertTrue(any("recall_at_k_10" in row for row in rows))
        self.assertEqual({(row["layer"], row["kv_head"]) for row in rows if row["scope"] == "layer,kv_head"}, {(0, 0), (0, 1), (1, 0), (1, 1)})
        self.assertEqual(rows.attrs["cells"], "own")

    @without_pandas
    def test_a_sweep_and_a_run_of_the_trace(self):
        path = copy_of("qwen3", "ask")
        trace = kvloupe.open(path)
        run = trace.add_run("newest", last_keys(8))
        rows = kvloupe.compare(trace, [QUOKA, run], sweep={"budget_tokens": [4, 8]})
        self.assertEqual({row["method"].split(":")[0] for row in rows}, {"quoka", "custom"})
        self.assertEqual([row["method"].split(",")[0] for row in rows if row["phase"] == "prefill" and row["method"].startswith("quoka")],
                         ["quoka:budget_tokens=4", "quoka:budget_tokens=8"])

    def test_a_run_of_another_trace(self):
        path = copy_of("qwen3", "run-of-another")
        with kvloupe.open(path) as trace, kvloupe.open(copy_of("qwen3", "asked")) as other:
            run = trace.add_run("mine", last_keys(3), rows="kv_head")
            for ask in (lambda: kvloupe.compare(other, [run]), lambda: kvloupe.explain(other.path, run, layer=0, chunk=1, kv_head=0, key=1)):
                with self.assertRaisesRegex(kvloupe.KvloupeError, "run 0 is not of this trace; it is of .*own-run-of-another.h5"):
                    ask()
            self.assertEqual(kvloupe.explain(os.path.relpath(path), run, layer=0, chunk=1, kv_head=0, key=1)["method"], "custom:mine")

    @without_pandas
    def test_worst_and_latency_are_flat(self):
        path = recorded("qwen3")
        rows = kvloupe.worst(path, QUOKA, 4, layers=1)
        said = program_json("explain", path, "--method", QUOKA, "--layers", "1", "--worst", "4")
        self.assertEqual([row["row_kv_head"] for row in rows], [key["row"]["kv_head"] for key in said["keys"]])
        self.assertEqual(rows.attrs["all"], said["all"])
        times = kvloupe.latency(path, [QUOKA], repetitions=2)
        self.assertEqual(len(times), 1)
        self.assertGreater(times[0]["parts_select"], 0)
        self.assertGreater(times[0]["dense_ms"], 0)

    @without_pandas
    def test_options_of_any_iterable(self):
        path = recorded("qwen3")
        want = kvloupe.compare(path, [QUOKA], layers=[0, 2], scope="layer")
        self.assertEqual({row["layer"] for row in want}, {0, 2})
        for layers in ((i for i in (0, 2)), (0, 2), {0: None, 2: None}, "0,2", iter(["0,2"])):
            self.assertEqual(kvloupe.compare(path, [QUOKA], layers=layers, scope="layer"), want)
        self.assertEqual(kvloupe.compare(path, (one for one in [QUOKA]), layers=[0, 2], scope=(one for one in ["layer"])), want)

    def test_explain_is_the_answer_of_the_command(self):
        path = recorded("qwen3")
        said = program_json("explain", path, "--method", QUOKA, "--layer", "1", "--chunk", "2", "--kv-head", "0", "--key", "5")
        self.assertEqual(kvloupe.explain(path, QUOKA, layer=1, chunk=2, kv_head=0, key=5), said)
        self.assertEqual(kvloupe.explain(path, QUOKA, span="needle", layers=range(2))["schema"], "kvloupe-explain-span/1")

    def test_with_pandas_a_table_is_a_data_frame(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        table = kvloupe.compare(recorded("qwen3"), [QUOKA, SNAPKV], scope="layer")
        self.assertIsInstance(table, pandas.DataFrame)
        said = program_json("compare", recorded("qwen3"), "--method", QUOKA, "--method", SNAPKV, "--scope", "layer")
        expected = [row for row in said["rows"] if row["scope"] == "layer"]
        self.assertEqual(list(table["mass_recall"]), [row["mass_recall"] for row in expected])
        self.assertEqual(list(table["layer"]), [row["index"] for row in expected])
        self.assertEqual(table.attrs["schema"], said["schema"])


class Figures(unittest.TestCase):
    def test_a_figure_is_what_export_draws(self):
        path = recorded("qwen3")
        trace = kvloupe.open(path)
        place = {"layer": 1, "kv_head": 0, "chunk": 2}
        figure = trace.figure("kv_map", method=[QUOKA, SNAPKV], goto=place, show="both", theme="dark", size="900x600")
        drawn = program("export", path, "--view", "kv_map", "--method", QUOKA, "--method", SNAPKV, "--goto", "layer=1,kv_head=0,chunk=2",
                        "--show", "both", "--theme", "dark", "--size", "900x600", "--svg", "-")
        self.assertEqual(figure.data.decode(), drawn)
        self.assertEqual(figure._repr_svg_(), drawn)
        self.assertIsNone(figure._repr_png_())
        file = scratch("figure.png")
        picture = trace.figure("kv_map", method=QUOKA, form="png")
        picture.save(file)
        self.assertEqual(file.read_bytes(), picture._repr_png_())
        self.assertTrue(picture.data.startswith(b"\x89PNG"))


class Refusals(unittest.TestCase):
    def refused(self, words, ask):
        with self.assertRaises(kvloupe.KvloupeError) as caught:
            ask()
        said = str(caught.exception)
        self.assertIn(words, said)
        self.assertEqual(said.count("; "), 2, said)

    def test_what_the_program_refuses_is_its_sentence(self):
        path = recorded("qwen3")
        self.refused("no such file", lambda: kvloupe.compare(scratch("none.h5"), QUOKA))
        self.refused("budget_token", lambda: kvloupe.compare(path, "quoka:budget_token=3"))
        self.refused("--nonsense", lambda: kvloupe.compare(path, QUOKA, nonsense=3))
        self.refused("layer", lambda: kvloupe.explain(path, QUOKA, layer=99, chunk=2, kv_head=0, key=5))
        self.refused("no row has the scope", lambda: kvloupe.compare(path, QUOKA, scope=[]))
        for empty in ([], (), iter([])):
            self.refused("layers cannot be taken; it is empty", lambda: kvloupe.compare(path, QUOKA, layers=empty))
        self.refused("method cannot be taken; it is empty", lambda: kvloupe.compare(path, []))
        self.refused("is not a scope", lambda: kvloupe.compare(path, QUOKA, scope="nothing"))
        self.refused("no view has this id", lambda: kvloupe.open(path).figure("kv_mop"))
        self.refused("no form", lambda: kvloupe.open(path).figure("kv_map", form="bmp"))
        # A path that looks like an option stays a path, and a NUL ends nothing.
        self.refused("no such file", lambda: kvloupe.compare("--help", QUOKA))
        self.refused("null byte", lambda: kvloupe.compare(path, "quoka\0"))

    def test_without_a_program_it_says_how_to_get_one(self):
        named = os.environ["KVLOUPE_PROGRAM"]
        try:
            os.environ["KVLOUPE_PROGRAM"] = str(scratch("no_program"))
            self.refused("KVLOUPE_PROGRAM", lambda: kvloupe.compare(recorded("qwen3"), QUOKA))
        finally:
            os.environ["KVLOUPE_PROGRAM"] = named


class Notebook(unittest.TestCase):
    def test_it_runs_and_shows_what_it_says(self):
        notebook = json.loads((ROOT / "docs/notebooks/first_look.ipynb").read_text())
        space, shown = types.SimpleNamespace().__dict__, []
        before = pathlib.Path.cwd()
        os.chdir(ROOT)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] != "code":
                    continue
                self.assertEqual(cell["outputs"], [])
                tree = ast.parse("".join(cell["source"]))
                last = tree.body.pop()
                self.assertIsInstance(last, ast.Expr)
                exec(compile(tree, "cell", "exec"), space)
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), space))
        finally:
            os.chdir(before)
        figures = [one for one in shown if hasattr(one, "_repr_svg_")]
        self.assertEqual(len(figures), 4)
        for figure in figures:
            xml.etree.ElementTree.fromstring(figure.data)
        self.assertIn("special magic number", shown[1])
        said = program_json("compare", space["path"], "--method", "custom:last_query", "--span", "needle", "--from", "question")["rows"]
        rows = space["rows"].to_dict("records") if hasattr(space["rows"], "to_dict") else space["rows"]
        own = [row for row in rows if row["method"].startswith("custom:")]
        self.assertEqual(own[0]["span_kept"], said[0]["span_kept"])
        self.assertEqual(len(shown[-1]), 5)


if __name__ == "__main__":
    unittest.main()
