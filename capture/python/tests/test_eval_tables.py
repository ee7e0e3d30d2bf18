"""Intervals, tests and tables of results, against sums by hand."""
import csv
import io
import math
import unittest

from kvloupe.results.record import nan_as_unknown
from kvloupe.results.results_file import read_results, write_results
from kvloupe.results.statistics import sign_test, wilson
from kvloupe.results.table import grid, perplexities, rows_of

from .eval_cases import command
from .support import scratch


def record(method, doc, score, **others):
    return {"id": f"{method} {doc} {others.get('length', 0)}", "task": "t", "method": method, "answer": "a|b", "expected": "50 %", "metrics": {"acc,none": score}, "doc": doc, "length": -1,
            "seed": 42, "budget": -1, "prompt_tokens": 10, "depth": math.nan, "kept": math.nan, "score": score, "prefill_s": 1.0, "decode_s": 2.0, **others}


def both(pairs):
    return [record(method, doc, score) for doc, pair in enumerate(pairs) for method, score in zip(("dense", "h2o:budget_tokens=8"), pair)]


def written(name, records, total=None):
    path = scratch(name)
    write_results(path, {"model": "m"}, records, len(records) if total is None else total)
    return path


class Statistics(unittest.TestCase):
    def test_wilson(self):
        for successes, count, low, high in ((0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (5, 10, 0.23659, 0.76341), (45, 50, 0.78640, 0.95652)):
            for ours, theirs in zip(wilson(successes, count), (low, high)):
                self.assertAlmostEqual(ours, theirs, 4)
        self.assertTrue(all(map(math.isnan, wilson(0, 0))))

    def test_sign(self):
        self.assertEqual(sign_test(0, 0), 1.0)
        self.assertEqual(sign_test(3, 3), 1.0)
        self.assertAlmostEqual(sign_test(0, 5), 2 / 32)
        self.assertAlmostEqual(sign_test(9, 1), 2 * 11 / 1024)


class Tables(unittest.TestCase):
    def test_beside_dense_and_paired(self):
        dense, h2o = rows_of(both([(1, 1), (1, 0), (1, 0), (0, 1), (0, 0)]), against="dense")
        self.assertEqual((dense["method"], dense["samples"], dense["score"], dense["relative"], dense["better"]), ("dense", 5, 0.6, 1.0, None))
        self.assertEqual((h2o["score"], h2o["better"], h2o["worse"], h2o["p"]), (0.4, 1, 2, 1.0))
        self.assertAlmostEqual(h2o["relative"], 2 / 3)
        self.assertAlmostEqual(h2o["difference"], -0.2)
        self.assertTrue(math.isnan(rows_of(both([(0, 0)]))[1]["relative"]))

    def test_grid(self):
        records = [record("dense", at, score, length=length, depth=depth) for at, (length, depth, score) in enumerate([(1024, 0.0, 1), (1024, 0.0, 0), (2048, 50.0, 1)])]
        lengths, depths, cells = grid(records, "dense")
        self.assertEqual((lengths, depths, cells[0][0], cells[1][1], cells[0][1][1]), ([1024, 2048], [0.0, 50.0], (0.5, 2), (1.0, 1), 0))
        said = command("results", written("grid.h5", records), "--grid")
        self.assertIn("| 1024 | 0.50 (2) |  |", said)

    def test_perplexity_is_of_all_texts(self):
        records = [record("dense", at, math.nan, metrics={"word_perplexity,none": pair, "bits_per_byte,none": pair}) for at, pair in enumerate([[-6.0, 2], [-2.0, 6]])]
        found = perplexities(records)["t", "dense"]
        self.assertAlmostEqual(found["word_perplexity"], math.e)
        self.assertAlmostEqual(found["bits_per_byte"], 1 / math.log(2))

    def test_forms(self):
        path = written("forms.h5", both([(1, 0), (1, 1)]))
        rows = list(csv.DictReader(io.StringIO(command("results", path, "--csv", "--by", "method,seed", "--against", "dense"))))
        self.assertEqual([(row["method"], row["score"], row["worse"]) for row in rows], [("dense", "1.0", ""), ("h2o:budget_tokens=8", "0.5", "1")])
        latex = command("results", path, "--latex")
        self.assertIn(r"t & h2o:budget\_tokens=8 & 2 & 0.500", latex)
        self.assertIn(r"95 \% from", latex)
        self.assertIn(r"a\|b", command("results", path, "--samples"))
        for code, words in ((1, ["--against", "never"]), (2, ["--by", "colour"]), (1, ["--grid"])):
            self.assertEqual(command("results", path, *words, expect=code).count("; "), 2)


class File(unittest.TestCase):
    def test_what_is_written_is_read(self):
        records = both([(1, 0.25), (math.nan, 1)])
        records[0]["answer"] = "\0 \ud800 é\n"
        run, found, total = read_results(written("round.h5", records, total=7))
        self.assertEqual((run, total), ({"model": "m"}, 7))
        records[0]["answer"] = "\0 ? é\n"
        for one, other in zip(found, records, strict=True):
            one, other = nan_as_unknown(one), nan_as_unknown(other)
            one.pop("metrics"), other.pop("metrics")
            self.assertEqual(one, other)

    def test_merging_joins_by_sample(self):
        first, second = both([(1, 0), (0, 0), (1, 1)])[:4], both([(1, 0), (0, 0), (1, 1)])[2:]
        joined = scratch("joined-tables.h5")
        command("merge-results", written("a.h5", first, 6), written("b.h5", second, 6), "-o", joined, "--force")
        self.assertEqual(sorted(entry["id"] for entry in read_results(joined)[1]), sorted(entry["id"] for entry in both([(1, 0), (0, 0), (1, 1)])))
        self.assertIn("exists already", command("merge-results", joined, "-o", joined, expect=1))


if __name__ == "__main__":
    unittest.main()
