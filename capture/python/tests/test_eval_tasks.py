"""The needle tasks that come with the package: they fit their length, and their needle stands where its depth says."""
import math
import shutil
import types
import unittest
from unittest import mock

from lm_eval.tasks import TaskManager

from kvloupe.errors import KvloupeError
from kvloupe.eval import harness_tasks, lent_tokenizer
from kvloupe.eval.harness_tasks import OWN_TASKS, load_tasks
from kvloupe.tasks import needle

from .eval_cases import tasks
from .support import scratch


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


def loaded(*names, folder):
    return load_tasks(names, include_paths=[folder], metadata={}, seed=1, num_fewshot=None, gen_kwargs=None, may_download=False)


class Groups(unittest.TestCase):
    def group(self, name, text):
        """A folder of tasks with one group more."""
        folder = scratch(f"group-{name}")
        shutil.copytree(tasks(), folder)
        (folder / f"{name}.yaml").write_text(f"group: {name}\n{text}\n")
        return folder

    def test_options_of_a_group_are_those_of_its_tasks(self):
        folder = self.group("with_options", "task: [tiny_choice, tiny_text]\nnum_fewshot: 2\nfewshot_split: train")
        (folder / "outer.yaml").write_text("group: outer\ntask: [with_options, tiny_word]\n")
        found = loaded("outer", folder=folder)
        self.assertEqual({name: task.get_config("num_fewshot") for name, task in found.items()}, {"tiny_choice": 2, "tiny_text": 2, "tiny_word": 0})
        with self.assertRaisesRegex(KvloupeError, "^the task tiny_text is asked for twice; a group that has it gives it options of its own; "):
            loaded("tiny_text", "with_options", folder=folder)

    def test_a_group_of_ones_own_with_tasks_of_the_harness(self):
        for name, text in (("by_name", "task: [tiny_text, harness_one]"), ("by_options", "task: [{task: harness_one, num_fewshot: 0}]"),
                           ("in_a_group", "task: [tiny_text, {group: inner, task: [harness_one]}]")):
            folder, asked = self.group(name, text), []

            class Manager(TaskManager):
                """The harness's ten thousand files are one."""

                def __init__(self, include_path, include_defaults=True, metadata=None):
                    asked.append(include_defaults)
                    folders = [*include_path, harness] if include_defaults else include_path
                    super().__init__(include_path=folders, include_defaults=False, metadata=metadata)

            harness = scratch(f"harness-{name}")
            harness.mkdir()
            (harness / "one.yaml").write_text((folder / "tiny_word.yaml").read_text().replace("tiny_word", "harness_one"))
            with mock.patch.object(harness_tasks, "TaskManager", Manager):
                self.assertIn("harness_one", loaded(name, folder=folder))
                self.assertEqual(asked, [False, True])
                loaded("tiny_text", folder=folder)
                self.assertEqual(asked, [False, True, False])


if __name__ == "__main__":
    unittest.main()
