"""The needle tasks that come with the package: they fit their length, and their needle stands where its depth says."""
import math
import types
import unittest

from lm_eval.tasks import TaskManager

from kvloupe.eval import lent_tokenizer
from kvloupe.eval.harness_tasks import OWN_TASKS
from kvloupe.tasks import needle


def words_in(text):
    return len(text.split())


class Needles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lent_tokenizer.lend(types.SimpleNamespace(count=words_in))
        metadata = {"max_seq_lengths": [256, 700], "depths": [0, 50, 100], "num_seeds": 4}
        manager = TaskManager(include_path=str(OWN_TASKS), include_defaults=False, metadata=metadata)
        cls.tasks = manager.load(["kvloupe_niah", "kvloupe_passkey"])["tasks"]

    def test_every_cell(self):
        for name, task in self.tasks.items():
            docs = list(task.eval_docs)
            self.assertEqual(len({(doc["max_length"], doc["depth"], doc["seed"]) for doc in docs}), 2 * 3 * 4)
            for doc in docs:
                tokens = words_in(doc["input"]) + words_in(doc["gen_prefix"]) + needle.NEW_TOKENS
                self.assertTrue(doc["max_length"] * 0.9 <= tokens <= doc["max_length"], (name, doc["max_length"], tokens))
                _, _, text = doc["input"].partition("\n")
                hay, _, _ = text.rpartition("\n")
                self.assertAlmostEqual(hay.index(doc["answer"]) / len(hay), doc["depth"] / 100, delta=0.12)

    def test_a_seed_hides_the_same_in_all_cells(self):
        for task in self.tasks.values():
            by_seed = {}
            for doc in task.eval_docs:
                by_seed.setdefault(doc["seed"], set()).add((doc["answer"], doc["gen_prefix"]))
            self.assertTrue(all(len(needles) == 1 for needles in by_seed.values()))
            self.assertEqual(len(set.union(*by_seed.values())), 4)

    def test_long_sentences_fit(self):
        """With a letter a token even half of the sentences that are tried are too many."""
        lent_tokenizer.lend(types.SimpleNamespace(count=len))
        self.addCleanup(lent_tokenizer.lend, types.SimpleNamespace(count=words_in))
        for length in range(600, 1600, 37):
            doc = needle.niah(max_seq_lengths=[length], depths=[50], num_seeds=1)["test"][0]
            self.assertLessEqual(len(doc["input"]) + 1 + len(doc["gen_prefix"]) + needle.NEW_TOKENS, length)

    def test_what_counts_as_found(self):
        for answer, score in ((" 1234567.", 1.0), ("1,234,567", 1.0), ("123456", 0.0), ("", 0.0)):
            self.assertEqual(needle.found({"answer": "1234567"}, [answer]), {"found": score})

    def test_sentences_differ(self):
        doc = next(doc for doc in self.tasks["kvloupe_niah"].eval_docs if doc["max_length"] == 700)
        sentences = doc["input"].split(". ")
        self.assertGreater(len(set(sentences)), 0.95 * len(sentences))
        self.assertTrue(math.isclose(doc["depth"], 0))


if __name__ == "__main__":
    unittest.main()
