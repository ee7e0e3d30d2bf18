"""Runs that are added to, documents that are too long, and options that would change nothing."""
import functools
import hashlib
import json
import math
import os
import shutil
import types
import unittest
from unittest import mock

import h5py

from kvloupe.errors import KvloupeError
from kvloupe.eval import command as eval_command
from kvloupe.eval import KvloupeLM, data_folder
from kvloupe.eval.origins_now import hash_of_method
from kvloupe.eval.program_engine import ProgramEngine
from kvloupe.eval.run_options import generation, run_of
from kvloupe.eval.scoring import samples_of
from kvloupe.results.results_file import read_results, write_results

from .eval_cases import MODEL, command, evaluate, tasks
from .support import scratch
from .worker_cases import Counted

SPEC = "quoka:budget_tokens=8"
OPTIONS = types.SimpleNamespace(engine="program", chunk_size=16, device="cpu", compute="auto", seed=1, num_fewshot=None, apply_chat_template=True,
                                fewshot_as_multiturn=None, system_instruction=None, gen_kwargs=None)


def fresh(name):
    for path in (scratch(name), scratch(f"{name}.journal")):
        path.unlink(missing_ok=True)
    return scratch(name)


def whole(path):
    """(samples, of how many, complete)"""
    with h5py.File(path) as file:
        return len(file["samples"]), file.attrs["total"], file.attrs["complete"]


class AddedTo(unittest.TestCase):
    def test_a_method_and_a_task(self):
        path = fresh("added.h5")
        evaluate(path, "--tasks", "tiny_text", "--limit", 2)
        self.assertEqual(whole(path), (2, 2, 1))
        evaluate(path, "--tasks", "tiny_choice", "--limit", 3, "--method", SPEC, "--resume", "--shard", "1/3")
        self.assertEqual(whole(path), (4, 8, 0))

    def test_lengths_and_depths(self):
        """The same texts get other numbers; each counts once."""
        path, arguments = fresh("lengths.h5"), ["--tasks", "kvloupe_niah", "--limit", 1, "--gen-kwargs", "max_gen_toks=2"]
        evaluate(path, *arguments, "--lengths", "160,192", "--depths", "0,100")
        evaluate(path, *arguments, "--lengths", "192,224", "--depths", "0,100", "--resume")
        records = evaluate(path, *arguments, "--lengths", "192", "--depths", "100,50,0", "--resume")
        cells = [(record["length"], record["depth"]) for record in records]
        self.assertEqual(sorted(cells), [(160, 0.0), (160, 100.0), (192, 0.0), (192, 50.0), (192, 100.0), (224, 0.0), (224, 100.0)])
        self.assertEqual(whole(path), (7, 7, 1))

    def test_equal_documents_are_two(self):
        class Task:
            eval_docs, instances = [{"a": 1}, {"a": 2}, {"a": 1}], []

            def build_all_requests(self, **_):
                self.instances = [types.SimpleNamespace(doc_id=at, idx=0, request_type="loglikelihood", args=(doc["a"],))
                                  for at, doc in enumerate(self.eval_docs)]
        samples = samples_of("t", Task(), None, None, {"apply_chat_template": False})
        self.assertEqual([sample.identity[-1] for sample in samples], [0, 0, 1])
        self.assertEqual(samples[0].identity[:-1], samples[2].identity[:-1])

    def test_gpus_of_one_machine_are_the_same(self):
        runs = [run_of(types.SimpleNamespace(**vars(OPTIONS) | {"device": device}), MODEL) for device in ("cuda:0", "cuda:1", "cuda", "cpu")]
        self.assertEqual([run == runs[0] for run in runs], [True, True, True, False])
        self.assertTrue(runs[0]["options"]["fewshot_as_multiturn"])


class Models(unittest.TestCase):
    """A folder is another model where anything in it is that decides over answers."""

    def folder(self, name):
        folder = scratch(name)
        shutil.copytree(MODEL, folder)
        return folder

    def test_configuration_and_tokenizer(self):
        folder, path = self.folder("llama-changed"), fresh("changed.h5")
        arguments = ["--tasks", "tiny_text", "--limit", 1, "--model", folder]
        evaluate(path, *arguments)
        evaluate(path, *arguments, "--resume")
        run, records, plan = read_results(path)
        for name, change in (("config.json", {"rope_theta": 5.0}), ("tokenizer.json", {"truncation": None, "x": 1})):
            before = (folder / name).read_text()
            (folder / name).write_text(json.dumps(json.loads(before) | change))
            self.assertIn("another configuration or tokenizer of the model;", evaluate(path, *arguments, "--resume", expect=1))
            said = command("eval", "record", path, records[0]["id"], "--model", folder, "--include-path", tasks(), expect=1)
            self.assertIn("is of another model; configuration or tokenizer of", said)
            (folder / name).write_text(before)
        del run["model_files"]
        write_results(path, run, records, plan)
        self.assertIn("does not say which configuration and tokenizer its model had; give another file by -o",
                      evaluate(path, *arguments, "--resume", expect=1))

    def test_a_file_is_whole_by_itself(self):
        """Runs of before configurations had a hash go on."""
        path = scratch("model.gguf")
        path.write_bytes(b"one")
        self.assertNotIn("model_files", run_of(OPTIONS, path))

    def test_weights_of_any_kind(self):
        hashes = []
        for content in (b"one", b"two"):
            for name in ("pytorch_model.bin", "adapter_model.safetensors"):
                folder = scratch(f"weights-{len(hashes)}")
                folder.mkdir()
                (folder / name).write_bytes(content)
                hashes.append(run_of(OPTIONS, folder)["model_hash"])
        self.assertEqual([hash[:4] for hash in hashes], [hashlib.sha256(content).hexdigest()[:4] for content in (b"one", b"one", b"two", b"two")])


class Origins(unittest.TestCase):
    """Files of tasks and of SPECs that change between two runs into one file."""

    def refuse(self, sentence, path, *arguments):
        said = command(*arguments, "--resume", "-o", path, expect=1)
        self.assertIn(f"{path} cannot be gone on with; {sentence} as they are now; undo what was changed there", said)
        self.assertFalse(scratch(f"{path.name}.journal").exists())

    def test_how_a_task_scores(self):
        task, path = Counted("scores", 3), fresh("scores.h5")
        arguments, sentence = [*task.arguments, "--threads", 1], "the scores of tiny_counted in it are not those of the task's files"
        command(*arguments, "--limit", 1, "-o", path)
        command(*arguments, "--limit", 2, "--resume", "-o", path)
        for name, before, after in (("counted.py", "len(results[0])", "len(results[0]) + 1"),
                                    ("tiny_counted.yaml", "aggregation: mean", "aggregation: median")):
            content = (task.folder / name).read_text()
            (task.folder / name).write_text(content.replace(before, after))
            self.refuse(sentence, path, *arguments)
            (task.folder / name).write_text(content)
        run, records, plan = read_results(path)
        write_results(path, run, [{**record, "task_hash": ""} for record in records], plan)
        self.refuse(sentence, path, *arguments)
        self.refuse(sentence, path, *arguments, "--workers", 1)
        self.assertEqual(len(task.answers()), 2)

    def test_tasks_that_come_with_the_package_are_known_by_their_version(self):
        path, arguments = fresh("shipped.h5"), ["--tasks", "kvloupe_passkey", "--lengths", "160", "--depths", "0", "--gen-kwargs", "max_gen_toks=2"]
        evaluate(path, *arguments, "--limit", 1)
        run, records, plan = read_results(path)
        write_results(path, run, [{**record, "task_hash": ""} for record in records], plan)
        self.assertEqual(len(evaluate(path, *arguments, "--limit", 2, "--resume")), 2)

    def test_a_file_that_a_method_names(self):
        config, path, other = scratch("heads.json"), fresh("named.h5"), fresh("named-other.h5")
        method, arguments = f"minference:config={config}", ["--tasks", "tiny_text", "--method", f"minference:config={config}"]
        config.write_text("[{}, {}]")
        evaluate(path, *arguments, "--shard", "1/2")
        for record in read_results(path)[1]:
            self.assertEqual(bool(record["method_hash"]), record["method"] == method)
        config.write_text("[{},  {}]")
        self.refuse(f"the answers of {method} in it are not those of the files that it names", path,
                    "eval", "--model", MODEL, "--include-path", tasks(), "--chunk-size", 16, *arguments)
        evaluate(other, *arguments, "--shard", "2/2")
        self.assertIn(f"cannot be joined; the files that make {method} differed between them; ",
                      command("eval", "merge", path, other, "-o", scratch("named-joined.h5"), expect=1))

    def test_the_calibrated_basis(self):
        folder = scratch("cache") / "bases"
        folder.mkdir(parents=True)
        with mock.patch.dict(os.environ, KVLOUPE_CACHE_DIR=str(folder.parent)):
            for method, name in (("loki", "loki"), ("aqua", "aqua")):
                found = [hash_of_method(method, "a" * 64)]
                for content in (b"one", b"two"):
                    (folder / f"{name}-{'a' * 16}-1.h5").write_bytes(content)
                    found.append(hash_of_method(method, "a" * 64))
                self.assertEqual((len(set(found)), found[0], hash_of_method(method, "b" * 64)), (3, "", ""))


class Scores(unittest.TestCase):
    def test_a_perplexity_is_no_score(self):
        path = fresh("word.h5")
        for record in evaluate(path, "--tasks", "tiny_word"):
            self.assertEqual(record["score"], record["metrics"]["acc,none"])
            self.assertLess(record["metrics"]["perplexity,none"], 0)
        self.assertIn("| tiny_word | dense | perplexity |", command("results", path))

    def test_data_of_a_score_is_found_and_less_is_better(self):
        data = scratch("loss-data")
        data.mkdir(exist_ok=True)
        path = fresh("loss.h5")
        said = evaluate(path, "--tasks", "tiny_loss", "--limit", 1, "--data", data, expect=1)
        self.assertIn(f"it needs the file https://never.example/loss.txt, which is not on this machine; put it into {data}/loss.txt", said)
        (data / "loss.txt").write_text("four")
        record = evaluate(path, "--tasks", "tiny_loss", "--limit", 1, "--data", data)[0]
        self.assertEqual((record["direction"], record["score"]), (-1, 4.0 + len(record["answer"])))


    def test_numbers_that_json_does_not_have(self):
        folder, path = scratch("unknown-numbers"), fresh("unknown-numbers.h5")
        shutil.copytree(tasks(), folder)
        (folder / "loss.py").write_text('def of(doc, results):\n    return {"loss": {"a": float("nan"), "b": [float("inf"), 1.0]}}\n')
        records = evaluate(path, "--tasks", "tiny_loss", "--limit", 1, "--include-path", folder)
        self.assertEqual(records[0]["metrics"], {"loss,none": {"a": None, "b": [None, 1.0]}})


class TooLong(unittest.TestCase):
    def test_the_others_are_answered(self):
        folder = tasks(4)
        data = folder / "long.json"
        lines = (folder / "data.json").read_text().splitlines()
        data.write_text("\n".join([lines[0], json.dumps({"text": "the cat " * 900, "target": "the", "label": 0}), lines[2]]))
        form = (folder / "tiny_text.yaml").read_text()
        (folder / "tiny_long.yaml").write_text(form.replace("tiny_text", "tiny_long").replace("data.json", "long.json"))
        self.addCleanup((folder / "tiny_long.yaml").unlink)
        for engine in ("program", "transformers"):
            path = fresh(f"long-{engine}.h5")
            for words in ([], ["--resume"]):
                said = evaluate(path, "--tasks", "tiny_long", "--engine", engine, *words, expect=1, count=4)
                self.assertIn(f"1 of 3 samples were refused, and {path} says so of each; document 1 of tiny_long: ", said)
                self.assertEqual(said.count("; "), 2)
                self.assertFalse(scratch(f"{path.name}.journal").exists())
            records = read_results(path)[1]
            self.assertEqual([bool(record["refused"]) for record in records], [False, True, False])
            self.assertTrue(math.isnan(records[1]["score"]))
            self.assertIn("| refused |", command("results", path))

    def test_it_is_asked_once(self):
        path = fresh("once.h5")
        evaluate(path, "--tasks", "tiny_text", "--gen-kwargs", "max_gen_toks=600", "--limit", 1, expect=1)
        with mock.patch("kvloupe.eval.model.KvloupeLM.answer", side_effect=AssertionError):
            evaluate(path, "--tasks", "tiny_text", "--gen-kwargs", "max_gen_toks=600", "--limit", 1, "--resume", expect=1)


class Beside(unittest.TestCase):
    def test_dense_always_runs(self):
        path = fresh("beside.h5")
        records = evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--method", "keydiff", "--budgets", "8,12")
        self.assertEqual([record["method"] for record in records], ["dense", "keydiff:budget_tokens=8", "keydiff:budget_tokens=12"])
        records = evaluate(path, "--tasks", "tiny_text", "--limit", 2, "--method", SPEC, "--method", "dense", "--resume")
        self.assertEqual([(record["doc"], record["method"]) for record in records if record["method"] in ("dense", SPEC)],
                         [(0, SPEC), (0, "dense"), (1, SPEC), (1, "dense")])

    def test_a_folder_that_transformers_runs(self):
        path, folder = fresh("hf.h5"), f"hf:{MODEL}"
        records = evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--model", folder)
        run = read_results(path)[0]
        self.assertEqual((run["model"], run["options"]["engine"], "torch" in run["versions"]), ("llama", "transformers", True))
        with mock.patch("kvloupe.eval.model.KvloupeLM.answer", side_effect=AssertionError):
            self.assertEqual(len(evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--engine", "transformers", "--resume")), len(records))
        said = evaluate(path, "--tasks", "tiny_text", "--model", folder, "--engine", "program", expect=2)
        self.assertIn(f"{folder} cannot be run by the program; ", said)
        self.assertEqual(said.count("; "), 2)
        self.assertEqual(KvloupeLM(model=folder).engine.name, "transformers")
        with self.assertRaisesRegex(KvloupeError, "cannot be run by the program"):
            KvloupeLM(model=folder, engine="program")

    def test_merging_has_one_name(self):
        self.assertIn("invalid choice: 'merge-results'", command("merge-results", "a.h5", "-o", "b.h5", expect=2))
        self.assertIn("-o", command("eval", "merge", "a.h5", expect=2))


class AtOnce(unittest.TestCase):
    def test_results_are_read_again_under_the_lock(self):
        """Another run ends between the first look and the lock."""
        path, other = fresh("race.h5"), fresh("other.h5")
        evaluate(other, "--tasks", "tiny_text", "--limit", 2)
        first = eval_command._check_output

        def looked(options):
            first(options)
            if options.output == str(path):
                os.replace(other, path)
        with mock.patch.object(eval_command, "_check_output", looked):
            records = evaluate(path, "--tasks", "tiny_choice", "--limit", 1, "--resume")
        self.assertEqual(sorted(record["task"] for record in records), ["tiny_choice", "tiny_text", "tiny_text"])
        evaluate(other, "--tasks", "tiny_text", "--limit", 2)
        path.unlink()
        with mock.patch.object(eval_command, "_check_output", looked):
            self.assertIn("exists already", evaluate(path, "--tasks", "tiny_text", "--limit", 2, expect=1))


class Refused(unittest.TestCase):
    def test_options_that_would_change_nothing(self):
        for code, words, reason in (
                (1, ["--tasks", "tiny_text", "--gen-kwargs", "temperature=0.7"], "temperature=0.7"),
                (1, ["--tasks", "tiny_text", "--gen-kwargs", "top_p=0.5"], "top_p"),
                (1, ["--tasks", "tiny_text", "--gen-kwargs", "do_sample=True"], "do_sample"),
                (1, ["--tasks", "tiny_text", "--gen-kwargs", "max_gen_toks=abc"], "max_gen_toks"),
                (1, ["--tasks", "tiny_choice", "--gen-kwargs", "max_gen_toks=3"], "would change nothing"),
                (1, ["--tasks", "tiny_word", "--num-fewshot", "2"], "takes no examples"),
                (1, ["--tasks", "tiny_rolling", "--num-fewshot", "2"], "takes no examples"),
                (1, ["--tasks", "tiny_choice", "--num-fewshot", "6"], "5 examples to choose from"),
                (1, ["--tasks", "tiny_text", "--fewshot-as-multiturn"], "chat-template"),
                (2, ["--tasks", "kvloupe_niah", "--depths", "50,101"], "from 0 to 100"),
                (2, ["--tasks", "tiny_text", "--seed", "4294967296"], "--seed cannot take '4294967296'; it takes a number from 0 to 4294967295; "),
                (1, ["--tasks", "tiny_text", "--budgets", "8"], "--budgets would change nothing"),
                (1, ["--tasks", "tiny_text", "--method", "dense", "--budgets", "8"], "--budgets would change nothing"),
                (1, ["--tasks", "tiny_text", "--lengths", "1k"], "--lengths would change nothing"),
                (1, ["--tasks", "tiny_text", "--depths", "0"], "--depths would change nothing")):
            said = evaluate(fresh("refused.h5"), *words, expect=code)
            self.assertIn(reason, said)
            self.assertTrue(said.startswith("error: ") and said.count("; ") == 2, said)
            self.assertFalse(scratch("refused.h5.journal").exists())

    def test_likelihoods_by_a_method_that_selects_in_decoding(self):
        path = fresh("decoding.h5")
        for method in ("quest:budget_tokens=16,prefill=dense", "h2o:budget_tokens=8,start=decode"):
            for task in ("tiny_choice", "tiny_rolling"):
                said = evaluate(path, "--tasks", f"tiny_text,{task}", "--limit", 1, "--method", method, expect=1)
                self.assertTrue(said.startswith(f"error: {method} would change nothing in {task}; "), said)
                self.assertEqual(said.count("; "), 2)
            lm = types.SimpleNamespace(method=method)
            with self.assertRaisesRegex(KvloupeError, "would change nothing in t; "):
                KvloupeLM.loglikelihood(types.SimpleNamespace(_responses=functools.partial(KvloupeLM._responses, lm)), [types.SimpleNamespace(task_name="t")])
            self.assertFalse(path.exists() or scratch("decoding.h5.journal").exists())
        self.assertEqual(len(evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--method", method)), 2)

    def test_options_that_say_what_holds(self):
        self.assertEqual(generation("do_sample=False,temperature=0.0,max_gen_toks=3,until=x"),
                         {"do_sample": False, "temperature": 0.0, "max_gen_toks": 3, "until": "x"})
        self.assertIsNone(generation(None))

    def test_broken_programs_and_models(self):
        with mock.patch.dict(os.environ, KVLOUPE_PROGRAM="/nope"):
            self.assertIn("KVLOUPE_PROGRAM", evaluate(fresh("nope.h5"), "--tasks", "tiny_text", expect=1))
        folder = scratch("broken-model")
        folder.mkdir(exist_ok=True)
        for index in ("{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "never"}}'):
            (folder / "model.safetensors.index.json").write_text(index)
            said = evaluate(fresh("broken.h5"), "--tasks", "tiny_text", "--model", folder, expect=1)
            self.assertIn("broken-model cannot be read; ", said)
        said = evaluate(fresh("broken.h5"), "--tasks", "tiny_text", "--model", "/proc/self/mem", expect=1)
        self.assertIn("/proc/self/mem cannot be read; ", said)


class Chat(unittest.TestCase):
    def test_examples_are_turns(self):
        """As of the harness, which turns it on with a template."""
        counts = {}
        for name, words in (("default", []), ("turns", ["--fewshot-as-multiturn"]), ("one", ["--no-fewshot-as-multiturn"])):
            path = fresh(f"chat-{name}.h5")
            records = evaluate(path, "--tasks", "tiny_choice", "--limit", 1, "--apply-chat-template", *words)
            counts[name] = [record["prompt_tokens"] for record in records]
        self.assertEqual(counts["default"], counts["turns"])
        self.assertNotEqual(counts["default"], counts["one"])


class Parts(unittest.TestCase):
    def test_why_the_program_ended(self):
        def ended(script):
            path = scratch("ends.sh")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            with mock.patch.dict(os.environ, KVLOUPE_PROGRAM=str(path)), self.assertRaises(KvloupeError) as caught:
                ProgramEngine("m", "dense").count("a")
            return str(caught.exception)
        self.assertEqual(ended("echo 'error: no room; it is full; free some' >&2; echo 'free(): warning' >&2; exit 3"),
                         "no room (kvloupe run ended with 3); it is full; free some")
        self.assertEqual(ended("echo 'warning: slow' >&2; exit 4"),
                         "kvloupe run failed; it ended with 4 and gave no reason; report this with what you did")

    def test_what_was_said_of_a_data_set(self):
        with mock.patch("datasets.load_dataset", side_effect=ValueError("its table is broken")), data_folder.data_from("/never", False):
            import datasets
            with self.assertRaises(data_folder.Missing) as caught:
                datasets.load_dataset("one/set")
        self.assertEqual(caught.exception.why, "ValueError: its table is broken")

    def test_a_penalty_of_the_model_is_not_taken(self):
        from kvloupe.eval.transformers_engine import TransformersEngine
        engine = TransformersEngine(str(MODEL), "dense", chunk_size=16)
        expected = engine.generate("the cat sat on the", [], 12)["text"]
        engine._model.generation_config.repetition_penalty = 5.0
        self.assertEqual(engine.generate("the cat sat on the", [], 12)["text"], expected)


if __name__ == "__main__":
    unittest.main()
