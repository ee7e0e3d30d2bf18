"""python -m kvloupe eval: methods on tasks, sample by sample, to RESULTS.h5."""
import hashlib
import json
import logging
import math
import os

from ..errors import KvloupeError
from ..results import planned
from ..results.journal import Journal
from ..results.origin import check_origins, origins
from ..results.parts_folder import PartsFolder, take_in
from ..results.results_file import read_results, write_results
from ..results.same_run import check_same
from ..results.table import summary
from ..standard_output import put
from . import harness_tasks, workers
from .data_folder import data_from, default_folder
from .methods import budget_of, check_likelihoods, with_budgets
from .model import KvloupeLM
from .origins_now import hash_of_method, hash_of_task, is_shipped
from .part import Part
from .progress import Progress, tell_stopped
from .run_options import as_turns, file_of, generation, run_of
from .scoring import answered, samples_of
from .traces import record_failing


def run_eval(options):
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    _check_output(options)
    methods = with_budgets(options.method or [], options.budgets)
    gen_kwargs = generation(options.gen_kwargs)
    model = file_of(options.model)
    run = run_of(options, model)
    if options.part:
        Part(*options.part).wait_for_journal()
    with Journal(f"{options.output}.journal", run) as journal:
        before, plan = _before(options, run, journal)
        plan = planned.joined([plan, *take_in(options.output, run, journal, before)], [])
        by_workers = options.workers and not options.part
        if by_workers:
            records, mine = _by_workers(options, run, methods, before, plan, journal)
            before = records
        if options.trace or not by_workers:
            # Tasks read data when they are loaded, when their prompts are made and when an answer is scored.
            with data_from(options.data or default_folder(), options.download):
                records, mine = _evaluated(options, run, methods, model, gen_kwargs, before, plan, journal)
    put(summary(records))
    put(options.output)
    _tell_refused(records, mine, options.output)


def _by_workers(options, run, methods, before, plan, journal):
    """As _evaluated, where other processes run the samples."""
    ids, plans = workers.run_parts(options, run, before, journal)
    records = _in_order({record["id"]: record for record in [*journal.records, *before]}.values(), methods)
    lost = len(ids.difference(record["id"] for record in records))
    if lost:
        raise KvloupeError(f"{lost:,} of {len(ids):,} samples are missing", "a worker came to its end without them", "go on with --resume")
    PartsFolder.of(options.output).remove()
    write_results(options.output, run, records, planned.joined([plan, *plans], records))
    journal.remove()
    return records, ids


def _evaluated(options, run, methods, model, gen_kwargs, before, plan, journal):
    """The file's records, and ids of those that this run was to make."""
    for method in methods[1:]:
        opened(options, model, method).close()  # A SPEC that cannot be run is refused before hours are spent.
    lm = opened(options, model, methods[0])
    samples = asked_samples(options, lm, gen_kwargs)
    _check_grid(options, samples)
    check_likelihoods(methods, [sample.name for sample in samples if sample.asks_likelihoods])
    mine = samples[options.shard[0] - 1 :: options.shard[1]]
    own, others = Part(*options.part).own([_id(run, sample, method) for method in methods for sample in mine]) if options.part else (None, {})
    done = {record["id"]: record for record in [*journal.records, *before]}  # A journal knows of no traces.
    path = options.part[0].removesuffix(".parts") if options.part else options.output
    hashes = _check_origins(path, [origins(done.values()), others], samples, methods, run)
    progress, ids = Progress(len(mine) * len(methods) if own is None else len(own)), set()
    try:
        for method in methods:
            named = [(_id(run, sample, method), sample) for sample in mine]
            named = [(identity, sample) for identity, sample in named if own is None or identity in own]
            ids.update(identity for identity, _ in named)
            waiting = [(identity, sample) for identity, sample in named if identity not in done]
            progress.passed_over += len(named) - len(waiting)
            if waiting and lm.method != method:
                lm.close()
                lm = opened(options, model, method)
                lm.rendered = options.apply_chat_template
            for identity, sample in waiting:
                record = {"id": identity, "method": method, "budget": budget_of(method), "seed": _seed(sample, options), **answered(sample, lm),
                          "task_hash": hashes["task", sample.name], "method_hash": hashes["method", method]}
                journal.add(record)
                done[identity] = record
                progress.add()
    except KeyboardInterrupt:
        tell_stopped(journal)
        raise
    lm.close()
    records = _in_order(done.values(), methods)
    whole = planned.joined([plan, _plan(samples, methods)], records)
    write_results(options.output, run, records, whole)
    journal.remove()
    progress.end()
    if options.trace and not options.part:
        record_failing(options, model, mine, methods, records, lambda: write_results(options.output, run, records, whole))
    return records, ids


def _check_grid(options, samples):
    for name, has in (("lengths", lambda sample: sample.length >= 0), ("depths", lambda sample: not math.isnan(sample.depth))):
        if getattr(options, name) and not any(map(has, samples)):
            raise KvloupeError(f"--{name} would change nothing", f"no text of these tasks has a {name[:-1]}", "leave it out")


def _check_origins(path, known, samples, methods, run):
    """{(kind, name of a task or method): its hash}. What was finished before has the same ones, or it is told."""
    tasks = {sample.name: sample.task for sample in samples}
    now = {**{("task", name): hash_of_task(task) for name, task in tasks.items()},
           **{("method", method): hash_of_method(method, run["model_hash"]) for method in methods}}
    same = {key: {hash, ""} if key[0] == "task" and is_shipped(tasks[key[1]]) else {hash} for key, hash in now.items()}
    for each in known:
        check_origins(path, each, same)
    return now


def _in_order(records, methods):
    places = {method: at for at, method in enumerate(methods)}
    return sorted(records, key=lambda record: (record["task"], record["doc"], places.get(record["method"], -1)))


def _check_output(options):
    """Before anything takes time; what matters is looked at again when the journal is locked."""
    exists, begun = os.path.exists(options.output), os.path.exists(f"{options.output}.journal") or PartsFolder.of(options.output).exists()
    if (exists or begun) and not options.resume:
        raise _there_already(options.output, "exists" if exists else "was begun")
    folder = os.path.dirname(os.path.abspath(options.output))
    if not os.path.isdir(folder):
        raise KvloupeError(f"{options.output} cannot be written", f"there is no folder {folder}", "make it, or give another name by -o")


def _there_already(path, word):
    return KvloupeError(f"{path} {word} already", "samples that are done are not run twice", "give --resume to go on with it, or another name by -o")


def _before(options, run, journal):
    """Records and plan of the file, where the run goes on with it. Nobody else writes it while the journal is locked."""
    exists = os.path.exists(options.output)
    if (exists or journal.records or PartsFolder.of(options.output).exists()) and not options.resume:
        raise _there_already(options.output, "exists" if exists else "was begun")
    if not exists:
        return [], {}
    of_file, records, plan = read_results(options.output)
    check_same(options.output, of_file, run)
    return records, plan


class _Model(KvloupeLM):
    """RULER is lent the tokenizer when one of its tasks is loaded."""
    lends_to_ruler = False


def opened(options, model, method):
    lm = _Model(model=model, method=method, engine=options.engine, chunk_size=options.chunk_size, device=options.device, compute=options.compute,
                threads=options.threads)
    lm.engine.count("a")
    return lm


def asked_samples(options, lm, gen_kwargs, trusted=True):
    metadata = {"model": lm.model}
    if options.lengths:
        metadata["max_seq_lengths"] = options.lengths
    if options.depths:
        metadata["depths"] = options.depths
    tasks = harness_tasks.load_tasks(options.tasks, include_paths=options.include_path, metadata=metadata, seed=options.seed,
                                     num_fewshot=options.num_fewshot, gen_kwargs=gen_kwargs, may_download=options.download, trusted=trusted)
    chat = {name: getattr(options, name) for name in ("system_instruction", "apply_chat_template")} | {"fewshot_as_multiturn": as_turns(options)}
    return [sample for name, task in tasks.items() for sample in samples_of(name, task, options.limit, lm, chat)]


def _plan(samples, methods):
    """All shards together."""
    cells = [{"task": sample.name, "method": method, "length": sample.length, "depth": sample.depth} for sample in samples for method in methods]
    return planned.joined([], cells)


def _tell_refused(records, mine, path):
    """The file is written and the others are in it; only then the command fails."""
    refused = [record for record in records if record["refused"] and record["id"] in mine]
    if refused:
        first = refused[0]
        raise KvloupeError(f"{len(refused):,} of {len(mine):,} samples were refused, and {path} says so of each",
                           f"document {first['doc']} of {first['task']}: {first['refused'].replace('; ', ', ')}",
                           "leave such documents out, or take a model with more room")


def _seed(sample, options):
    seed = sample.doc.get("seed") if isinstance(sample.doc, dict) else None
    return seed if isinstance(seed, int) else options.seed


def _id(run, sample, method):
    return hashlib.sha256(json.dumps([run, sample.identity, method], sort_keys=True).encode()).hexdigest()[:32]
