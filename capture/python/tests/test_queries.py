"""Recordings that leave the queries of some chunks out, against a recording of all."""
import os
import re
import subprocess
import unittest

import h5py
import numpy as np
import torch
import transformers

import kvloupe
from kvloupe import arguments
from kvloupe.query_choice import QueryChoice

from .support import CHUNK, MODELS, STEPS, generate, golden, load_model, load_tokenizer, program, program_json, prompt, recorded, scratch
from .test_command import run
from .test_estimate import stored

FAMILY = "llama"
# Of the chunks 0 to 2 of the prompt and 3 to 5 of decoded tokens.
CHOICES = {"last": (dict(queries="last"), [5]), "every:2": (dict(chunks="every:2"), [1, 3, 5]), "1-2": (dict(chunks="1-2"), [1, 2]),
           "last of 1-2": (dict(queries="last", chunks="1-2"), [2])}
QUEST = "quest:budget_tokens=8,page_size=4"
QUOKA = "quoka:budget_tokens=8"
FORWARDS = {"one": [34], "pieces": [10, 3, 12, 9], "by chunks": [16, 16, 2]}


def some(name, family=FAMILY, dtype="float32"):
    path = scratch(f"queries-{name.replace(':', '-').replace(' ', '-')}-{family}-{dtype}.h5")
    if not path.exists():
        with kvloupe.record(load_model(family), path, tokenizer=load_tokenizer(family), chunk_size=CHUNK, dtype=dtype, spans={"needle": (3, 7)},
                            **CHOICES[name][0]):
            generate(load_model(family), prompt(family))
    return path


def arrays_of(path):
    """{path: values} of all datasets but q and what says where it is."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return {name: values for name, values in found.items() if not name.endswith("/q") and name != "chunks/query_offsets"}


def refused(*command):
    """The last line of standard error of the program, which fails with 1 and prints nothing."""
    done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], *map(str, command)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, ""), (done.returncode, done.stdout, done.stderr)
    return done.stderr.strip().splitlines()[-1]


class Recorded(unittest.TestCase):
    def check_queries(self, path, chunks, family=FAMILY):
        """Of these chunks they are those of the whole recording, and of no other are there any."""
        with kvloupe.open(path) as trace, kvloupe.open(recorded(family)) as whole:
            ends = [0, *np.cumsum([chunk.length if index in chunks else 0 for index, chunk in enumerate(trace.chunks)]).tolist()]
            self.assertEqual(trace.query_offsets.tolist(), ends)
            self.assertEqual(trace.warnings, [])
            for layer in trace.layers:
                with h5py.File(path, locking=False) as file:
                    self.assertEqual(file[f"layers/{layer}/q"].shape[1], ends[-1])
                for index, chunk in enumerate(trace.chunks):
                    if index in chunks:
                        np.testing.assert_array_equal(trace.queries(layer, index), whole.q(layer)[:, chunk.begin : chunk.end])
                    else:
                        with self.assertRaisesRegex(kvloupe.KvloupeError, f"the queries of chunk {index} are not in the trace; .*: {chunks[0]}.*; name one"):
                            trace.queries(layer, index)

    def test_which_chunks(self):
        for options, want in (*((options, chunks) for options, chunks in CHOICES.values()), (dict(chunks="every:1"), list(range(6))), (dict(chunks="4-90"), [4, 5]),
                              (dict(queries="last", chunks="every:4"), [3]), (dict(chunks="7-8"), []), (dict(queries="last", chunks="7-8"), []), ({}, list(range(6)))):
            self.assertEqual(QueryChoice(**options).of(6), want, options)

    def test_all_else_is_that_of_a_whole_recording(self):
        for family in (FAMILY, "gpt_oss"):
            whole = arrays_of(recorded(family))
            for name, (_, chunks) in CHOICES.items():
                with self.subTest(family=family, name=name):
                    path = some(name, family)
                    self.check_queries(path, chunks, family)
                    found = arrays_of(path)
                    self.assertEqual(set(found), set(whole))
                    for array, values in found.items():
                        self.assertEqual(values.tobytes() if values.dtype.kind != "V" else str(values), whole[array].tobytes() if values.dtype.kind != "V" else str(whole[array]), array)
                    self.assertNotIn("defect", program("validate", path))

    def test_however_the_prompt_is_fed(self):
        model, ids = load_model(FAMILY), prompt(FAMILY)
        for how, sizes in FORWARDS.items():
            for name, (options, chunks) in CHOICES.items():
                with self.subTest(how=how, name=name):
                    path, cache, at = scratch("fed.h5"), transformers.DynamicCache(config=model.config), 0
                    with torch.no_grad(), kvloupe.record(model, path, chunk_size=CHUNK, dtype="float32", force=True, **options):
                        for size in sizes:
                            model(ids[:, at : at + size], past_key_values=cache)
                            at += size
                    want = QueryChoice(**options).of(3)
                    with kvloupe.open(path) as trace, kvloupe.open(recorded(FAMILY)) as whole:
                        self.assertEqual(np.flatnonzero(np.diff(trace.query_offsets)).tolist(), want)
                        for chunk in want:
                            at = trace.chunks[chunk]
                            np.testing.assert_allclose(trace.queries(1, chunk), whole.q(1)[:, at.begin : at.end], atol=1e-5)

    def test_long_chunks_and_much_decoding(self):
        """What is written at once, and what waits; room that grows."""
        model, ids = load_model(FAMILY), prompt(FAMILY)
        ids = torch.cat([ids] * 9, 1)
        whole, path = scratch("long.h5"), scratch("long-some.h5")
        for target, options in ((whole, {}), (path, dict(chunks="every:3"))):
            cache = transformers.DynamicCache(config=model.config)
            with torch.no_grad(), kvloupe.record(model, target, chunk_size=70, dtype="float32", **options):
                model(ids[:, :200], past_key_values=cache)
                for step in range(300):
                    model(ids[:, step : step + 1], past_key_values=cache)
                model(ids[:, 200:], past_key_values=cache)
        with kvloupe.open(path) as trace, kvloupe.open(whole) as full:
            self.assertGreater(len(trace.chunks), 300)
            for chunk in range(2, len(trace.chunks), 3):
                at = trace.chunks[chunk]
                np.testing.assert_array_equal(trace.queries(2, chunk), full.q(2)[:, at.begin : at.end])
        self.assertNotIn("defect", program("validate", path))
        self.assertLess(path.stat().st_size, whole.stat().st_size)

    def test_an_end_before_the_end(self):
        model, ids = load_model(FAMILY), prompt(FAMILY)
        for name, (options, _) in CHOICES.items():
            with self.subTest(name=name):
                path, cache = scratch("cut.h5"), transformers.DynamicCache(config=model.config)
                hook = None
                with self.assertRaisesRegex(RuntimeError, "in the middle"), torch.no_grad():
                    with kvloupe.record(model, path, chunk_size=CHUNK, dtype="float32", force=True, **options):
                        model(ids[:, :20], past_key_values=cache)

                        def fail(*_):
                            raise RuntimeError("in the middle")
                        hook = model.model.layers[1].mlp.register_forward_pre_hook(fail)
                        model(ids[:, 20:], past_key_values=cache)
                hook.remove()
                self.assertIn("incomplete", program("validate", path))
                with kvloupe.open(path) as trace:
                    self.assertEqual(trace.num_tokens, 20)
                    self.assertEqual(np.flatnonzero(np.diff(trace.query_offsets)).tolist(), [1])
                    np.testing.assert_allclose(trace.queries(1, 1), golden(FAMILY)["layers.1.q"][:, 16:20], atol=1e-5)

    def test_what_is_on_the_disk_meanwhile(self):
        """A kill leaves what was flushed, and a reader may look at any time."""
        model, ids = load_model(FAMILY), prompt(FAMILY)
        for name, (options, _) in CHOICES.items():
            with self.subTest(name=name):
                path, cache = scratch("open.h5"), transformers.DynamicCache(config=model.config)
                with torch.no_grad(), kvloupe.record(model, path, chunk_size=CHUNK, dtype="float32", force=True, **options):
                    for begin in (0, 16):
                        model(ids[:, begin : begin + 16], past_key_values=cache)
                        copy = scratch("killed.h5")
                        copy.write_bytes(path.with_name("open.h5.part").read_bytes())
                        self.assertIn("incomplete", program("validate", copy))
                        with kvloupe.open(copy) as trace:
                            self.assertEqual(len(trace.chunks), begin // 16 + 1)
                            want = [] if options.get("queries") == "last" else QueryChoice(**options).of(len(trace.chunks))
                            self.assertEqual(np.flatnonzero(np.diff(trace.query_offsets)).tolist(), want)
                            for chunk in want:
                                np.testing.assert_allclose(trace.queries(1, chunk), golden(FAMILY)["layers.1.q"][:, 16 * chunk : 16 * chunk + 16], atol=1e-5)

    def test_the_estimate_is_what_is_stored(self):
        for name, (options, _) in CHOICES.items():
            with self.subTest(name=name):
                said = kvloupe.estimate(load_model(FAMILY), prompt(FAMILY).shape[1], new_tokens=STEPS + 1, chunk_size=CHUNK, dtype="float32", **options)
                self.assertEqual(said, stored(some(name)))

    def test_without_queries_there_is_nothing_to_leave_out(self):
        path = scratch("no-qkv.h5")
        with kvloupe.record(load_model(FAMILY), path, chunk_size=CHUNK, store=("lse",), queries="last"):
            generate(load_model(FAMILY), prompt(FAMILY))
        with h5py.File(path) as file:
            self.assertNotIn("query_offsets", file["chunks"])

    def test_refusals(self):
        for options, words in ((dict(queries="first"), "queries='first' cannot be used"), (dict(queries=1), "queries=1"), (dict(chunks="2-1"), "chunks='2-1' cannot be used"),
                               (dict(chunks="every:0"), "chunks='every:0'"), (dict(chunks=3), "chunks=3"), (dict(chunks="1,2"), "chunks='1,2'"), (dict(chunks=""), "chunks=''")):
            for refuse in (lambda: kvloupe.record(load_model(FAMILY), scratch("none.h5"), **options), lambda: kvloupe.estimate(load_model(FAMILY), 8, **options)):
                with self.subTest(options=options), self.assertRaisesRegex(kvloupe.KvloupeError, words):
                    refuse()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "no queries were stored; 6 chunks were recorded, and chunks=7-9 names none of them"):
            with kvloupe.record(load_model(FAMILY), scratch("outside.h5"), chunk_size=CHUNK, chunks="7-9"):
                generate(load_model(FAMILY), prompt(FAMILY))
        self.assertNotIn("defect", program("validate", scratch("outside.h5")))
        self.assertRegex(refused("select", scratch("outside.h5"), "--method", QUOKA), "chunk 0 cannot be computed; the trace holds the queries of no chunk; record again with queries=all")
        # What needs no queries is shown all the same.
        program("export", scratch("outside.h5"), "--view", "trace_info", "--svg", scratch("outside.svg"))
        self.assertRegex(refused("export", scratch("outside.h5"), "--view", "selected_vs_true", "--method", QUOKA, "--all-chunks", "--csv", "-"), "holds the queries of no chunk")

    def test_the_command_line(self):
        for option, text in (("--queries", "some"), ("--chunks", "every"), ("--chunks", "3-1")):
            code, errors, _ = run("record", "none", "--prompt-file", "none", "-o", "none.h5", option, text)
            self.assertEqual(code, 2)
            self.assertRegex(errors.strip().splitlines()[-1], f"^error: .*{option}")
        self.assertEqual(arguments.chunks("every:4"), "every:4")
        question = scratch("queries.txt")
        question.write_text("the cat sat on the mat " * 8)
        path = scratch("command-queries.h5")
        code, errors, _ = run("record", MODELS / FAMILY, "--prompt-file", question, "--raw", "--chunk-size", 16, "--queries", "last", "--chunks", "0-1", "-o", path)
        self.assertEqual(code, 0, errors)
        with kvloupe.open(path) as trace:
            self.assertGreater(len(trace.chunks), 2)
            self.assertEqual(np.flatnonzero(np.diff(trace.query_offsets)).tolist(), [1])


class Read(unittest.TestCase):
    def test_a_layer(self):
        with kvloupe.open(some("1-2")) as trace, kvloupe.open(recorded(FAMILY)) as whole:
            begin, end = trace.chunks[1].begin, trace.chunks[2].end
            np.testing.assert_array_equal(trace.attention(1, 2, begin + 3, end), whole.attention(1, 2, begin + 3, end))
            np.testing.assert_array_equal(trace.lse(1), whole.lse(1))
            for refuse in (lambda: trace.q(1), lambda: trace.attention(1, 2, begin - 1, end), lambda: trace.attention(1, 2, begin, end + 1),
                           lambda: trace.add_run("mine", lambda *_: [], rows="kv_head")):
                with self.assertRaisesRegex(kvloupe.KvloupeError, "the queries of chunk [03] are not in the trace; .*: 1, 2; .*queries="):
                    refuse()
            with self.assertRaisesRegex(kvloupe.KvloupeError, "chunk 6 is not in"):
                trace.queries(1, 6)

    def test_offsets_that_are_wrong(self):
        for name, change in (("begin", lambda at: at.__setitem__(0, 1)), ("a part", lambda at: at.__setitem__(2, 5)), ("fall", lambda at: at.__setitem__(3, 0)),
                             ("too many", lambda at: at.__setitem__(6, 10**6)), ("huge", lambda at: at.__setitem__(6, 2**62))):
            path = scratch("wrong-queries.h5")
            path.write_bytes(some("1-2").read_bytes())
            with h5py.File(path, "r+") as file:
                change(file["chunks/query_offsets"])
            with self.subTest(name=name), self.assertRaisesRegex(kvloupe.KvloupeError, "query_offsets"):
                kvloupe.open(path)
            self.assertIn("query_offsets", refused("info", path))


class Program(unittest.TestCase):
    def test_a_stored_chunk_is_selected_as_in_the_whole_trace(self):
        for name, (_, chunks) in CHOICES.items():
            for method in (QUOKA, QUEST, "oracle:budget_tokens=8"):
                with self.subTest(name=name, method=method):
                    for chunk in chunks:
                        found, want = (program_json("select", path, "--method", method, "--chunk", chunk) for path in (some(name), recorded(FAMILY)))
                        self.assertEqual(found["layers"], want["layers"])
                    everywhere = program_json("select", some(name), "--method", method)
                    self.assertEqual([cell["chunk"] for cell in everywhere["layers"][0]["chunks"]], chunks)

    def test_what_goes_over_all_chunks_takes_those(self):
        path = some("1-2")
        rows = program_json("compare", path, "--method", QUOKA, "--method", QUEST)["rows"]
        want = program_json("compare", recorded(FAMILY), "--method", QUOKA, "--method", QUEST, "--scope-chunks", "1-2")["rows"]
        for found, expected in zip(rows, want, strict=True):
            self.assertEqual({key: found[key] for key in ("method", "mass_recall", "cells")}, {key: expected[key] for key in ("method", "mass_recall", "cells")})
        done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], "compare", str(path), "--method", QUOKA], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(done.stderr.count("queries are stored of chunks 1 to 2 alone, of 6"), 1)
        program("explain", path, "--method", QUOKA, "--worst", 3)
        program("latency", path, "--method", QUOKA, "--repetitions", 1)
        program("report", path, "--method", QUOKA, "-o", scratch("report"))

    def test_what_needs_other_chunks_is_refused(self):
        path = some("1-2")
        for command in (("select", path, "--method", QUOKA, "--chunk", 3), ("compare", path, "--method", QUOKA, "--scope-chunks", "1,3"),
                        ("explain", path, "--method", QUOKA, "--worst", 3, "--chunk", 3), ("latency", path, "--method", QUOKA, "--chunk", 3)):
            self.assertEqual(refused(*command), "error: chunk 3 cannot be computed; its queries are not in the trace, which has those of chunks 1 to 2 alone; "
                                                "choose one of these chunks, or record again with queries=all")
        for command, what in ((("select", path, "--method", "h2o:budget_tokens=8"), "h2o cannot be replayed"), (("select", path, "--method", QUOKA, "--save"), "the run cannot be saved"),
                              (("explain", path, "--method", "h2o:budget_tokens=8", "--worst", 3), "what h2o lost is not known"),
                              (("select", path, "--method", QUOKA, "--chunk-size", 8), "the prompt cannot be cut into other chunks"),
                              (("compare", path, "--method", QUOKA, "--chunk-size", 8), "the prompt cannot be cut into other chunks"),
                              (("select", path, "--method", "loki:budget_tokens=8,basis=self"), "basis=self cannot be fitted")):
            self.assertEqual(refused(*command), f"error: {what}; it needs the queries of chunk 0, and the trace has those of chunks 1 to 2 alone; record again with queries=all")

    def test_views_begin_where_there_are_queries(self):
        figure = scratch("view.svg")
        for name, chunk in (("every:2", 1), ("1-2", 2), ("last", 5)):
            for view in ("selected_vs_true", "query_relevance"):
                drawn = []
                for place in ([], ["--goto", f"chunk={chunk}"]):
                    program("export", some(name), "--view", view, *place, "--svg", figure)
                    drawn.append(re.sub("<desc>.*</desc>", "", figure.read_text()))  # which names the place
                self.assertEqual(*drawn)
                last = refused("export", some(name), "--view", view, "--goto", "chunk=0", "--svg", figure)
                self.assertRegex(last, "^error: .*; chunk 0 cannot be computed; its queries are not in the trace, .*; choose one of these chunks")

    def test_a_map_has_the_chunks_at_their_places(self):
        """Of those without queries it says nothing, and the others are as in the whole trace."""
        table = scratch("map.csv")
        for name, (_, chunks) in CHOICES.items():
            lines = []
            for path in (some(name), recorded(FAMILY)):
                program("export", path, "--view", "kv_map", "--method", QUOKA, "--goto", "layer=1,kv_head=1", "--csv", table)
                lines.append(table.read_text().splitlines()[1:])
            of = lambda chunk, lines: [line for line in lines if line.startswith(f"{chunk},")]  # noqa: E731
            with self.subTest(name=name):
                self.assertEqual(sorted({int(line.partition(",")[0]) for line in lines[0]}), chunks)
                for chunk in chunks:
                    self.assertEqual(of(chunk, lines[0]), of(chunk, lines[1]))
                program("export", some(name), "--view", "kv_map", "--method", QUOKA, "--method", "oracle:budget_tokens=8", "--show", "difference",
                        "--csv", table)
                self.assertLessEqual({int(line.partition(",")[0]) for line in table.read_text().splitlines()[1:]}, set(chunks))

    def test_a_run_that_was_brought_in_is_measured_there(self):
        path, whole = scratch("own.h5"), scratch("own-whole.h5")
        for target, source in ((path, some("every:2")), (whole, recorded(FAMILY))):
            target.write_bytes(source.read_bytes())
            with kvloupe.open(target) as trace:
                trace.add_run("mine", positions=np.zeros((6, 3, 1), np.int64))
        self.assertEqual([run["method"] for run in program_json("info", path)["runs"]], ["custom:mine"])
        found, want = (program_json("compare", target, "--method", "custom:mine", "--scope-chunks", "1,3,5")["rows"] for target in (path, whole))
        self.assertEqual([row["mass_recall"] for row in found], [row["mass_recall"] for row in want])
        # The beside is of the very trace.
        os.replace(f"{whole}.runs.h5", f"{path}.runs.h5")
        self.assertEqual(program_json("info", path)["runs"], [])

    def test_slices_keep_them(self):
        path = scratch("slice.h5")
        program("slice", some("every:2"), "--until-chunk", 3, "--layers", "1-2", "-o", path)
        with kvloupe.open(path) as trace, kvloupe.open(recorded(FAMILY)) as whole:
            self.assertEqual(trace.query_offsets.tolist(), [0, 0, 16, 16, 17])
            np.testing.assert_array_equal(trace.queries(2, 3), whole.q(2)[:, 34:35])
        self.assertNotIn("defect", program("validate", path))


if __name__ == "__main__":
    unittest.main()
