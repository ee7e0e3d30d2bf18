"""python -m kvloupe eval record: the trace of one sample of results, made when it is asked for."""
import argparse
import collections
import json
import logging
import os

from ..errors import KvloupeError
from ..results.journal import Journal
from ..results.results_file import read_results, write_results
from ..standard_output import put
from .command import asked_samples, opened
from .data_folder import data_from, default_folder
from .failing import is_worse
from .run_options import NAMES, file_of, generation, listed_models, run_of
from .traces import record_one

LEAST_DIGITS = 6  # of an identity that names a sample


def run_record(options):
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    run, _, _ = read_results(options.output)
    with Journal(f"{options.output}.journal", run):
        _, records, plan = read_results(options.output)  # as it is while nobody else writes it
        chosen = _named(records, options.sample, options.output)
        of_method = {record["method"]: record for record in records if record["sample"] == chosen["sample"]}
        methods = _methods(of_method, chosen["method"], options.output)
        asked, model = _as_asked(options, run, records, chosen), _model_of(options.model, run, options.output)
        _check_model(run, asked, model, options.output)
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


def _as_asked(options, run, records, chosen):
    """The options of `eval` under which the task made its documents. A sample is the same whatever else is run with it, but its
    lengths and depths are those of one text made after the other."""
    stored = run.get("options")
    if not isinstance(stored, dict) or any(name not in stored for name in NAMES):
        raise KvloupeError(f"{options.output} cannot be gone on with", "it does not say with which options it was made", "run the evaluation again")
    of_task = [record for record in records if record["task"] == chosen["task"] and record["method"] == "dense"]
    lengths = list(dict.fromkeys(record["length"] for record in of_task if record["length"] >= 0))
    depths = list(dict.fromkeys(round(record["depth"]) for record in of_task if record["depth"] == record["depth"]))
    cells = collections.Counter((record["length"], record["depth"] if record["depth"] == record["depth"] else None) for record in of_task)
    last = max(record["doc"] for record in of_task) + 1
    return argparse.Namespace(**stored | {"device": options.device, "threads": options.threads, "output": options.output, "tasks": [chosen["task"]],
                                          "include_path": options.include_path, "lengths": lengths, "depths": depths, "download": options.download,
                                          "limit": max(cells.values()) if lengths else last})


def _model_of(given, run, path):
    if given is not None:
        return file_of(given)
    name = str(run.get("model", ""))
    for entry in listed_models():
        if os.path.basename(entry.get("path", "")) == name:
            return entry["path"]
    raise KvloupeError(f"the model of {path} was not found", f"`kvloupe models` lists no {name}", "name its file or folder by --model")


def _check_model(run, asked, model, path):
    if run_of(asked, model)["model_hash"] != run.get("model_hash"):
        raise KvloupeError(f"{path} is of another model", f"the weights of {model} have another hash", "name the model that was evaluated by --model")


def _made_again(asked, model, chosen, path):
    lm = opened(asked, model, "dense")
    try:
        for sample in asked_samples(asked, lm, generation(asked.gen_kwargs)):
            if sample.digest == chosen["sample"]:
                return sample
    finally:
        lm.close()
    raise KvloupeError(f"sample {chosen['id']} of {path} cannot be made again", f"the task {chosen['task']} gives other documents now",
                       "check its data and the version of lm-evaluation-harness: " + json.dumps(asked.tasks))
