"""python -m kvloupe eval record: the trace of one sample of results, made when it is asked for."""
import argparse
import logging
import os
import sys

from ..errors import KvloupeError
from ..eval_arguments import COMPUTES, MOST_SEED
from ..eval_engine import ENGINES, engine_of
from ..printable import printable
from ..results.journal import Journal
from ..results.results_file import read_results, write_results
from ..standard_output import put
from .command import asked_samples, opened
from .data_folder import data_from, default_folder
from .failing import is_worse
from .run_options import NAMES, file_of, generation, listed_models, run_of
from .traces import record_one

CHOICES = {"engine": ENGINES, "compute": COMPUTES}
RANGES = {"chunk_size": range(1, 1 << 31), "seed": range(MOST_SEED + 1), "num_fewshot": range(1 << 31)}
LEAST_DIGITS = 6  # of an identity that names a sample


def run_record(options):
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    run, _, _ = read_results(options.output)
    with Journal(f"{options.output}.journal", run):
        _, records, plan = read_results(options.output)  # as it is while nobody else writes it
        chosen = _named(records, options.sample, options.output)
        of_method = {record["method"]: record for record in records if record["sample"] == chosen["sample"]}
        methods = _methods(of_method, chosen["method"], options.output)
        asked, model = _as_asked(options, run, plan, chosen), _model_of(options.model, run, options.output)
        _check_model(run, asked, model, options.output)
        print(f"making the texts of {printable(chosen['task'])} again", file=sys.stderr)
        with data_from(options.data or default_folder(), options.download):
            sample = _made_again(asked, model, chosen, options.output)
        put(record_one(asked, model, sample, methods, of_method, lambda: write_results(options.output, run, records, plan)))


def _named(records, identity, path):
    """The record of that identity, or of the only one that begins so."""
    found = [record for record in records if record["id"].startswith(identity)] if len(identity) >= LEAST_DIGITS else []
    if len(found) == 1:
        return found[0]
    raise KvloupeError(f"{path} has no sample {identity}" if not found else f"{identity} is not one sample of {path}",
                       f"{len(found)} begin so" if found else f"an identity has 32 digits, of which the first {LEAST_DIGITS} or more are given",
                       "`python -m kvloupe results --samples --csv` lists them in the column id")


def _methods(of_method, chosen, path):
    """Those that fail the sample, and the one that was named."""
    if "dense" not in of_method:
        raise KvloupeError("the sample cannot be recorded", f"{path} has no answer of dense to it", "evaluate dense on it, too, by --resume")
    return [method for method, record in of_method.items() if method != "dense" and (method == chosen or is_worse(record, of_method["dense"]))]


def _as_asked(options, run, plan, chosen):
    """The options of `eval` under which the task made its documents, all shards together. A sample is the same whatever else is run with
    it, but a task may make the texts of all its lengths and depths one after the other."""
    stored = run.get("options")
    if not isinstance(stored, dict) or any(name not in stored for name in NAMES):
        raise KvloupeError(f"{options.output} cannot be gone on with", "it does not say with which options it was made", "run the evaluation again")
    wrong = [name for name in NAMES if not _is_option(name, stored[name])]
    if wrong:
        raise KvloupeError(f"{options.output} cannot be gone on with", f"its --{wrong[0].replace('_', '-')} is none that an evaluation has",
                           "run the evaluation again")
    cells = {cell[2:]: count for cell, count in plan.items() if cell[0] == chosen["task"]}
    lengths = list(dict.fromkeys(length for length, _ in cells if length >= 0))
    depths = list(dict.fromkeys(depth for _, depth in cells if depth is not None))
    depths = [round(depth) for depth in depths] if all(depth == round(depth) for depth in depths) else []  # others are the task's own
    return argparse.Namespace(**stored | {"device": options.device, "threads": options.threads, "output": options.output, "tasks": [chosen["task"]],
                                          "include_path": options.include_path, "lengths": lengths, "depths": depths, "download": options.download,
                                          "limit": max(max(cells.values(), default=0), 0 if lengths else chosen["doc"] + 1)})


def _is_option(name, value):
    """Whether `eval` can have had it: the file may be anyone's."""
    if name in CHOICES:
        return isinstance(value, str) and value in CHOICES[name]
    if name in RANGES:
        return type(value) is int and value in RANGES[name] or (name == "num_fewshot" and value is None)
    if name in ("apply_chat_template", "fewshot_as_multiturn"):
        return isinstance(value, bool)
    return isinstance(value, str) or (value is None and name != "device")


def _model_of(given, run, path):
    if given is not None:
        return file_of(engine_of(given)[1])
    name = str(run.get("model", ""))
    for entry in listed_models():
        if os.path.basename(entry.get("path", "")) == name:
            return entry["path"]
    raise KvloupeError(f"the model of {path} was not found", f"`kvloupe models` lists no {name}", "name its file or folder by --model")


def _check_model(run, asked, model, path):
    """By what the file says: an earlier version did not write all of it."""
    now = run_of(asked, model)
    for name, what in (("model_hash", "the weights"), ("model_files", "configuration or tokenizer")):
        if run.get(name) and run[name] != now.get(name):
            raise KvloupeError(f"{path} is of another model", f"{what} of {model} have another hash", "name the model that was evaluated by --model")


def _made_again(asked, model, chosen, path):
    lm = opened(asked, model, "dense")
    try:
        # All lengths together, as a first run makes them; then its own alone, as a later run with one length more does.
        for lengths in [asked.lengths, [chosen["length"]]] if len(asked.lengths) > 1 else [asked.lengths]:
            asked.lengths = lengths
            for sample in asked_samples(asked, lm, generation(asked.gen_kwargs), trusted=False):
                if sample.digest == chosen["sample"]:
                    return sample
    finally:
        lm.close()
    raise KvloupeError(f"sample {chosen['id']} of {path} cannot be made again", f"the task {chosen['task']} gives other documents now",
                       "check its data, and that lm-evaluation-harness has the version that the file names")
