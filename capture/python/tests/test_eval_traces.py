"""--trace failing: what is recorded of samples that a method fails, its tokens, spans and runs, and where results say so."""
import collections
import json
import math
import os
import pathlib
import types
import unittest
from unittest import mock

import kvloupe
from kvloupe.errors import KvloupeError
from kvloupe.eval.failing import failing
from kvloupe.eval.sample_prompt import MOST_PLACES, prompt_of, spans_of
from kvloupe.results.results_file import read_results, write_results

from .eval_cases import HEAD, MODEL, command, evaluate, tasks, texts
from .support import load_tokenizer, scratch

SPEC, OTHER = "quoka:budget_tokens=8", "streaming_llm:budget_tokens=6"
COUNT = 6
TOLD = """task: tiny_told
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{target}}}}"
process_results: !function told.of
metric_list: [{{metric: same, aggregation: mean, higher_is_better: true}}]
generation_kwargs: {{until: ["dog"], max_gen_toks: 12, do_sample: false}}
"""


def fresh(name):
    for path in (scratch(name), scratch(f"{name}.journal")):
        path.unlink(missing_ok=True)
    return scratch(name)


def told():
    """A task at which dense is right by definition. What it expects stands in three of six texts."""
    folder = tasks(COUNT)
    if not (folder / "tiny_told.yaml").exists():
        dense = evaluate(fresh("told-before.h5"), "--tasks", "tiny_text")
        lines = [{"text": text, "target": text.split()[3] if at % 2 else "zebra", "told": record["answer"]}
                 for at, (text, record) in enumerate(zip(texts(COUNT), dense))]
        (folder / "told.json").write_text("\n".join(map(json.dumps, lines)))
        (folder / "told.py").write_text('def of(doc, results):\n    return {"same": float(results[0] == doc["told"])}\n')
        (folder / "tiny_told.yaml").write_text((HEAD + TOLD).format(data=folder / "told.json"))
    return "tiny_told"


def ids_of(text, **options):
    return load_tokenizer("llama")(text, **options)["input_ids"]


def trace_of(path, record):
    return kvloupe.open(path.parent / record["trace"])


def ids_of_methods(trace):
    return [run.method.partition(":")[0] for run in trace.runs]


def by_doc(records):
    found = collections.defaultdict(dict)
    for record in records:
        found[record["doc"]][record["method"]] = record
    return found


def bytes_in(folder):
    return {entry.name: entry.read_bytes() for entry in pathlib.Path(folder).iterdir()}


def all_fail(samples, methods, _):
    return [(sample, methods[1:]) for sample in samples]


class Recorded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = fresh("traced.h5")
        cls.arguments = ["--tasks", told(), "--method", SPEC, "--method", OTHER, "--trace", "failing"]
        cls.records = evaluate(cls.path, *cls.arguments)

    def test_one_of_each_sample_with_the_methods_that_fail_it(self):
        failed = 0
        for doc, of_method in by_doc(self.records).items():
            self.assertEqual(of_method["dense"]["score"], 1.0)
            worse = [method for method in (SPEC, OTHER) if of_method[method]["score"] < 1]
            failed += bool(worse)
            for method in ("dense", SPEC, OTHER):
                trace = of_method[method]["trace"]
                self.assertEqual(bool(trace), method in worse or (method == "dense" and bool(worse)), (doc, method))
                if trace:
                    self.assertEqual(trace, f"traced.h5.traces/tiny_told-{doc}-{of_method[method]['sample'][:8]}.h5")
            if worse:
                with trace_of(self.path, of_method["dense"]) as trace:
                    self.assertEqual(ids_of_methods(trace), [method.partition(":")[0] for method in worse])
                    for run, method in zip(trace.runs, worse):
                        self.assertIn(method.partition(":")[2], run.method)
                    self.assertEqual(trace.layers, [0, 1, 2])
                    self.assertEqual(trace.chunks[0].length, 16)
        self.assertGreater(failed, 2)
        self.assertEqual(len(os.listdir(f"{self.path}.traces")), failed)

    def test_tokens_and_spans(self):
        seen = set()
        for doc, of_method in by_doc(self.records).items():
            if not of_method["dense"]["trace"]:
                continue
            text = texts(COUNT)[doc]
            with trace_of(self.path, of_method["dense"]) as trace:
                self.assertEqual(trace.tokens.tolist(), ids_of(text))
                spans = {span.name: trace.text(span.begin, span.end) for span in trace.spans}
            if doc % 2:
                word = text.split()[3]
                self.assertEqual(len(spans), text.count(word) if text.count(word) <= MOST_PLACES else 0)
                self.assertTrue(all(word in each for each in spans.values()))
            else:
                self.assertEqual(spans, {})
            seen.add(bool(spans))
        self.assertEqual(seen, {True, False})

    def test_resume_leaves_what_is_there(self):
        before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(f"{self.path}.traces")}
        with mock.patch("kvloupe.eval.traces._recorder", side_effect=AssertionError):
            self.assertEqual([record["trace"] for record in evaluate(self.path, *self.arguments, "--resume")],
                             [record["trace"] for record in self.records])
        self.assertEqual(before, {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(f"{self.path}.traces")})

    def test_where_results_show_them(self):
        self.assertIn("| trace |", command("results", self.path, "--samples"))
        self.assertNotIn("trace", command("results", self.path))
        self.assertNotIn("| trace |", command("results", scratch("told-before.h5"), "--samples"))

    def test_merging_leaves_them_where_they_are(self):
        folder = scratch("elsewhere")
        folder.mkdir(exist_ok=True)
        joined = folder / "joined.h5"
        joined.unlink(missing_ok=True)
        command("eval", "merge", self.path, "-o", joined)
        for record in read_results(joined)[1]:
            self.assertTrue(not record["trace"] or (folder / record["trace"]).is_file())
        self.assertEqual(sum(bool(record["trace"]) for record in read_results(joined)[1]), sum(bool(record["trace"]) for record in self.records))

    def test_one_that_the_results_do_not_know_is_recorded_anew(self):
        """As a kill between both leaves it, incomplete or with other runs."""
        path, folder = fresh("unknown.h5"), scratch("unknown.h5.traces")
        arguments = ["--tasks", told(), "--method", SPEC, "--trace", "failing:1"]
        records = evaluate(path, *arguments)
        run, _, plan = read_results(path)
        write_results(path, run, [{**record, "trace": ""} for record in records], plan)
        (trace,) = folder.iterdir()
        trace.write_bytes(b"cut")
        scratch(f"unknown.h5.traces/{trace.name}.part").write_bytes(b"cut")
        again = evaluate(path, *arguments, "--resume")
        self.assertEqual([record["trace"] for record in again], [record["trace"] for record in records])
        with trace_of(path, next(record for record in again if record["trace"])) as trace:
            self.assertEqual(ids_of_methods(trace), ["quoka"])


class Asked(unittest.TestCase):
    def test_at_most(self):
        path = fresh("most.h5")
        records = evaluate(path, "--tasks", told(), "--method", SPEC, "--trace", "failing:2")
        self.assertEqual(len(os.listdir(f"{path}.traces")), 2)
        self.assertEqual(sum(bool(record["trace"]) for record in records), 4)
        for wrong in ("fail", "failing:", "failing:0", "failing:x"):
            self.assertEqual(evaluate(path, "--tasks", told(), "--trace", wrong, expect=2).count("; "), 2)

    def test_a_method_that_is_added_is_a_run_beside(self):
        path = fresh("added-run.h5")
        words = ["--tasks", told(), "--trace", "failing", "--method"]
        before = evaluate(path, *words, SPEC)
        content = bytes_in(f"{path}.traces")
        after = evaluate(path, *words, OTHER, "--resume")
        traces = {record["id"]: record["trace"] for record in after}
        for record in before:
            self.assertIn(record["trace"], ("", traces[record["id"]]))
        both = [of_method for of_method in by_doc(after).values() if of_method[SPEC]["trace"] and of_method[OTHER]["trace"]]
        self.assertTrue(both)
        for of_method in both:
            with trace_of(path, of_method[OTHER]) as trace:
                self.assertEqual(ids_of_methods(trace), ["quoka", "streaming_llm"])
        self.assertEqual({name: value for name, value in bytes_in(f"{path}.traces").items() if name in content}, content)

    def test_chat_templates(self):
        path = fresh("chat-trace.h5")
        with mock.patch("kvloupe.eval.traces.failing", all_fail):
            record = evaluate(path, "--tasks", "tiny_text", "--apply-chat-template", "--limit", 1, "--method", SPEC, "--trace", "failing")[0]
        chat = load_tokenizer("llama").apply_chat_template([{"role": "user", "content": texts(1)[0]}], add_generation_prompt=True, tokenize=False)
        with trace_of(path, record) as trace:
            self.assertEqual(trace.tokens.tolist(), ids_of(chat, add_special_tokens=False))

    def test_choices(self):
        path = fresh("choice-trace.h5")
        with mock.patch("kvloupe.eval.traces.failing", all_fail):
            records = evaluate(path, "--tasks", "tiny_choice", "--num-fewshot", 0, "--limit", 2, "--method", SPEC, "--trace", "failing")
        choices = [" the cat", " the dog"]
        for record in records:
            with trace_of(path, record) as trace:
                self.assertEqual(trace.tokens.tolist(), ids_of(texts(2)[record["doc"]] + choices[record["doc"]]))

    def recorded(self, name, task, *arguments):
        """The records of three documents, each with its trace."""
        path = fresh(name)
        with mock.patch("kvloupe.eval.traces.failing", all_fail):
            return path, evaluate(path, "--tasks", task, "--limit", 3, "--method", SPEC, "--trace", "failing", *arguments)

    def test_choices_that_are_contexts(self):
        path, records = self.recorded("contexts-trace.h5", "tiny_contexts")
        for record in records:
            choices = [texts(3)[record["doc"]] + ending for ending in (" the cat", " the dog", " a mat")]
            self.assertEqual(record["expected"], choices[record["doc"]])
            self.assertIn(record["answer"], choices)
            self.assertEqual(record["score"], float(record["answer"] == record["expected"]))
            with trace_of(path, record) as trace:
                self.assertEqual(trace.tokens.tolist(), ids_of(record["expected"] + " and saw"))

    def test_several_right_choices(self):
        path, records = self.recorded("several-trace.h5", "tiny_several")
        names = "the cat", "the dog", "a mat"
        for record in records:
            right = [names[record["doc"]], names[2]]
            self.assertEqual(record["expected"], ", ".join(right))
            self.assertEqual(record["score"], float(record["answer"].strip() in right))
            with trace_of(path, record) as trace:
                marked = {trace.text(span.begin, span.end).strip() for span in trace.spans}
                self.assertIn(right[0], marked)

    def test_texts_without_context(self):
        for model in (MODEL, f"hf:{MODEL}"):
            path, records = self.recorded("alone-trace.h5", "tiny_alone", "--model", model)
            for record in records:
                with trace_of(path, record) as trace:
                    words = (" the cat", " the dog", " a mat")[record["doc"]]
                    self.assertEqual(trace.tokens.tolist(), [load_tokenizer("llama").bos_token_id, *ids_of(words)], model)

    def test_needles(self):
        path = fresh("needle-trace.h5")
        with mock.patch("kvloupe.eval.traces.failing", all_fail):
            records = evaluate(path, "--tasks", "kvloupe_niah,kvloupe_passkey", "--lengths", 192, "--depths", 50, "--limit", 1, "--method", SPEC,
                               "--gen-kwargs", "max_gen_toks=2", "--trace", "failing")
        for record in records:
            with trace_of(path, record) as trace:
                spans = {span.name: trace.text(span.begin, span.end) for span in trace.spans}
                self.assertEqual(trace.num_tokens, record["prompt_tokens"])
            needle = record["task"] == "kvloupe_niah"
            self.assertEqual(sorted(spans), ["answer", "question"] if needle else ["answer", "answer.2", "question"])
            self.assertIn(record["expected"], spans["answer"])
            self.assertIn("What is the special magic number for" if needle else "What is the pass key?", spans["question"])

    def test_transformers(self):
        path = fresh("hf-trace.h5")
        with mock.patch("kvloupe.eval.traces.failing", all_fail):
            records = evaluate(path, "--tasks", told(), "--limit", 2, "--method", SPEC, "--trace", "failing", "--model", f"hf:{MODEL}")
        for record in records:
            with trace_of(path, record) as trace:
                self.assertEqual((trace.tokens.tolist(), ids_of_methods(trace)), (ids_of(texts(2)[record["doc"]]), ["quoka"]))
                self.assertEqual([span.name for span in trace.spans][:1], ["answer"] if record["doc"] == 1 else [])

    def test_what_has_no_room(self):
        path = fresh("room.h5")
        usage = types.SimpleNamespace(free=1 << 20)
        with mock.patch("kvloupe.eval.traces.failing", all_fail), mock.patch("shutil.disk_usage", lambda _: usage):
            said = evaluate(path, "--tasks", "tiny_text", "--limit", 2, "--method", SPEC, "--trace", "failing", expect=1)
        self.assertIn("2 traces cannot be recorded; that takes about ", said)
        self.assertEqual(len(read_results(path)[1]), 4)
        self.assertFalse(scratch("room.h5.traces").exists())

    def test_what_the_program_refuses(self):
        from kvloupe.eval.program_traces import add_run
        with self.assertRaises(KvloupeError) as caught:
            add_run(scratch("never.h5"), SPEC, "cpu")
        self.assertEqual(len(caught.exception.parts), 3)


class Parts(unittest.TestCase):
    def test_which_samples_fail(self):
        def of(score, direction=1):
            return {"score": score, "direction": direction}
        samples = [types.SimpleNamespace(digest=at) for at in range(6)]
        scores = [(1.0, 0.0, 1), (0.0, 1.0, 1), (1.0, math.nan, 1), (math.nan, 0.0, 1), (1.0, 2.0, -1), (0.5, 0.25, 1)]
        by_sample = {at: {"dense": of(dense, way), "a": of(dense, way), "b": of(other, way)} for at, (dense, other, way) in enumerate(scores)}
        self.assertEqual([(sample.digest, worse) for sample, worse in failing(samples, ["dense", "a", "b"], by_sample)],
                         [(0, ["b"]), (4, ["b"]), (5, ["b"])])

    def test_choices_by_number_text_or_several(self):
        task = types.SimpleNamespace(OUTPUT_TYPE="multiple_choice", doc_to_choice=lambda _: ["x", "y"])
        requests = [types.SimpleNamespace(request_type="loglikelihood", args=("q", f" {word}")) for word in "xy"]
        sample = types.SimpleNamespace(task=task, doc={}, requests=requests)
        for target, expected in ((1, "q y"), ("y", "q y"), ([1, 0], "q y"), ("z", "q x"), (7, "q x"), ([], "q x")):
            self.assertEqual(prompt_of(sample, target), expected, target)

    def test_answers_that_mark_nothing(self):
        sample = types.SimpleNamespace(name="t", task=types.SimpleNamespace(OUTPUT_TYPE="generate_until"))
        self.assertEqual(spans_of(sample, [" 12", "34 ", "12", "", "never"], "12 and 34"), {"answer": "12", "answer:2": "34"})
        self.assertEqual(spans_of(sample, "1", "1 " * (MOST_PLACES + 1)), {})


if __name__ == "__main__":
    unittest.main()
