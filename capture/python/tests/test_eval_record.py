"""python -m kvloupe eval record: one sample of results becomes a trace when it is asked for."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
from unittest import mock

import h5py
from lm_eval.tasks import TaskManager

import kvloupe
from kvloupe.eval import harness_tasks
from kvloupe.eval.program_traces import ProgramTraces
from kvloupe.results import planned
from kvloupe.results.record import nan_as_unknown
from kvloupe.results.results_file import read_results, write_results

from .eval_cases import MODEL, command, evaluate, killed_after, tasks, texts
from .support import MODELS, load_tokenizer, scratch
from .test_eval_traces import COUNT, OTHER, SPEC, by_doc, fresh, ids_of, ids_of_methods, told, trace_of


def record(path, identity, *, model=MODEL, folder=None, expect=0):
    return command("eval", "record", path, identity, "--model", model, "--include-path", folder or tasks(COUNT), "--threads", 1, expect=expect)


def content_of(path):
    """{name: values} of all datasets of a trace."""
    found = {}
    with h5py.File(path, "r", locking=False) as file:
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()}) if isinstance(item, h5py.Dataset) and "seconds" not in name and item.dtype.kind in "iuf" else None)
    return found


class OneSample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = fresh("one.h5")
        shutil.rmtree(f"{cls.path}.traces", ignore_errors=True)
        cls.records = evaluate(cls.path, "--tasks", told(), "--method", SPEC, "--method", OTHER)

    def pick(self, fails):
        """A document that SPEC fails, or one that it does not."""
        return next(of_method for of_method in by_doc(self.records).values() if (of_method[SPEC]["score"] < 1) == fails)

    def test_it_is_what_an_evaluation_with_traces_records(self):
        whole = fresh("one-whole.h5")
        shutil.rmtree(f"{whole}.traces", ignore_errors=True)
        traced = by_doc(evaluate(whole, "--tasks", told(), "--method", SPEC, "--method", OTHER, "--trace", "failing"))
        wanted = self.pick(fails=True)
        said = record(self.path, wanted[SPEC]["id"]).strip()
        after = by_doc(read_results(self.path)[1])[wanted[SPEC]["doc"]]
        self.assertEqual(said, os.path.join(os.path.dirname(self.path), after[SPEC]["trace"]))
        same = traced[wanted[SPEC]["doc"]]
        for method in ("dense", SPEC, OTHER):
            self.assertEqual(after[method]["trace"].partition("/")[2], same[method]["trace"].partition("/")[2], method)
        ours, theirs = (content_of(file.parent / records[SPEC]["trace"]) for file, records in ((self.path, after), (whole, same)))
        self.assertGreater(len(ours), 10)
        self.assertEqual(ours, theirs)
        # What is not recorded is as it was.
        for old, new in zip(self.records, read_results(self.path)[1]):
            self.assertEqual(old["id"], new["id"])
            self.assertEqual(nan_as_unknown({**old, "trace": ""}), nan_as_unknown({**new, "trace": ""}))

    def test_a_second_time_nothing_is_recorded(self):
        wanted = self.pick(fails=True)
        said = record(self.path, wanted[SPEC]["id"])
        with mock.patch("kvloupe.eval.traces._recorder", side_effect=AssertionError):
            self.assertEqual(record(self.path, wanted[SPEC]["id"][:8]), said)

    def test_one_that_its_method_does_not_fail(self):
        path = fresh("one-right.h5")
        evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--method", SPEC)
        _, records, _ = read_results(path)
        record(path, records[0]["id"])
        with trace_of(path, read_results(path)[1][0]) as trace:
            self.assertEqual(ids_of_methods(trace), [])
        record(path, records[1]["id"])
        by_method = {each["method"]: each for each in read_results(path)[1]}
        with trace_of(path, by_method[SPEC]) as trace:
            self.assertEqual(ids_of_methods(trace), ["quoka"])
        self.assertEqual(by_method[SPEC]["trace"], by_method["dense"]["trace"])

    def test_needles_of_several_lengths_and_depths(self):
        path = fresh("one-needle.h5")
        records = evaluate(path, "--tasks", "kvloupe_niah,kvloupe_passkey", "--lengths", "192,256", "--depths", "0,100", "--limit", 2, "--method", SPEC,
                           "--gen-kwargs", "max_gen_toks=2")
        wanted = [each for each in records if each["method"] == SPEC and each["length"] == 256 and each["depth"] == 100]
        self.assertEqual(len(wanted), 4)
        for each in (wanted[0], wanted[-1]):
            record(path, each["id"])
            after = next(other for other in read_results(path)[1] if other["id"] == each["id"])
            with trace_of(path, after) as trace:
                self.assertEqual(trace.num_tokens, each["prompt_tokens"])
                self.assertIn(each["expected"], [trace.text(span.begin, span.end).strip(" .") for span in trace.spans])

    def test_a_shard_knows_of_the_others(self):
        """Each has every second sample: of two seeds of a cell it holds one."""
        path = fresh("one-shard.h5")
        records = evaluate(path, "--tasks", "kvloupe_niah", "--lengths", "192,256", "--depths", "0,100", "--limit", 2, "--shard", "2/2", "--method", SPEC,
                           "--gen-kwargs", "max_gen_toks=2")
        self.assertEqual(len(records), 8)
        latest = max(records, key=lambda each: (each["seed"], each["length"], each["depth"], each["method"] == SPEC))
        record(path, latest["id"])
        self.assertEqual(sum(bool(each["trace"]) for each in read_results(path)[1]), 2)

    def test_a_text_without_context(self):
        """Before it the model reads its begin token, which this tokenizer does not add."""
        for model in (MODEL, MODEL / "model.gguf", f"hf:{MODEL}"):
            path = fresh("one-rolling.h5")
            records = evaluate(path, "--tasks", "tiny_rolling", "--limit", 1, "--model", model)
            record(path, records[0]["id"], model=model)
            with trace_of(path, read_results(path)[1][0]) as trace:
                self.assertEqual(trace.tokens.tolist(), [load_tokenizer("llama").bos_token_id, *ids_of(texts(1)[0])], model)

    def test_by_transformers(self):
        path = fresh("one-hf.h5")
        records = evaluate(path, "--tasks", "tiny_text", "--limit", 1, "--method", SPEC, "--model", f"hf:{MODEL}")
        record(path, records[1]["id"], model=f"hf:{MODEL}")
        with trace_of(path, read_results(path)[1][1]) as trace:
            self.assertEqual((ids_of_methods(trace), trace.model["architecture"]), (["quoka"], "llama"))

    def test_the_model_is_found_by_its_name(self):
        wanted = self.pick(fails=False)["dense"]["id"]
        listed = [{"name": "other", "path": "/nowhere/other.gguf"}, {"name": "tiny", "path": str(MODEL)}]
        with mock.patch("kvloupe.eval.one_sample.listed_models", lambda: listed):
            self.assertIn(".traces/", command("eval", "record", self.path, wanted, "--include-path", tasks(COUNT), "--threads", 1))
        with mock.patch("kvloupe.eval.one_sample.listed_models", lambda: listed[:1]):
            said = command("eval", "record", self.path, wanted, "--include-path", tasks(COUNT), expect=1)
        self.assertIn("was not found; `kvloupe models` lists no llama; name its file or folder by --model", said)


def small_manager(_, folders, metadata):
    """Without the ten thousand files of the harness."""
    return TaskManager(include_path=folders, include_defaults=False, metadata=metadata)


class Refused(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = fresh("refused.h5")
        cls.records = evaluate(cls.path, "--tasks", "tiny_text", "--limit", 2, "--method", SPEC)
        cls.id = cls.records[-1]["id"]

    def refuse(self, sentence, identity=None, path=None, **options):
        said = record(path or self.path, identity or self.id, expect=1, **options)
        self.assertIn(sentence, said)
        self.assertEqual(said.count("; "), 2, said)

    def test_ids(self):
        self.refuse("has no sample 0123456789abcdef", "0123456789abcdef")
        self.refuse("6 or more are given", self.id[:5])
        path = scratch("refused-alike.h5")
        run, records, plan = read_results(self.path)
        write_results(path, run, [{**each, "id": f"aaaaaaaa{at}"} for at, each in enumerate(records)], plan)
        self.refuse("aaaaaa is not one sample", "aaaaaa", path)

    def test_files(self):
        self.refuse("cannot be read; it does not exist", path=scratch("refused-none.h5"))
        run, records, plan = read_results(self.path)
        path = scratch("refused-dense.h5")
        write_results(path, run, [each for each in records if each["method"] != "dense"], plan)
        self.refuse("has no answer of dense", path=path)
        write_results(path, {**run, "options": {"seed": 1}}, records, plan)
        self.refuse("does not say with which options", path=path)

    def test_options_that_no_evaluation_has(self):
        path, (run, records, plan) = scratch("refused-options.h5"), read_results(self.path)
        for name, value in (("gen_kwargs", 5), ("chunk_size", None), ("chunk_size", True), ("seed", 2**32), ("engine", []), ("compute", "x"),
                            ("num_fewshot", -1), ("apply_chat_template", 1), ("system_instruction", {}), ("device", None)):
            write_results(path, {**run, "options": {**run["options"], name: value}}, records, plan)
            self.refuse(f"its --{name.replace('_', '-')} is none that an evaluation has", path=path)

    def test_other_models_and_documents(self):
        self.refuse("is of another model", model=MODELS / "qwen3")
        folder = scratch("other-documents")
        shutil.copytree(tasks(COUNT), folder, dirs_exist_ok=True)
        (folder / "data.json").write_text("\n".join(json.dumps({"text": f"the cat {at}", "target": "the", "label": 0}) for at in range(COUNT)))
        task = folder / "tiny_text.yaml"
        task.write_text(task.read_text().replace(str(tasks(COUNT)), str(folder)))
        self.refuse("cannot be made again; the task tiny_text gives other documents now", folder=folder)

    def test_a_task_that_the_file_names_by_its_path(self):
        """A file of results may come from anyone: no program runs that it names, and no task but one."""
        folder, ran = scratch("not-named"), scratch("it-ran.txt")
        folder.mkdir()
        (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\n\n\ndef of(doc, results):\n    return {{}}\n")
        task = folder / "evil.yaml"
        task.write_text((tasks(COUNT) / "tiny_loss.yaml").read_text().replace("tiny_loss", "tiny_evil").replace("loss.of", "evil.of"))
        run, records, _ = read_results(self.path)
        path = scratch("refused-path.h5")
        for name in (str(task), "tiny_*", "tiny_group", "tiny_tag"):
            (tasks(COUNT) / "group.yaml").write_text("group: tiny_group\ntask: [tiny_text]\n")
            self.addCleanup((tasks(COUNT) / "group.yaml").unlink, missing_ok=True)
            of_name = [{**each, "task": name} for each in records]
            write_results(path, run, of_name, planned.joined([], of_name))
            with mock.patch.object(harness_tasks, "_manager", small_manager):
                self.refuse(f"there is no task {name[:80]}; neither", path=path)
        self.assertFalse(ran.exists())

    def test_no_room(self):
        with mock.patch("shutil.disk_usage", lambda _: types.SimpleNamespace(free=1 << 20)):
            self.refuse("1 trace cannot be recorded; that takes about ")
        self.assertFalse(scratch("refused.h5.traces").exists())

    def test_a_run_that_was_stopped_keeps_its_samples(self):
        path = fresh("refused-stopped.h5")
        killed_after(path, 2, "--tasks", "tiny_text", "--limit", 4)
        self.refuse("its run was stopped half way", path=path)
        shutil.copy(self.path, path)
        journal = scratch("refused-stopped.h5.journal")
        before = journal.read_bytes()
        record(path, self.id)
        self.assertEqual(journal.read_bytes(), before)
        self.assertTrue(kvloupe.open(path.parent / read_results(path)[1][-1]["trace"]).complete)


class BeginTokens(unittest.TestCase):
    def traces(self, model):
        return ProgramTraces(types.SimpleNamespace(chunk_size=16, device="cpu", compute="auto", threads=1, apply_chat_template=False), str(model))

    def begun(self, model, text):
        """Its tokens; where the tokenizer has a begin token before it by itself, it is not put there twice."""
        path = scratch("begun.h5")
        self.traces(model).record(path, text, [], {}, True)
        with kvloupe.open(path) as trace:
            return trace.tokens.tolist()

    def test_a_tokenizer_that_adds_it(self):
        folder = scratch("adds-it")
        shutil.copytree(MODEL, folder)
        settings = folder / "tokenizer_config.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"add_bos_token": True}))
        self.assertEqual(self.begun(folder, "the cat"), self.begun(MODEL, "the cat"))

    def test_words_that_look_like_special_tokens(self):
        begun = self.begun(MODEL, "the <|end_of_text|> cat")
        self.assertEqual(begun[0], self.begun(MODEL, "the cat")[0])
        self.assertGreater(len(begun), len(self.begun(MODEL, "the cat")) + 1, "they are read as text")


class Stopped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = fresh("stopped.h5")
        cls.folder = cls.path.with_name("stopped.h5.traces")
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.first, *_, cls.last = (each["id"] for each in evaluate(cls.path, "--tasks", "tiny_text", "--limit", 2, "--method", SPEC))

    def stop(self, identity, error, expect):
        def half(_, path, *__):
            for name in (path, f"{path}.part", f"{path}.runs.h5"):
                pathlib.Path(name).write_bytes(b"half")
            raise error

        before = self.path.read_bytes()
        with mock.patch("kvloupe.eval.program_traces.ProgramTraces.record", half):
            record(self.path, identity, expect=expect)
        self.assertEqual(self.path.read_bytes(), before)
        self.assertFalse(self.path.with_name("stopped.h5.journal").exists())

    def test_nothing_half_done_stays(self):
        for error, expect in ((KeyboardInterrupt(), 130), (kvloupe.KvloupeError("a", "b", "c"), 1)):
            self.stop(self.first, error, expect)
            self.assertFalse(self.folder.exists())
        record(self.path, self.first)
        whole = {file.name: file.read_bytes() for file in self.folder.iterdir()}
        self.stop(self.last, KeyboardInterrupt(), 130)
        self.assertEqual({file.name: file.read_bytes() for file in self.folder.iterdir()}, whole)

    def test_it_ends_with_what_started_it(self):
        """As the window does, however that ends."""
        before, journal = self.path.read_bytes(), self.path.with_name("stopped.h5.journal")
        starts = "import subprocess, sys; started = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL); print(started.pid, flush=True); started.wait()"
        parent = subprocess.Popen([sys.executable, "-c", starts, sys.executable, "-m", "kvloupe", "eval", "record", self.path, self.last, "--model", MODEL,
                                   "--include-path", tasks(COUNT), "--end-with-parent"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(parent.kill)
        child = int(parent.stdout.readline())
        late = threading.Timer(120, os.kill, (child, signal.SIGKILL))
        late.start()
        self.addCleanup(late.cancel)
        self.assertTrue(any(line.startswith("making the texts") for line in parent.stderr), "it came to nothing")
        self.assertTrue(journal.exists())
        parent.kill()
        parent.wait()
        until = time.monotonic() + 20
        while lives(child) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(lives(child))
        parent.communicate()
        self.assertTrue(self.path.read_bytes() == before, "it went on to its end")
        self.assertFalse(journal.exists())

    def test_what_more_is_told_does_not_cut_the_cleaning_up_short(self):
        says = """
import signal, sys, time
from kvloupe.interrupts import end_with_parent
end_with_parent()
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("cleaning", flush=True)
    time.sleep(0.5)
    print("clean", flush=True)
"""
        for first, second in ((signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)):
            process = subprocess.Popen([sys.executable, "-c", says], stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(first)
            self.assertEqual(process.stdout.readline(), "cleaning\n")
            process.send_signal(second)
            self.assertEqual(process.communicate()[0], "clean\n")
            self.assertEqual(process.returncode, 0)

    def test_what_python_drops_is_told_again(self):
        says = """
import os, signal, sys, time, weakref
from kvloupe.interrupts import end_with_parent
end_with_parent()
def callback(_):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass
    print("not interrupted", flush=True)
held = set()
other = weakref.ref(held, callback)
try:
    del held
    time.sleep(60)
except KeyboardInterrupt:
    print("clean", flush=True)
"""
        self.assertEqual(subprocess.run([sys.executable, "-c", says], stdout=subprocess.PIPE, text=True, check=True, timeout=50).stdout, "clean\n")


def lives(process):
    """Nobody may have waited for it yet."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    unittest.main()
