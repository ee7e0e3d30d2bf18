"""Reading: what the program wrote, what it saved beside it, and what both refuse."""
import os
import pathlib
import shutil
import unittest

import h5py
import numpy as np

import kvloupe

from .support import ROOT, plain_softmax, program, program_json, recorded, scratch

DATA = ROOT / "tests" / "data"
METHODS = ["quoka:budget_tokens=6,num_queries=4", "h2o:budget_tokens=6", "quest:budget_tokens=6,page_size=2,skip_layers=1",
           "xattention:lowering=union,block_size=4,stride=2", "streaming_llm:budget_tokens=8", "dense",
           "aqua:basis=self", "sliding_window:budget_tokens=6,budget_scope=all", "oracle:budget_tokens=6,skip_layers=1"]


class Reading(unittest.TestCase):
    def test_addresses(self):
        for address in ("https://example.org/t.h5", "s3://bucket/t.h5", "hf://datasets/a/b/t.h5", "file:///tmp/t.h5", pathlib.Path("http://example.org/t.h5")):
            with self.subTest(address=address), self.assertRaisesRegex(
                    kvloupe.KvloupeError, "^cannot open .*; traces are read from the disk, and this is an address; .*kvloupe slice T.h5 --layers 0-3 -o S.h5"):
                kvloupe.open(address)
        for path in ("C:/t.h5", "a:b/t.h5", "://", "no/such:/t.h5", b"no/such.h5"):
            with self.subTest(path=path), self.assertRaisesRegex(kvloupe.KvloupeError, "there is no such file"):
                kvloupe.open(path)
        # A folder may have such a name.
        folder = scratch("odd:")
        folder.mkdir(exist_ok=True)
        shutil.copy(recorded("llama"), folder / "t.h5")
        before = os.getcwd()
        os.chdir(folder.parent)
        try:
            for path in "odd://t.h5", b"odd://t.h5":
                with kvloupe.open(path) as trace:
                    self.assertGreater(trace.num_tokens, 0)
        finally:
            os.chdir(before)

    def test_blanks_at_the_end_of_a_text(self):
        """Both hash the trace by its texts: a run that the one adds is the trace's to the other."""
        for padding, name in ((h5py.h5t.STR_NULLPAD, "two blanks  "), (h5py.h5t.STR_SPACEPAD, "two blanks")):
            path = scratch("blanks.h5")
            path.with_name(path.name + ".runs.h5").unlink(missing_ok=True)
            shutil.copy(recorded("llama"), path)
            with h5py.File(path, "r+") as file:
                del file["model"].attrs["name"]
                text = h5py.h5t.C_S1.copy()
                text.set_size(12)
                text.set_strpad(padding)
                attribute = h5py.h5a.create(file["model"].id, b"name", text, h5py.h5s.create(h5py.h5s.SCALAR))
                attribute.write(np.array(b"two blanks  ", "S12"), text)
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.model["name"], name)
                trace.add_run("last", lambda layer, chunk, q, k, v: [np.arange(max(k.shape[1] - 2, 0), k.shape[1])] * k.shape[0])
            self.assertEqual(program_json("info", path)["runs"][-1]["method"], "custom:last")

    def test_lazy_arrays(self):
        with kvloupe.open(recorded("llama")) as trace, h5py.File(recorded("llama"), locking=False) as file:
            stored, q = file["layers/1/q"][:], trace.q(1)
            self.assertEqual((q.shape, q.dtype, len(q)), (stored.shape, stored.dtype, len(stored)))
            for key in (0, (1, 2), (slice(None), -1), (..., 3), (2, slice(3, 9, 2), 5), (slice(1, 3), slice(None, None, -1)),
                        (0, slice(-4, None)), (slice(None), slice(4, 2)), ([0, 2], 5)):
                np.testing.assert_array_equal(q[key], stored[key], str(key))
            np.testing.assert_array_equal(np.asarray(q), stored)
            for key in ((0, 37), (0, -38)):
                with self.assertRaises(IndexError):
                    q[key]
            with self.assertRaisesRegex(kvloupe.KvloupeError, "layer 9 is not in"):
                trace.q(9)

    def test_lazy_arrays_take_the_indices_of_numpy(self):
        backwards, every = slice(None, None, -1), slice(None)
        with kvloupe.open(recorded("llama")) as trace:
            k, stored = trace.k(1), np.asarray(trace.k(1))
            mask, far = np.arange(k.shape[1]) % 3 == 1, [0, 36, 1]
            for key in ((every, backwards, 3), (0, backwards, 3), (0, backwards), (backwards, slice(30, 4, -7), slice(None, None, -2)),
                        (0, slice(3, 3, -1), 1), (0, []), (0, np.zeros(0, np.int32)), (0, mask), (every, np.zeros_like(mask)), (0, [5, 3]),
                        (0, [3, 3]), (every, far, 2), (0, [-1, 0, -37]), (0, range(4, 9)), (backwards, far, backwards), ([0, 1], 4),
                        ([1, 0], [3, 36]), (every, [3, 36, 36], [0, 7, 2]), (0, every, [5, 1]),
                        (np.int64(1), np.int64(-1)), (np.array(1), 3, ...), (1, 2, 3, ...), (..., [7, 0])):
                got = k[key]
                self.assertEqual((got.shape, got.dtype), (stored[key].shape, stored.dtype), key)
                np.testing.assert_array_equal(got, stored[key], str(key))
            for key in ((0, [0, 37]), (0, [-38]), (0, mask[:-1]), (0, 1, 2, 3), (..., ...), (None, 0), (0, True), (0, [[1, 2]]), (0, 1.5),
                        (0, [1.5]), (2, 0), (0, 0, 99), (0, "a"), (stored > 0,)):
                with self.assertRaises((IndexError, TypeError), msg=str(key)):
                    k[key]
            run_like = np.array([2, 9, 31], np.int32)
            np.testing.assert_array_equal(k[1, run_like], stored[1, run_like])

    def test_lse_that_is_not_stored_is_computed(self):
        for family in ("gpt_oss", "gemma3_text"):
            bare = scratch(f"bare-{family}.h5")
            shutil.copy(recorded(family), bare)
            with h5py.File(bare, "r+") as file:
                for group in file["layers"].values():
                    del group["lse"]
            with kvloupe.open(bare) as trace, kvloupe.open(recorded(family)) as whole:
                for layer in whole.layers:
                    np.testing.assert_allclose(trace.lse(layer), whole.lse(layer), atol=1e-5)

    def test_attention_with_a_softcap(self):
        capped = scratch("softcap.h5")
        shutil.copy(recorded("gemma3_text"), capped)
        with h5py.File(capped, "r+") as file:
            for group in file["layers"].values():
                group.attrs["softcap"] = 1.5
                del group["lse"], group["key_mass"]
        self.assertIn("sound", program("validate", capped))
        with kvloupe.open(capped) as trace:
            for layer in trace.layers:
                p, lse = plain_softmax(trace.q(layer), trace.k(layer), trace.model["softmax_scale"], trace.layer(layer).window, 1.5)
                np.testing.assert_allclose(trace.attention(layer, 3, 10, 30), p[3, 10:30, :30], atol=1e-6)
                np.testing.assert_allclose(trace.lse(layer), lse, atol=1e-5)

    def test_selections_that_the_program_saved(self):
        for family in ("llama", "gemma3_text"):
            path = scratch(f"saved-{family}.h5")
            shutil.copy(recorded(family), path)
            answers = [program_json("select", path, "--method", method, "--save") for method in METHODS
                       if family == "llama" or not method.startswith(("quest", "xattention"))]
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.warnings, [])
                self.assertEqual([run.method for run in trace.runs], [answer["method"] for answer in answers])
                for run, answer in zip(trace.runs, answers):
                    with self.subTest(family=family, method=run.method):
                        self.check_run(trace, run, answer)

    def check_run(self, trace, run, answer):
        self.assertEqual(run.mode, "open_loop")
        compared = 0
        for entry in answer["layers"]:
            for chunk in entry["chunks"]:
                rows = next((chunk[name] for name in ("kv_heads", "q_heads", "subgroups") if name in chunk), [])
                for index, row in enumerate(rows):
                    selected = run.selected(entry["layer"], chunk["chunk"], index)
                    self.assertEqual(selected.dtype, np.int32)
                    self.assertEqual(selected.tolist(), row["selected"])
                    compared += 1
            for row in entry.get("final_alive", ()):
                alive = np.flatnonzero(run.evicted_after(entry["layer"])[row["kv_head"]] == 65535)
                self.assertEqual(alive.tolist(), row["positions"])
        self.assertEqual(compared > 0, run.granularity != "lane")
        table = run.table()
        self.assertEqual(len(table), len(run.layers) * len(trace.chunks) * run.num_rows)
        line = table[len(table) - 1] if isinstance(table, np.ndarray) else table.iloc[-1]
        last = run.selected(run.layers[-1], len(trace.chunks) - 1, run.num_rows - 1)
        self.assertEqual(line["selected"], len(last))

    def test_runs_inside_a_trace(self):
        with kvloupe.open(DATA / "v1_tiny.h5") as trace:
            self.assertEqual([run.method.split(":")[0] for run in trace.runs], ["sliding_window", "streaming_llm"])
            with h5py.File(DATA / "v1_tiny.h5", locking=False) as file:
                for run in trace.runs:
                    stored = file[f"runs/{run.id}/layers/2"]
                    offsets, positions, flags = (stored[name][:] for name in ("offsets", "positions", "flags"))
                    self.assertTrue(flags.any() and not flags.all())
                    for cell, flag in enumerate(flags):
                        chunk, row = divmod(cell, 2)
                        expected = range(trace.chunks[chunk].begin) if flag else positions[offsets[cell] : offsets[cell + 1]]
                        self.assertEqual(run.selected(2, chunk, row).tolist(), list(expected))
        with kvloupe.open(DATA / "v1_h5py_tiny.h5") as trace:
            self.assertEqual([tuple(span) for span in trace.spans], [("needle", 2, 5)])
            # As make_h5py_trace.py writes it: every other past key, layer 1 dense by rule.
            self.assertEqual(trace.runs[0].selected(3, 2, 1).tolist(), list(range(1, 16, 2)))
            self.assertEqual(trace.runs[0].selected(1, 2, 1).tolist(), list(range(16)))
            self.assertEqual(trace.text(0, 3), "\u20ac is a")
            self.assertEqual(trace.runs[1].row_axis, "kv_head")

    def test_spans_that_are_no_integers_are_left_out(self):
        path = scratch("odd-spans.h5")
        for kind, value in (("<f8", np.inf), ("<f4", 3), ("S4", b"3"), (("<i4", (2,)), 3)):
            shutil.copy(recorded("llama"), path)
            with h5py.File(path, "r+") as file:
                del file["tokens/spans"]
                spans = np.zeros(1, [("name", "S8"), ("begin", kind), ("end", kind)])
                spans["name"], spans["begin"], spans["end"] = b"odd", value, value
                file["tokens/spans"] = spans
            with kvloupe.open(path) as trace:
                self.assertEqual((trace.spans, trace.warnings), ([], ["begin and end of /tokens/spans are no integers"]), kind)

    def test_evictions_that_cannot_be_read(self):
        path = scratch("odd-evictions.h5")
        shutil.copy(recorded("llama"), path)
        program("select", path, "--method", "h2o:budget_tokens=6", "--save")
        with h5py.File(f"{path}.runs.h5", "r+") as file:
            layers = file["runs/0/layers"]
            del layers["0/evict_chunk"]
            layers["1/evict_chunk"].resize(3, 1)
        with kvloupe.open(path) as trace:
            run = trace.runs[0]
            self.assertEqual(run.evicted_after(2).shape, (run.num_rows, trace.num_tokens))
            for layer in (0, 1, 99):
                with self.assertRaisesRegex(kvloupe.KvloupeError, f"^layer {layer} of run 0 cannot be read; .*evict_chunk .*; use another run"):
                    run.evicted_after(layer)

    def test_a_trace_without_text(self):
        path = scratch("textless.h5")
        shutil.copy(recorded("llama"), path)
        with h5py.File(path, "r+") as file:
            del file["tokens/text"], file["tokens/text_offsets"]
        with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "has no text"):
            trace.text()


def replace(file, path, values):
    del file[path]
    file[path] = values


def link_outside(file):
    del file["layers/1/q"]
    file["layers/1/q"] = h5py.ExternalLink("elsewhere.h5", "/q")


def link_softly(file):
    file.move("layers/1/k", "elsewhere")
    file["layers/1/k"] = h5py.SoftLink("/elsewhere")


REFUSED = {
    "another mark": lambda file: file.attrs.modify("format", "kvloupe-runs"),
    "a newer major": lambda file: file.attrs.modify("schema_version", "2.0"),
    "no version": lambda file: file.attrs.modify("schema_version", "new"),
    "heads that do not divide": lambda file: file["model"].attrs.modify("num_kv_heads", 3),
    "no head_dim": lambda file: file["model"].attrs.__delitem__("head_dim"),
    "too many layers": lambda file: file["model"].attrs.modify("num_layers", 10**6),
    "a gap between chunks": lambda file: file["chunks/begin"].__setitem__(1, 17),
    "an empty chunk": lambda file: file["chunks/length"].__setitem__(1, 0),
    "an unknown phase": lambda file: file["chunks/phase"].__setitem__(1, 2),
    "more chunks than there are": lambda file: file.attrs.modify("chunks_done", 1000),
    "no chunks_done": lambda file: file.attrs.__delitem__("chunks_done"),
    "too few ids": lambda file: replace(file, "tokens/ids", np.arange(5)),
    "ids that are no numbers": lambda file: replace(file, "tokens/ids", np.ones(37)),
}
# Read with a warning: part -> what is still to be had.
TOLERATED = {
    "a newer minor": (lambda file: file.attrs.modify("schema_version", "1.99"), 0),
    "layer types of another model": (lambda file: file["model"].attrs.__setitem__("layer_types", ["full"]), 1),
    "a scale below zero": (lambda file: file["model"].attrs.modify("softmax_scale", -1.0), 1),
    "falling text": (lambda file: file["tokens/text_offsets"].__setitem__(3, 10**6), 1),
    "a span that ends before it begins": (lambda file: replace(file, "tokens/spans", np.array(
        [(b"x", 5, 2)], dtype=[("name", "S4"), ("begin", "i4"), ("end", "i4")])), 1),
    "q of another shape": (lambda file: replace(file, "layers/1/q", np.zeros((3, 37, 8), np.float32)), 1),
    "k in double": (lambda file: replace(file, "layers/1/k", np.zeros((2, 37, 8), np.float64)), 1),
    "a window of zero": (lambda file: file["layers/1"].attrs.__setitem__("window", 0), 1),
    "sinks of other heads": (lambda file: file["layers/1"].attrs.__setitem__("sink_logit", np.zeros(3, np.float32)), 1),
    "an external link": (link_outside, 0),
    "a soft link": (link_softly, 0),
}


class Damage(unittest.TestCase):
    def damaged(self, name, edit):
        path = scratch("damaged.h5")
        shutil.copy(recorded("llama"), path)
        with h5py.File(path, "r+") as file:
            edit(file)
        return path

    def test_what_the_program_refuses(self):
        for name, edit in REFUSED.items():
            with self.subTest(damage=name):
                path = self.damaged(name, edit)
                with self.assertRaises(kvloupe.KvloupeError) as caught:
                    kvloupe.open(path)
                self.assertGreaterEqual(str(caught.exception).count("; "), 2)
                program("info", path, expect=1)

    def test_what_the_program_reads_with_a_warning(self):
        for name, (edit, warnings) in TOLERATED.items():
            with self.subTest(damage=name):
                path = self.damaged(name, edit)
                layers = program_json("info", path)["layers"]
                with kvloupe.open(path) as trace:
                    self.assertEqual(len(trace.warnings), warnings, trace.warnings)
                    self.assertEqual(trace.layers, layers)
                    trace.attention(0, 0, 0, 5)

    def test_links_are_not_followed(self):
        for edit, name in ((link_outside, "q"), (link_softly, "k")):
            with kvloupe.open(self.damaged(name, edit)) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, f"has no {name}"):
                getattr(trace, name)(1)

    def test_claims_beyond_the_file(self):
        """Terabytes by a fill value: refused before there is room made for them."""
        def claim(file):
            del file["layers/1/q"]
            file.create_dataset("layers/1/q", shape=(4, 37, 8), maxshape=(4, None, 8), chunks=(1, 4096, 8), dtype="f4")
            file["layers/1/q"].resize(10**9, 1)
            del file["tokens/ids"]
            file.create_dataset("tokens/ids", shape=(10**9,), chunks=(65536,), dtype="i8")
            replace(file, "chunks/begin", [0])
            replace(file, "chunks/length", [10**9])
            replace(file, "chunks/phase", [0])
            file.attrs.modify("chunks_done", 1)
        path = self.damaged("claims", claim)
        with self.assertRaisesRegex(kvloupe.KvloupeError, "claims more than the file holds"):
            kvloupe.open(path)
        program("info", path, expect=1)

    def test_runs_that_are_damaged(self):
        path = scratch("runs.h5")

        def own_key(file):
            group = file["runs/0/layers/2"]
            cell = int(np.flatnonzero((group["flags"][:] == 0) & (np.diff(group["offsets"][:]) > 0))[0])
            chunk = file["chunks/begin"][cell // (len(group["flags"]) // len(file["chunks/begin"]))]
            group["positions"][int(group["offsets"][cell + 1]) - 1] = chunk

        edits = {
            "positions that fall": lambda file: file["runs/0/layers/2/positions"].__setitem__(slice(0, 2), [9, 3]),
            "positions beyond the tokens": lambda file: file["runs/0/layers/2/positions"].__setitem__(0, 10**6),
            "a position in the chunk itself": own_key,
            "offsets beyond the positions": lambda file: file["runs/0/layers/2/offsets"].__setitem__(-1, 10**6),
            "no flags": lambda file: file.__delitem__("runs/0/layers/2/flags"),
        }
        for name, edit in edits.items():
            with self.subTest(damage=name):
                shutil.copy(DATA / "v1_tiny.h5", path)
                with h5py.File(path, "r+") as file:
                    edit(file)
                with kvloupe.open(path) as trace, self.assertRaisesRegex(kvloupe.KvloupeError, "layer 2 of run 0 cannot be read"):
                    trace.runs[0].selected(2, 1, 0)
        shutil.copy(DATA / "v1_tiny.h5", path)
        with h5py.File(path, "r+") as file:
            file["runs/0"].attrs["row_axis"] = "heads"
        with kvloupe.open(path) as trace:
            self.assertEqual([run.id for run in trace.runs], [1])
            self.assertIn("unknown word", trace.warnings[0])

    def test_a_sidecar_of_another_trace(self):
        path = scratch("stranger.h5")
        shutil.copy(recorded("llama"), path)
        program_json("select", path, "--method", "oracle:budget_tokens=6", "--save")
        shutil.copy(recorded("qwen2"), path)
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.runs, [])
            self.assertIn("holds the runs of another trace", trace.warnings[0])

    def test_files_that_are_no_traces(self):
        path = scratch("none.h5")
        for content in (b"", b"text", recorded("llama").read_bytes()[:5000]):
            path.write_bytes(content)
            with self.assertRaisesRegex(kvloupe.KvloupeError, "cannot read"):
                kvloupe.open(path)
        with self.assertRaisesRegex(kvloupe.KvloupeError, "no such file"):
            kvloupe.open(scratch("absent.h5"))

    def test_bytes_that_are_wrong_anywhere(self):
        """Never anything but a sentence. Texts have fixed length here: references to the others are resolved by the HDF5
        library alone, which does not check them."""
        path, flipped = scratch("fixed.h5"), scratch("flipped.h5")
        shutil.copy(recorded("llama", "float16"), path)
        with h5py.File(path, "r+") as file:
            fix_texts(file)
            file.visititems(lambda _, part: fix_texts(part))
            replace(file, "tokens/spans", np.array([(b"x", 2, 5)], dtype=[("name", "S4"), ("begin", "i4"), ("end", "i4")]))
        kvloupe.open(path).close()
        whole, generator = bytearray(path.read_bytes()), np.random.default_rng(5)
        outcomes = set()
        for _ in range(600):
            damaged = bytearray(whole)
            for at in generator.integers(0, len(whole), 20):
                damaged[at] = generator.integers(0, 256)
            flipped.write_bytes(damaged)
            try:
                with kvloupe.open(flipped) as trace:
                    for layer in trace.layers:
                        np.asarray(trace.q(layer))
                outcomes.add("read")
            except kvloupe.KvloupeError:
                outcomes.add("refused")
        self.assertEqual(outcomes, {"read", "refused"})


def fix_texts(part):
    for name, value in list(part.attrs.items()):
        if isinstance(value, str):
            part.attrs[name] = np.bytes_(value.encode())
        elif isinstance(value, np.ndarray) and value.dtype == object:
            part.attrs[name] = value.astype("S32")


if __name__ == "__main__":
    unittest.main()
