"""python -m kvloupe eval against transformers, kvloupe run and lm-evaluation-harness's own command; runs that are killed, and shards."""
import json
import math
import pathlib
import unittest
from unittest import mock

import lm_eval
import torch
from lm_eval.tasks import TaskManager
from lm_eval.tasks._index import TaskIndex

import kvloupe.eval  # noqa: F401  (registers the model)
from kvloupe.errors import KvloupeError
from kvloupe.results.results_file import read_results

from .eval_cases import MODEL, command, evaluate, hostile_copies, killed_after, tasks, texts, without_times
from .support import load_model, load_tokenizer, program, scratch

SPEC = "quoka:budget_tokens=8"


def fresh(name):
    path = scratch(name)
    path.unlink(missing_ok=True)
    return path


def ids_of(text):
    return torch.tensor([load_tokenizer("llama")(text)["input_ids"]])


def likelihood(context, continuation):
    whole, before = ids_of(context + continuation)[0], ids_of(context).shape[1] if context else 0
    if not context:
        whole, before = torch.cat([torch.tensor([load_tokenizer("llama").bos_token_id]), whole]), 1
    with torch.no_grad():
        logits = load_model("llama")(whole[None]).logits[0].double().log_softmax(-1)
    return logits[before - 1 : -1].gather(1, whole[before:, None]).sum().item()


class AgainstTransformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.records = {}
        for engine in ("program", "transformers"):
            cls.records[engine] = evaluate(fresh(f"{engine}.h5"), "--tasks", "tiny_text,tiny_choice,tiny_rolling", "--engine", engine,
                                           "--method", "dense", "--method", SPEC)

    def test_dense_answers_are_those_of_generate(self):
        for engine, records in self.records.items():
            answers = [record["answer"] for record in records if record["task"] == "tiny_text" and record["method"] == "dense"]
            expected = []
            for text in texts(6):
                ids = ids_of(text)
                with torch.no_grad():
                    new = load_model("llama").generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0)
                expected.append(load_tokenizer("llama").decode(new[0, ids.shape[1] :], skip_special_tokens=True).split("dog")[0])
            self.assertEqual(answers, expected, engine)

    def test_likelihoods(self):
        expected = [likelihood("", text) for text in texts(6)]
        for engine, records in self.records.items():
            found = [record["metrics"]["word_perplexity,none"][0] for record in records
                     if record["task"] == "tiny_rolling" and record["method"] == "dense"]
            for ours, theirs in zip(found, expected, strict=True):
                self.assertLess(abs(ours - theirs), 1e-3, engine)

    def test_both_engines_keep_and_answer_the_same(self):
        dense = [record["answer"] for record in self.records["program"] if record["method"] == "dense"]
        sparse = [record["answer"] for record in self.records["program"] if record["method"] == SPEC]
        self.assertNotEqual(dense, sparse)
        for ours, theirs in zip(self.records["program"], self.records["transformers"], strict=True):
            for name in ("task", "doc", "method", "answer", "score", "prompt_tokens", "expected"):
                if not (name == "score" and math.isnan(ours[name])):
                    self.assertEqual(ours[name], theirs[name], (ours["task"], ours["method"], name))
            if not math.isnan(ours["kept"]):
                self.assertAlmostEqual(ours["kept"], theirs["kept"], 3)
            for name, value in ours["metrics"].items():
                other = theirs["metrics"][name]
                for one, other in zip(value, other) if isinstance(value, list) else [(value, other)]:
                    self.assertLess(abs(one - other), 1e-3, name)

    def test_closed_loop_is_that_of_kvloupe_run(self):
        requests = scratch("requests.jsonl")
        requests.write_text("".join(json.dumps({"id": at, "prompt": text, "raw": True, "until": ["dog"], "max_new_tokens": 12}) + "\n"
                                    for at, text in enumerate(texts(6))))
        said = program("run", "--model", MODEL, "--requests", requests, "--closed-loop", SPEC, "--chunk-size", 16)
        answers = [json.loads(line) for line in said.splitlines()]
        ours = [record for record in self.records["program"] if record["task"] == "tiny_text" and record["method"] == SPEC]
        self.assertEqual([(record["answer"], record["prompt_tokens"]) for record in ours],
                         [(answer["text"], answer["prompt_tokens"]) for answer in answers])
        for record, answer in zip(ours, answers):
            self.assertEqual(None if math.isnan(record["kept"]) else record["kept"], answer["kept"])

    def test_the_harness_itself_gives_these_scores(self):
        manager = TaskManager(include_path=str(tasks()), include_defaults=False)
        results = lm_eval.simple_evaluate("kvloupe", f"model={MODEL},method={SPEC},chunk_size=16,threads=1", tasks=["tiny_choice", "tiny_text"],
                                          task_manager=manager, fewshot_random_seed=42, bootstrap_iters=0)["results"]
        for task, metric in (("tiny_choice", "acc,none"), ("tiny_text", "exact_match,none")):
            ours = [record["metrics"][metric] for record in self.records["program"] if record["task"] == task and record["method"] == SPEC]
            self.assertAlmostEqual(sum(ours) / len(ours), results[task][metric], msg=task)


class ChatTemplate(unittest.TestCase):
    def test_prompts_are_the_templates(self):
        records = evaluate(fresh("chat.h5"), "--tasks", "tiny_text", "--apply-chat-template", "--limit", 2)
        tokenizer = load_tokenizer("llama")
        for record, text in zip(records, texts(2), strict=True):
            chat = tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False)
            self.assertEqual(record["prompt_tokens"], len(tokenizer(chat, add_special_tokens=False)["input_ids"]))


class KilledAndShared(unittest.TestCase):
    def test_resume_after_kills(self):
        arguments = ["--tasks", "tiny_text,tiny_choice", "--method", "dense", "--method", SPEC]
        whole, cut = fresh("whole.h5"), fresh("cut.h5")
        expected = without_times(evaluate(whole, *arguments, count=20))
        for lines in (3, 25):
            self.assertEqual(killed_after(cut, lines, *arguments, count=20), -9)
            self.assertFalse(cut.exists())
            with open(f"{cut}.journal", "a") as journal:  # as a kill in the midst of a write leaves it
                journal.write('{"id": "00')
        self.assertIn("--resume", evaluate(cut, *arguments, count=20, expect=1))
        before = scratch("cut.h5.journal").read_text().splitlines()[1:-1]
        self.assertEqual(without_times(evaluate(cut, "--resume", *arguments, count=20)), expected)
        self.assertFalse(scratch("cut.h5.journal").exists())
        self.assertGreater(len(before), 20)
        self.assertEqual(len(before), len({json.loads(line)["id"] for line in before}), "a sample was run twice")

    def test_shards_are_the_whole(self):
        arguments = ["--tasks", "tiny_text,tiny_choice", "--limit", 5]
        whole, parts, joined = fresh("one.h5"), [fresh(f"part{at}.h5") for at in (1, 2)], fresh("joined.h5")
        expected = without_times(evaluate(whole, *arguments))
        for at, part in enumerate(parts, 1):
            self.assertEqual(len(evaluate(part, *arguments, "--shard", f"{at}/2")), 5)
        said = command("eval", "merge", *parts, parts[0], "-o", joined)
        self.assertIn("10 of 10 samples", said)
        self.assertEqual(without_times(read_results(joined)[1]), expected)
        other = fresh("other.h5")
        evaluate(other, *arguments, "--seed", 1)
        self.assertIn("another --seed than", command("eval", "merge", parts[0], other, "-o", fresh("never.h5"), expect=1))


class Refused(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """The harness's ten thousand files are read once."""
        known, build = {}, TaskIndex.build

        def once(paths, **options):
            paths = tuple(map(str, paths))
            if paths not in known:
                known[paths] = build(map(pathlib.Path, paths), **options)
            return dict(known[paths])

        cls.enterClassContext(mock.patch.object(TaskIndex, "build", staticmethod(once)))

    def test_what_needs_the_network(self):
        said = evaluate(fresh("network.h5"), "--tasks", "tiny_text,niah_single_2,ruler_qa_squad", "--data", scratch("data"), expect=1)
        self.assertTrue(said.startswith("error: niah_single_2, ruler_qa_squad cannot be prepared"), said)
        for what in ("the data set baber/paul_graham_essays (niah_single_2)", "dev-v2.0.json (ruler_qa_squad)", f"put it into {scratch('data')}/"):
            self.assertIn(what, said)
        self.assertEqual(said.count("; "), 2, said)

    def test_wrong_use(self):
        for code, words in ((1, ["--tasks", "tiny_texts"]), (1, ["--tasks", "tiny_text", "--method", "nonsense"]),
                            (2, ["--tasks", "tiny_text", "--shard", "3/2"]), (2, ["--tasks", "tiny_text", "--lengths", "1x"]),
                            (1, ["--tasks", "tiny_text", "--method", SPEC, "--budgets", "8"]),
                            (1, ["--tasks", "tiny_text", "--include-path", "/never"]), (1, ["--tasks", "tiny_text", "--model", "never"]),
                            (1, ["--tasks", "ruler_vt", "--lengths", "512"]),
                            (1, ["--tasks", "kvloupe_niah", "--lengths", "1k", "--depths", "0", "--limit", "1"])):
            said = evaluate(fresh("wrong.h5"), *words, expect=code)
            self.assertTrue(said.startswith("error: ") and said.count("; ") == 2, said)
        self.assertIn("no folder", evaluate(scratch("never") / "r.h5", "--tasks", "tiny_text", expect=1))


class HostileFiles(unittest.TestCase):
    def test_one_sentence(self):
        good = fresh("good.h5")
        evaluate(good, "--tasks", "tiny_text", "--limit", 2)
        for name, path in hostile_copies(good):
            with self.subTest(name=name), self.assertRaises(KvloupeError) as caught:
                read_results(path)
            self.assertEqual(str(caught.exception).count("; "), 2)
        self.assertEqual(command("results", path, expect=1).count("; "), 2)


if __name__ == "__main__":
    unittest.main()
