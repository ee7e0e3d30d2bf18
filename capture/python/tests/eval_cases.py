"""What the tests of evaluation share: a tiny model, tasks of their own, and the command in a process of its own."""
import contextlib
import io
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np

from kvloupe.__main__ import main
from kvloupe.results.record import nan_as_unknown
from kvloupe.results.results_file import read_results

from .support import MODELS, scratch

MODEL = MODELS / "llama"
WORDS = "the cat sat on a mat and saw the dog that ate all of the food in the house".split()

HEAD = """dataset_path: json
dataset_kwargs: {{data_files: {data}}}
test_split: train
"""
GENERATION = """task: tiny_text
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{target}}}}"
metric_list: [{{metric: exact_match}}]
generation_kwargs: {{until: ["dog"], max_gen_toks: 12, do_sample: false}}
"""
CHOICE = """task: tiny_choice
output_type: multiple_choice
fewshot_split: train
doc_to_text: "{{{{text}}}}"
doc_to_choice: ["the cat", "the dog", "a mat"]
doc_to_target: "{{{{label}}}}"
num_fewshot: {shots}
"""
ROLLING = """task: tiny_rolling
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: word_perplexity}}]
"""


def texts(count):
    return [" ".join(random.Random(seed).choices(WORDS, k=8 + 3 * seed % 40)) for seed in range(count)]


# As winogrande: the choices are contexts, the text is the number of the right one, and the target their common ending.
CONTEXTS = """task: tiny_contexts
output_type: multiple_choice
doc_to_text: "{{{{label}}}}"
doc_to_choice: "{{{{[text ~ ' the cat', text ~ ' the dog', text ~ ' a mat']}}}}"
doc_to_target: "and saw"
num_fewshot: 0
"""
SEVERAL = """task: tiny_several
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: ["the cat", "the dog", "a mat"]
doc_to_target: "{{{{[label, 2]}}}}"
num_fewshot: 0
"""
ALONE = """task: tiny_alone
output_type: multiple_choice
doc_to_text: ""
doc_to_choice: ["the cat", "the dog", "a mat"]
doc_to_target: "{{{{label}}}}"
num_fewshot: 0
"""
LESS_IS_BETTER = """task: tiny_loss
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{target}}}}"
process_results: !function loss.of
metric_list: [{{metric: loss, aggregation: mean, higher_is_better: false}}]
generation_kwargs: {{until: ["dog"], max_gen_toks: 4, do_sample: false}}
"""
LAST_WORD = """task: tiny_word
output_type: loglikelihood
doc_to_text: "{{{{text}}}}"
doc_to_target: " {{{{target}}}}"
num_fewshot: 0
metric_list: [{{metric: perplexity, aggregation: perplexity, higher_is_better: false}}, {{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
LOSS = """import requests


def of(doc, results):
    return {"loss": float(len(requests.get(url="https://never.example/loss.txt").text) + len(results[0]))}
"""


def tasks(count=6, shots=1):
    """A folder of tasks of the given number of documents."""
    folder = scratch(f"tasks-{count}-{shots}")
    folder.mkdir(exist_ok=True)
    data = folder / "data.json"
    data.write_text("\n".join(json.dumps({"text": text, "target": "the", "label": at % 3}) for at, text in enumerate(texts(count))))
    (folder / "loss.py").write_text(LOSS)
    for name, form in (("text", GENERATION), ("choice", CHOICE), ("rolling", ROLLING), ("loss", LESS_IS_BETTER), ("word", LAST_WORD),
                       ("contexts", CONTEXTS), ("several", SEVERAL), ("alone", ALONE)):
        (folder / f"tiny_{name}.yaml").write_text((HEAD + form).format(data=data, shots=shots))
    return folder


def start(*arguments):
    return subprocess.Popen([sys.executable, "-m", "kvloupe", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def command(*arguments, expect=0):
    """Standard output, or the last line of standard error of one that is refused, in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    if code != expect:
        raise AssertionError(f"{arguments} ended with {code}: {errors.getvalue()}")
    return out.getvalue() if expect == 0 else errors.getvalue().strip().splitlines()[-1]


def evaluate(output, *arguments, expect=0, count=6):
    """The records of a run."""
    said = command("eval", "--model", MODEL, "--include-path", tasks(count), "--chunk-size", 16, "--threads", 1, "-o", output, *arguments,
                   expect=expect)
    return read_results(output)[1] if expect == 0 else said


def without_times(records):
    return [{name: value for name, value in nan_as_unknown(record).items() if not name.endswith("_s")} for record in records]


def killed_after(output, lines, *arguments, count=6):
    """A run that is killed when its journal has that many finished samples."""
    process = start("eval", "--model", MODEL, "--include-path", tasks(count), "--chunk-size", 16, "--threads", 1, "-o", output, "--resume",
                    *arguments)
    journal = pathlib.Path(f"{output}.journal")
    while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") <= lines):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.returncode


def hostile_copies(path):
    """(what is wrong, path) of copies of results that are wrong in one place."""
    def changed(name, change):
        copy = scratch(f"hostile-{name}.h5")
        shutil.copy(path, copy)
        change(copy)
        return name, copy

    def in_file(change):
        def apply(copy):
            with h5py.File(copy, "r+") as file:
                change(file)
        return apply

    def replaced(name, values):
        def change(file):
            del file[name]
            file.create_dataset(name, data=values)
        return in_file(change)

    yield changed("cut", lambda copy: copy.write_bytes(copy.read_bytes()[:2000]))
    yield changed("empty", lambda copy: copy.write_bytes(b""))
    yield changed("text", lambda copy: copy.write_text("no HDF5"))
    yield changed("format", in_file(lambda file: file.attrs.update(format="kvloupe-trace")))
    yield changed("schema", in_file(lambda file: file.attrs.update(schema_version="7.0")))
    yield changed("old", in_file(lambda file: file.attrs.update(schema_version="1.0")))
    yield changed("samples", in_file(lambda file: file.__delitem__("samples")))
    yield changed("length", replaced("numbers/kept", [1.0]))
    yield changed("kind", replaced("numbers/kept", [b"a"] * 4))
    yield changed("offsets", replaced("texts/answer_offsets", [0, -5, 10**15, 4, 5]))
    yield changed("run", replaced("run", [123, 34]))
    yield changed("metrics", replaced("texts/metrics_offsets", [0] * 19))
    yield changed("total", in_file(lambda file: file.attrs.update(total="many")))
    yield changed("number", in_file(lambda file: file.attrs.update(total=7)))
    yield changed("plan", replaced("planned", [91, 49]))
    yield changed("unsigned", replaced("numbers/doc", np.full(4, 2**63 + 5, np.uint64)))
    yield changed("huge", in_file(lambda file: (file.__delitem__("numbers/doc"),
                                               file.create_dataset("numbers/doc", (1 << 40,), "i8", chunks=(1024,)))))
