"""python -m kvloupe eval: methods on tasks, sample by sample, to RESULTS.h5."""
import hashlib
import importlib.metadata
import json
import logging
import os
import pathlib
import subprocess
import sys
import time

from ..errors import KvloupeError
from ..installed import program
from ..known_hashes import hash_of_files
from ..results.journal import Journal, check_same
from ..results.results_file import read_results, write_results
from ..results.table import summary
from ..version import __version__
from ..weights_hash import _hash_bytes, hash_of_folder
from . import harness_tasks
from .data_folder import default_folder
from .model import KvloupeLM
from .scoring import answered, samples_of

SECONDS_BETWEEN_LINES = 5


def run_eval(options):
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    before = _before(options)
    methods = with_budgets(options.method or ["dense"], options.budgets)
    model = _file_of(options.model)
    run = _run(options, model)
    if before is not None:
        check_same(options.output, before[0], run)
    for method in methods[1:]:
        _opened(options, model, method).close()  # A SPEC that cannot be run is refused before hours are spent.
    lm = _opened(options, model, methods[0])
    samples = _samples(options, lm)
    mine = samples[options.shard[0] - 1 :: options.shard[1]]
    journal = Journal(f"{options.output}.journal", run)
    try:
        done = {record["id"]: record for record in [*(before[1] if before else []), *journal.records]}
        progress = Progress(len(mine) * len(methods))
        for method in methods:
            waiting = [(identity, sample) for sample in mine if (identity := _id(run, sample, method)) not in done]
            progress.passed_over += len(mine) - len(waiting)
            if waiting and lm.method != method:
                lm.close()
                lm = _opened(options, model, method)
                lm._rendered = options.apply_chat_template
            for identity, sample in waiting:
                record = {"id": identity, "method": method, "budget": budget_of(method), "seed": _seed(sample, options), **answered(sample, lm)}
                journal.add(record)
                done[identity] = record
                progress.add()
        lm.close()
        records = sorted(done.values(), key=lambda record: (record["task"], record["doc"], methods.index(record["method"]) if record["method"] in methods else -1))
        write_results(options.output, run, records, max(len(samples) * len(methods), before[2] if before else 0))
        journal.remove()
    except KeyboardInterrupt:
        print(f"error: the evaluation was stopped; you pressed Ctrl+C; {len(journal.records):,} samples are in {journal.path}: go on with --resume", file=sys.stderr)
        raise
    finally:
        journal.close()
    progress.end()
    print(summary(records))
    print(options.output)


def with_budgets(methods, budgets):
    """Each method at each budget; a SPEC that says its own is refused then."""
    found = []
    for method in methods:
        if method == "dense" or not budgets:
            found.append(method)
        elif "budget_" in method:
            raise KvloupeError(f"--budgets does not go with {method}", "it says its budget itself", "leave one of both out")
        else:
            found += [f"{method}{',' if ':' in method else ':'}budget_tokens={budget}" for budget in budgets]
    return list(dict.fromkeys(found))


def budget_of(method):
    """-1 where the SPEC names none in tokens."""
    for item in method.partition(":")[2].split(","):
        name, _, value = item.partition("=")
        if name == "budget_tokens" and value.isdecimal():
            return int(value)
    return -1


def _before(options):
    """What the file of results holds already, where the run goes on with it."""
    exists, begun = os.path.exists(options.output), os.path.exists(f"{options.output}.journal")
    if (exists or begun) and not options.resume:
        raise KvloupeError(f"{options.output} exists already" if exists else f"{options.output} was begun already", "samples that are done are not run twice",
                           "give --resume to go on with it, or another name by -o")
    folder = os.path.dirname(os.path.abspath(options.output))
    if not os.path.isdir(folder):
        raise KvloupeError(f"{options.output} cannot be written", f"there is no folder {folder}", "make it, or give another name by -o")
    return read_results(options.output) if exists else None


class _Model(KvloupeLM):
    """RULER is lent the tokenizer when one of its tasks is loaded."""
    lends_to_ruler = False


def _opened(options, model, method):
    lm = _Model(model=model, method=method, engine=options.engine, chunk_size=options.chunk_size, device=options.device, compute=options.compute, threads=options.threads)
    lm.engine.count("a")
    return lm


def _samples(options, lm):
    metadata = {"model": lm.model}
    if options.lengths:
        metadata["max_seq_lengths"] = options.lengths
    if options.depths:
        metadata["depths"] = options.depths
    tasks = harness_tasks.load_tasks(options.tasks, include_paths=options.include_path, metadata=metadata, seed=options.seed, num_fewshot=options.num_fewshot,
                                     gen_kwargs=_gen_kwargs(options), folder=options.data or default_folder(), may_download=options.download)
    chat = {name: getattr(options, name) for name in ("system_instruction", "apply_chat_template", "fewshot_as_multiturn")}
    return [sample for name, task in tasks.items() for sample in samples_of(name, task, options.limit, lm, chat)]


def _gen_kwargs(options):
    from lm_eval.utils import simple_parse_args_string
    return simple_parse_args_string(options.gen_kwargs) if options.gen_kwargs else None


def _file_of(model):
    """A path, or what the program calls by this name."""
    if os.path.exists(model):
        return os.path.abspath(model)
    try:
        listed = json.loads(subprocess.run([program(), "models", "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout)["models"]
    except (KvloupeError, OSError, ValueError, KeyError, subprocess.CalledProcessError):
        listed = []
    for entry in listed:
        if entry.get("name") == model:
            return entry["path"]
    raise KvloupeError(f"there is no model {model}", "it is neither a path nor a name that `kvloupe models` lists", "name a GGUF file or a Hugging Face folder")


def _run(options, model):
    """What decides over answers beside task and method: samples of two runs are joined where it is the same."""
    path = pathlib.Path(model)
    hashed = hash_of_folder(path) if path.is_dir() else hash_of_files([path], _hash_bytes)
    versions = {"kvloupe": __version__, **{name: importlib.metadata.version(name) for name in ("lm_eval", "datasets")}}
    if options.engine == "transformers":
        versions.update({name: importlib.metadata.version(name) for name in ("torch", "transformers")})
    else:
        versions["program"] = subprocess.run([program(), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout.strip()
    names = ("engine", "chunk_size", "device", "compute", "seed", "num_fewshot", "apply_chat_template", "fewshot_as_multiturn", "system_instruction", "gen_kwargs")
    return {"model": path.name, "model_hash": hashed, "versions": versions, "options": {name: getattr(options, name) for name in names}}


def _seed(sample, options):
    seed = sample.doc.get("seed") if isinstance(sample.doc, dict) else None
    return seed if isinstance(seed, int) else options.seed


def _id(run, sample, method):
    return hashlib.sha256(json.dumps([run, sample.identity(), method], sort_keys=True).encode()).hexdigest()[:32]


class Progress:
    def __init__(self, total):
        self._total, self._done, self.passed_over = total, 0, 0
        self._begin = self._last = time.monotonic()

    def add(self):
        self._done += 1
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say()

    def _say(self):
        each = (time.monotonic() - self._begin) / max(1, self._done)
        left = self._total - self.passed_over - self._done
        print(f"{self._done + self.passed_over:,} of {self._total:,} samples, {each:.2f} s each, about {left * each:,.0f} s left", file=sys.stderr)

    def end(self):
        before = f", {self.passed_over:,} of them before" if self.passed_over else ""
        print(f"{self._done + self.passed_over:,} samples{before}, {time.monotonic() - self._begin:.1f} s", file=sys.stderr)
