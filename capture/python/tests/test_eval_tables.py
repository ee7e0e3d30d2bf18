"""Intervals, tests and tables of results, against sums by hand."""
import contextlib
import csv
import fcntl
import io
import math
import pathlib
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

import h5py

from kvloupe.errors import KvloupeError
from kvloupe.results import planned
from kvloupe.results.command import run_merge
from kvloupe.results.journal import Journal
from kvloupe.results.record import nan_as_unknown
from kvloupe.results.results_file import read_results, write_results
from kvloupe.results.statistics import sign_test, wilson
from kvloupe.results.table import grid, perplexities, rows_of
from kvloupe.results.table_text import markdown

from .eval_cases import command
from .support import program, scratch


def record(method, doc, score, **others):
    sample = f"{doc} {others.get('length', 0)}"
    return {"id": f"{method} {sample}", "sample": sample, "task": "t", "method": method, "answer": "a|b", "expected": "50 %", "refused": "",
            "trace": "", "metrics": {"acc,none": score}, "doc": doc, "length": -1, "seed": 42, "budget": -1, "prompt_tokens": 10, "direction": 1,
            "depth": math.nan, "kept": math.nan, "score": score, "prefill_s": 1.0, "decode_s": 2.0, "task_hash": "", "method_hash": "", **others}


def both(pairs):
    return [record(method, doc, score) for doc, pair in enumerate(pairs) for method, score in zip(("dense", "h2o:budget_tokens=8"), pair)]


def written(name, records, plan=None, run=None):
    path = scratch(name)
    write_results(path, run or {"model": "m"}, records, planned.joined([plan or {}], records))
    return path


def whole(path):
    """(samples, of how many, complete)"""
    with h5py.File(path) as file:
        return len(file["samples"]), file.attrs["total"], file.attrs["complete"]


class Statistics(unittest.TestCase):
    def test_wilson(self):
        for successes, count, low, high in ((0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (5, 10, 0.23659, 0.76341), (45, 50, 0.78640, 0.95652)):
            for ours, theirs in zip(wilson(successes, count), (low, high)):
                self.assertAlmostEqual(ours, theirs, 4)
        self.assertTrue(all(map(math.isnan, wilson(0, 0))))

    def test_sign(self):
        self.assertTrue(math.isnan(sign_test(0, 0)))
        self.assertEqual(sign_test(3, 3), 1.0)
        self.assertAlmostEqual(sign_test(0, 5), 2 / 32)
        self.assertAlmostEqual(sign_test(9, 1), 2 * 11 / 1024)
        begin = time.monotonic()
        self.assertGreater(sign_test(8000, 8000), 0.99)
        self.assertLess(time.monotonic() - begin, 5, "it takes long")


class Tables(unittest.TestCase):
    def test_beside_dense_and_paired(self):
        dense, h2o = rows_of(both([(1, 1), (1, 0), (1, 0), (0, 1), (0, 0)]), against="dense")
        self.assertEqual((dense["method"], dense["samples"], dense["score"], dense["relative"], dense["better"]), ("dense", 5, 0.6, 1.0, None))
        self.assertEqual((h2o["score"], h2o["better"], h2o["worse"], h2o["p"]), (0.4, 1, 2, 1.0))
        self.assertAlmostEqual(h2o["relative"], 2 / 3)
        self.assertAlmostEqual(h2o["difference"], -0.2)
        self.assertTrue(math.isnan(rows_of(both([(0, 0)]))[1]["relative"]))

    def test_no_test_of_samples_that_do_not_differ(self):
        path = written("alike.h5", both([(1, 1), (0, 0)]))
        rows = list(csv.DictReader(io.StringIO(command("results", path, "--csv", "--against", "dense"))))
        self.assertEqual([(row["better"], row["p"]) for row in rows], [("", ""), ("0", "")])

    def test_grid(self):
        places = [(1024, 0.0, 1), (1024, 0.0, 0), (2048, 50.0, 1)]
        records = [record("dense", at, score, length=length, depth=depth) for at, (length, depth, score) in enumerate(places)]
        lengths, depths, cells = grid(records, "dense")
        self.assertEqual((lengths, depths, cells[0][0], cells[1][1], cells[0][1][1]), ([1024, 2048], [0.0, 50.0], (0.5, 2), (1.0, 1), 0))
        said = command("results", written("grid.h5", records), "--grid")
        self.assertIn("| 1024 | 0.50 (2) |  |", said)

    def test_grid_of_differences(self):
        places = [(1024, 0.0, 1, 0), (1024, 0.0, 1, 1), (1024, 50.0, 0, 1), (1024, 50.0, 1, math.nan)]
        records = [record(method, at, score, length=length, depth=depth)
                   for at, (length, depth, *scores) in enumerate(places) for method, score in zip(("dense", "h2o"), scores)]
        # A sample without a score of both is in no cell, and the method itself has no table.
        self.assertEqual(grid(records, "h2o", "dense")[2], [[(-0.5, 2), (1.0, 1)]])
        said = command("results", written("difference.h5", records), "--grid", "--against", "dense")
        self.assertEqual(said.count("mean difference to dense (samples)"), 1)
        self.assertIn("| 1024 | -0.50 (2) | +1.00 (1) |", said)

    def test_perplexity_is_of_all_texts(self):
        pairs = [[-6.0, 2], [-2.0, 6]]
        metrics = [{"word_perplexity,none": pair, "bits_per_byte,none": pair, "perplexity,none": pair[0]} for pair in pairs]
        found = perplexities([record("dense", at, math.nan, metrics=each) for at, each in enumerate(metrics)])["t", "dense"]
        self.assertAlmostEqual(found["perplexity"], math.exp(4))
        self.assertAlmostEqual(found["word_perplexity"], math.e)
        self.assertAlmostEqual(found["bits_per_byte"], 1 / math.log(2))

    def test_forms(self):
        path = written("forms.h5", both([(1, 0), (1, 1)]))
        rows = list(csv.DictReader(io.StringIO(command("results", path, "--csv", "--by", "method,seed", "--against", "dense"))))
        self.assertEqual([(row["method"], row["score"], row["worse"]) for row in rows], [("dense", "1.0", ""), ("h2o:budget_tokens=8", "0.5", "1")])
        latex = command("results", path, "--latex")
        # Wilson: 0.5 of two samples is between 0.0945 and 0.9055, whose half has two digits that count.
        self.assertIn(r"t & h2o:budget\_tokens=8 & 2 & 0.50 & 0.09 & 0.91 & ", latex)
        self.assertIn(r"95 \% from", latex)
        self.assertIn(r"a\|b", command("results", path, "--samples"))
        for code, words in ((1, ["--against", "never"]), (2, ["--by", "colour"]), (1, ["--grid"]), (1, ["--grid", "--against", "never"])):
            self.assertEqual(command("results", path, *words, expect=code).count("; "), 2)


    def test_digits_are_those_that_the_interval_leaves(self):
        rows = rows_of(both([(1, 0)] * 1000 + [(0, 1)] * 500))
        said = markdown(rows, ("task", "method"))
        # 1,000 of 1,500: half of the interval is 0.0238. What has no interval has its own digits.
        self.assertIn("| t | dense | 1,500 | 0.667 | 0.642 | 0.690 | 1.000 |", said)
        self.assertIn("| t | h2o:budget_tokens=8 | 1,500 | 0.333 | 0.310 | 0.358 | 0.500 |", said)
        self.assertIn("| 2.500 |", markdown([{"method": "dense", "score": 2.5, "low": math.nan, "high": math.nan}], ("method",)))

    def test_what_would_change_nothing(self):
        path = written("nothing.h5", both([(1, 0)]))
        for words in (["--samples", "--against", "dense"], ["--samples", "--by", "length"], ["--grid", "--by", "length"], ["--samples", "--grid"]):
            self.assertEqual(command("results", path, *words, expect=2).count("; "), 2)

    def test_perplexities_are_of_the_same_texts(self):
        texts = [("dense", 0, [-6.0, 2]), ("dense", 1, [-2.0, 2]), ("h2o", 1, [-4.0, 2])]
        records = [record(method, at, math.nan, metrics={"word_perplexity,none": pair}) for method, at, pair in texts]
        path = written("texts.h5", [*records, record("dense", 2, math.nan, refused="too long; a; b", metrics={})])
        rows = list(csv.DictReader(io.StringIO(command("results", path, "--perplexities", "--csv"))))
        self.assertEqual([(row["method"], row["samples"], row["dense on these"]) for row in rows], [("dense", "2", ""), ("h2o", "1", str(math.e))])
        self.assertEqual([float(row["value"]) for row in rows], [math.exp(2), math.exp(2)])
        self.assertIn("| t | h2o | word_perplexity | 1 | 7.38906 | 2.71828 |", command("results", path))
        self.assertIn("there are no perplexities; ", command("results", written("without.h5", both([(1, 0)])), "--perplexities", expect=1))

    def test_csv_is_one_table(self):
        path = written("csv.h5", [record("dense", 0, 1.0, metrics={"word_perplexity,none": [-6.0, 2]})])
        self.assertEqual(len(list(csv.reader(io.StringIO(command("results", path, "--csv"))))), 2)

    def test_an_interval_is_of_a_task_of_shares(self):
        scores = [("dense", 0, 0.5, "f1", 1), ("h2o", 0, 70.0, "f1", 1), ("dense", 0, 0.3, "loss", -1), ("dense", 0, 0.5, "found", 1)]
        rows = rows_of([record(method, at, score, task=task, direction=direction) for method, at, score, task, direction in scores])
        self.assertEqual({(row["task"], row["method"]): math.isnan(row["low"]) for row in rows},
                         {("f1", "dense"): True, ("f1", "h2o"): True, ("loss", "dense"): True, ("found", "dense"): False})

    def test_unknown_scores_count_nowhere(self):
        dense, h2o = rows_of(both([(1, 1), (1, math.nan), (math.nan, 1), (1, 0)]), against="dense")
        self.assertEqual((dense["samples"], h2o["samples"], h2o["low"]), (3, 3, wilson(2, 3)[0]))
        self.assertEqual((h2o["relative"], h2o["difference"], h2o["worse"]), (0.5, -0.5, 1))

    def test_less_may_be_better(self):
        records = [{**each, "direction": -1} for each in both([(3.0, 1.0), (2.0, 5.0), (4.0, 1.0)])]
        h2o = rows_of(records, against="dense")[1]
        self.assertEqual((h2o["better"], h2o["worse"]), (2, 1))

    def test_pairs_are_of_the_same_text(self):
        asked = [("dense", 0, 1, "a"), ("dense", 1, 0, "b"), ("h2o", 0, 0, "b"), ("h2o", 1, 1, "c")]
        records = [record(method, doc, score, sample=sample) for method, doc, score, sample in asked]
        self.assertEqual((rows_of(records, against="dense")[1]["better"], rows_of(records, against="dense")[1]["difference"]), (0, 0))

    def test_refused_samples_are_no_scores(self):
        records = [*both([(1, 0)]), record("dense", 5, math.nan, refused="it is long; there is no room; shorten it")]
        self.assertEqual([(row["samples"], row["refused"]) for row in rows_of(records)], [(1, 1), (1, None)])

    def test_budgets_are_sorted_by_size(self):
        records = [record(f"quoka:budget_tokens={budget}", 0, 1) for budget in (1024, 64, 256)] + [record("dense", 0, 1)]
        self.assertEqual([row["method"].rpartition("=")[2] for row in rows_of(records)], ["dense", "64", "256", "1024"])

    def test_what_cannot_be_compared(self):
        path = written("against.h5", both([(1, 0)]))
        self.assertIn("add method to --by", command("results", path, "--by", "task", "--against", "dense", expect=1))

    def test_nothing_in_a_file_moves_the_terminal(self):
        path = written("escape.h5", [record("dense\x1b[2J", 0, 1, task="\x1b]0;t\x07", answer="one\ntwo\x1b[31m\u202e", length=512, depth=0.0)])
        for words in ([], ["--samples"], ["--grid"], ["--samples", "--csv"], ["--latex"]):
            said = command("results", path, *words)
            self.assertFalse([letter for letter in said if not (letter.isprintable() or letter == "\n")], words)
        self.assertIn("one\\ntwo\\x1b[31m", command("results", path, "--samples"))
        self.assertIn("\\x1b[2J", command("results", path, "--against", "never", expect=1))

    def test_numbers_that_no_float_holds(self):
        metrics = {"word_perplexity,none": [10**400, 1], "bits_per_byte,none": [math.nan, 1], "perplexity,none": True, "acc,none": 10**400}
        self.assertIn("| t | dense |", command("results", written("huge.h5", [record("dense", 0, math.nan, metrics=metrics)])))


class Plans(unittest.TestCase):
    def test_a_second_method_is_still_to_be_run(self):
        """Dense is whole, the other half run: ten and five of twenty."""
        dense, quest = ([record(method, doc, 1) for doc in range(10)] for method in ("dense", "quest"))
        parts = [written("whole-dense.h5", dense), written("half-quest.h5", quest[:5], {("t", "quest", -1, None): 10})]
        joined = scratch("fifteen.h5")
        self.assertIn("15 of 20 samples", command("eval", "merge", *parts, "-o", joined, "--force"))
        self.assertEqual(whole(joined), (15, 20, 0))
        command("eval", "merge", joined, written("rest-quest.h5", quest[5:], {("t", "quest", -1, None): 10}), "-o", scratch("twenty.h5"), "--force")
        self.assertEqual(whole(scratch("twenty.h5")), (20, 20, 1))

    def test_shards_are_one_whole(self):
        plan = {("t", "dense", 1024, 0.0): 2, ("t", "dense", 2048, 0.0): 2}
        self.assertEqual(planned.total(planned.joined([plan, plan, {("t", "dense", 4096, 0.0): 2}], [])), 6)

    def test_texts_that_are_no_plan(self):
        for text in ("{}", "[[]]", "[1]", '[["t", "m", 1, 2, 3]]', '[["t", "m", 1, null, -3]]', "[" * 10**5, '[["t", "m", 1, NaN, 3]]',
                     '[["t", "m", true, null, 1]]', '[["t", "m", 1, null, 1], ["t", "m", 1, null, 2]]'):
            self.assertIsNone(planned.from_text(text), text[:40])


class Journals(unittest.TestCase):
    def test_a_file_of_someone_else_is_left_alone(self):
        path = scratch("foreign.journal")
        for content in (b"my notes", b"my notes\nof today", b'{"a": 1}\n'):
            path.write_bytes(content)
            with self.assertRaisesRegex(KvloupeError, "no journal of results"):
                Journal(path, {"model": "m"})
            self.assertEqual(path.read_bytes(), content)

    def test_a_first_line_that_was_cut(self):
        path = scratch("cut.journal")
        for content in (b"", b'{"form', b'{"format": "kvloupe-results-journal/1", "run": {"mo'):
            path.write_bytes(content)
            with Journal(path, {"model": "m"}) as journal:
                self.assertEqual(journal.records, [])
                journal.add(record("dense", 0, 1.0))
            with Journal(path, {"model": "m"}) as journal:
                self.assertEqual(len(journal.records), 1)

    def test_one_without_samples_is_not_left(self):
        Journal(scratch("none.journal"), {}).close()
        self.assertFalse(scratch("none.journal").exists())

    def test_one_that_is_removed_by_who_had_it(self):
        """It was opened, and its owner ended before it could be locked."""
        path, lock = scratch("gone.journal"), fcntl.flock
        def locked(*arguments):
            path.unlink()
            lock(*arguments)
        with mock.patch("fcntl.flock", locked), self.assertRaisesRegex(KvloupeError, "has just ended"):
            Journal(path, {})


class File(unittest.TestCase):
    def test_what_is_written_is_read(self):
        records = both([(1, 0.25), (math.nan, 1)])
        records[0]["answer"] = "\0 \ud800 é\n"
        plan = {("t", "dense", -1, None): 5, ("t", "h2o:budget_tokens=8", -1, None): 2, ("t", "dense", 1024, 50.0): 1}
        run, found, of_file = read_results(written("round.h5", records, plan))
        self.assertEqual((run, of_file), ({"model": "m"}, plan))
        records[0]["answer"] = "\0 ? é\n"
        for one, other in zip(found, records, strict=True):
            one, other = nan_as_unknown(one), nan_as_unknown(other)
            one.pop("metrics"), other.pop("metrics")
            self.assertEqual(one, other)

    def test_merging_joins_by_sample(self):
        first, second = both([(1, 0), (0, 0), (1, 1)])[:4], both([(1, 0), (0, 0), (1, 1)])[2:]
        joined = scratch("joined-tables.h5")
        command("eval", "merge", written("a.h5", first), written("b.h5", second), "-o", joined, "--force")
        self.assertEqual(sorted(entry["id"] for entry in read_results(joined)[1]), sorted(entry["id"] for entry in both([(1, 0), (0, 0), (1, 1)])))
        self.assertIn("exists already", command("eval", "merge", joined, "-o", joined, expect=1))
        command("eval", "merge", scratch("a.h5"), joined, "-o", joined, "--force")  # A part that came later; all is read first.
        self.assertEqual(len(read_results(joined)[1]), 6)

    def test_traces_that_the_window_does_not_open_are_told(self):
        records = [{**each, "trace": "r.h5.traces/a.h5"} for each in both([(1, 0)])]
        for folder, outside in (("beside", True), (".", False)):
            part, joined = written("with-traces.h5", records), scratch(folder) / "joined-traces.h5"
            joined.parent.mkdir(exist_ok=True)
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
                run_merge(types.SimpleNamespace(parts=[str(part)], output=str(joined), force=True))
            self.assertEqual("the traces of 2 samples not from" in errors.getvalue(), outside, folder)
            self.assertEqual("write the joined file into a folder above both" in errors.getvalue(), outside, folder)

    def test_a_full_disk_behind_standard_output_is_said(self):
        path = written("full.h5", both([(1, 0)]))
        with open("/dev/full", "w") as full:
            ended = subprocess.run([sys.executable, "-m", "kvloupe", "results", path], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr.strip(), "error: standard output cannot be written; No space left on device; read all of it, or write to a place with room")

    def test_the_program_averages_alike(self):
        path = pathlib.Path(__file__).parents[3] / "tests" / "data" / "results" / "needles.h5"
        theirs = {(row["method"], row["task"]): row for row in csv.DictReader(io.StringIO(program("export", path, "--view", "task_scores", "--csv", "-")))}
        ours = rows_of(read_results(path)[1], against="dense")
        self.assertEqual(len(theirs), len(ours))
        for row in ours:
            of_program = theirs[row["method"], row["task"]]
            self.assertEqual((int(of_program["samples"]), int(of_program["refused"])), (row["samples"], row["refused"] or 0))
            for name in ("score", "low", "high", "kept", "difference", "better", "worse", "p"):
                value = math.nan if row[name] is None else row[name]
                self.assertAlmostEqual(float(of_program[name] or "nan"), value, 12) if not math.isnan(value) else self.assertEqual(of_program[name], "")

    def test_what_differs_is_named(self):
        runs = {seed: {"model": "m", "options": {"seed": seed, "engine": "program"}, "versions": {"torch": str(seed)}} for seed in (1, 2)}
        parts = [written(f"options-{seed}.h5", both([(1, 0)]), run=run) for seed, run in runs.items()]
        self.assertIn("another --seed, version of torch than", command("eval", "merge", *parts, "-o", scratch("never.h5"), expect=1))


if __name__ == "__main__":
    unittest.main()
