"""The commands of evaluation: their options, read before the harness is loaded."""
import argparse
import math
import os
import sys

from . import arguments
from .errors import KvloupeError
from .eval_engine import ENGINES, engine_of
from .results.table import BY

MOST_SEED = 2**32 - 1  # numpy, from which tasks draw, takes no larger one
COMPUTES = ("auto", "float32", "bfloat16", "float16")


def add_commands(commands):
    evaluate = commands.add_parser("eval", help="run methods on tasks of lm-evaluation-harness, sample by sample",
                                   epilog="eval merge joins results: python -m kvloupe eval merge PART... -o RESULTS.h5; "
                                          "eval record makes a trace of one sample: python -m kvloupe eval record RESULTS.h5 ID")
    evaluate.add_argument("--model", required=True, metavar="M",
                          help="a GGUF file, a Hugging Face folder, or a name that `kvloupe models` lists; hf:FOLDER: one that transformers runs")
    evaluate.add_argument("--engine", choices=ENGINES, help="what runs it: kvloupe run (default), or transformers with kvloupe.sparse")
    evaluate.add_argument("--tasks", required=True, type=_words, metavar="LIST", help="names of tasks, groups or tags, or patterns such as niah_*")
    evaluate.add_argument("--include-path", action="append", default=[], metavar="FOLDER",
                          help="a folder of task files (.yaml) of your own; may be repeated")
    evaluate.add_argument("--method", action="append", metavar="SPEC",
                          help="a method, such as quoka:budget_tokens=256; may be repeated. dense always runs beside, first unless it is named")
    evaluate.add_argument("--budgets", type=_numbers("--budgets", 1), metavar="LIST", help="each method at each of these budgets, as in 64,256,1024")
    evaluate.add_argument("--lengths", type=_numbers("--lengths", 128), metavar="LIST",
                          help="tokens of the texts of tasks that make them, as in 1k,2k,4k")
    evaluate.add_argument("--depths", type=_numbers("--depths", 0, 100), metavar="LIST",
                          help="where the needle stands, in percent of the text (kvloupe_niah, kvloupe_passkey)")
    evaluate.add_argument("--limit", type=_number("--limit", 1), metavar="N", help="the first N documents of each task, of each length and depth")
    evaluate.add_argument("--num-fewshot", type=_number("--num-fewshot", 0), metavar="N",
                          help="examples before each question (default: the task's own)")
    evaluate.add_argument("--apply-chat-template", action="store_true", help="prompts in the model's chat template")
    evaluate.add_argument("--fewshot-as-multiturn", action=argparse.BooleanOptionalAction,
                          help="examples as turns of the conversation (default with a template)")
    evaluate.add_argument("--system-instruction", metavar="TEXT", help="what stands before the conversation or text")
    evaluate.add_argument("--gen-kwargs", metavar="A=B,...", help="of generation, in place of the task's own, as in max_gen_toks=32")
    evaluate.add_argument("--seed", type=_number("--seed", 0, MOST_SEED), default=42, metavar="N",
                          help="of texts that the harness's tasks make and of the choice of examples (default 42); kvloupe_niah and kvloupe_passkey have a seed for each text")
    evaluate.add_argument("--chunk-size", type=arguments.chunk_size, default=128, metavar="N", help="tokens of a prefill chunk (default 128)")
    evaluate.add_argument("--device", default="cpu", help="cpu (default) or cuda:N")
    evaluate.add_argument("--compute", default="auto", choices=COMPUTES,
                          help="type of the weights; auto: float32, of transformers as stored")
    evaluate.add_argument("--threads", type=_number("--threads", 1), metavar="N", help="CPU threads, of each worker (default: all cores; docs/eval.md)")
    evaluate.add_argument("--workers", type=_workers, metavar="N|ray[:ADDRESS]",
                          help="N processes at once, or tasks of Ray: on this machine, or on the cluster at ADDRESS")
    evaluate.add_argument("--part", nargs=2, help=argparse.SUPPRESS)  # FOLDER I/M: this process is one of the workers.
    evaluate.add_argument("--data", metavar="FOLDER",
                          help="where data sets and files of tasks are looked for first (default: ~/.local/share/kvloupe/eval)")
    evaluate.add_argument("--download", action="store_true", help="tasks may fetch what they need from the network")
    evaluate.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="every N-th sample, from the I-th on; eval merge joins them")
    evaluate.add_argument("--trace", type=_failing, metavar="failing[:N]",
                          help="record samples that dense answers better than a method (the first N of them) to traces in RESULTS.h5.traces")
    evaluate.add_argument("--resume", action="store_true", help="go on with a run that was stopped, or add methods, tasks and samples to one")
    evaluate.add_argument("-o", dest="output", required=True, metavar="RESULTS.h5")
    evaluate.set_defaults(run=run_eval)
    arguments.add_merge(commands, "eval merge", "join the results of shards, or of runs with other methods or tasks, by their samples",
                        "file", "RESULTS.h5", run_merge)
    _add_record(commands)
    harness = commands.add_parser("lm_eval", prefix_chars="\0", add_help=False,
                                  help="lm-evaluation-harness's own command, with the model kvloupe and the tasks of this package")
    harness.add_argument("rest", nargs="*", metavar="ARGUMENTS")  # Its options are its own: none of them is read here.
    harness.set_defaults(run=run_harness)
    results = commands.add_parser("results", help="tables of what eval wrote")
    results.add_argument("results", metavar="RESULTS.h5")
    results.add_argument("--by", type=_columns, metavar="LIST",
                         help=f"a row for each: of {', '.join(BY)} (default task,method)")
    results.add_argument("--against", metavar="SPEC",
                         help="the method that others are compared with, sample by sample: difference, and an exact sign test (McNemar's)")
    shown = results.add_mutually_exclusive_group()
    shown.add_argument("--grid", action="store_true", help="mean scores by length and depth, a table for each method; with --against differences to that one")
    shown.add_argument("--samples", action="store_true", help="every sample")
    shown.add_argument("--perplexities", action="store_true", help="perplexities alone, which --csv does not print below the table")
    form = results.add_mutually_exclusive_group()
    for name in ("markdown", "csv", "latex"):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name,
                          help="the form of the table" + (" (default)" if name == "markdown" else ""))
    results.set_defaults(run=run_results, form="markdown")


def _add_record(commands):
    record = commands.add_parser("eval record", help="record one sample of results to a trace beside them")
    record.add_argument("output", metavar="RESULTS.h5")
    record.add_argument("sample", metavar="ID", help="its id, or how that begins, as `results --samples` and the window say")
    record.add_argument("--model", metavar="M", help="the model that was evaluated (default: the one of that name that `kvloupe models` lists)")
    record.add_argument("--include-path", action="append", default=[], metavar="FOLDER", help="a folder of task files (.yaml) of your own; may be repeated")
    record.add_argument("--device", default="cpu", help="cpu (default) or cuda:N")
    record.add_argument("--threads", type=_number("--threads", 1), metavar="N", help="CPU threads (default: all cores)")
    record.add_argument("--data", metavar="FOLDER", help="where data sets and files of tasks are looked for first (default: ~/.local/share/kvloupe/eval)")
    record.add_argument("--download", action="store_true", help="tasks may fetch what they need from the network")
    record.add_argument("--end-with-parent", action="store_true", help=argparse.SUPPRESS)  # The window started it.
    record.set_defaults(run=run_record)


def run_eval(options):
    try:
        options.engine, options.model = engine_of(options.model, options.engine)
    except KvloupeError as error:
        arguments.Parser(prog="python -m kvloupe eval").error(str(error))
    _prepare(options.download)
    if options.part:
        from .interrupts import end_with_input
        end_with_input()
    _command().run_eval(options)


def run_record(options):
    if options.end_with_parent:
        from .interrupts import end_with_parent
        end_with_parent()
    _prepare(options.download)
    print("loading lm-evaluation-harness", file=sys.stderr)
    _command()
    from .eval.one_sample import run_record as record
    record(options)


def run_harness(options):
    _prepare(may_download=True)
    _command()
    from .eval.harness_tasks import OWN_TASKS
    from lm_eval.__main__ import cli_evaluate
    rest = list(options.rest)
    if any(word.startswith("--tasks") for word in rest) and not any(word.startswith("--include_path") for word in rest):
        rest += ["--include_path", str(OWN_TASKS)]
    sys.argv = ["lm_eval", *rest]
    cli_evaluate()


def run_results(options):
    what = next((name for name in ("grid", "samples", "perplexities") if getattr(options, name)), None)
    beside = [name for name in ("by", "against") if what and getattr(options, name) and (name == "by" or what == "samples")]
    if beside:
        sentence = f"--{beside[0]} would change nothing; --{what} is another table; leave one of both out"
        arguments.Parser(prog="python -m kvloupe results").error(sentence)
    from .results import command
    command.run_results(options)


def run_merge(options):
    from .results import command
    command.run_merge(options)


def _prepare(may_download):
    """The libraries below read these when they are loaded."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    if not may_download:
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"


def _command():
    try:
        from .eval import command
    except ImportError as error:
        raise KvloupeError("methods cannot be evaluated here", f"{error.name} is not installed",
                           "pip install lm-eval==0.4.13 wonderwords nltk transformers") from None
    return command


def _words(text):
    words = [word for word in text.split(",") if word]
    if not words:
        raise arguments.wrong(f"--tasks cannot take '{text}'", "it takes names of tasks", "write it as in --tasks niah_single_1,gsm8k")
    return words


def _workers(text):
    """A number, or "ray" with the address of its cluster, if any."""
    name, colon, address = text.partition(":")
    if name == "ray" and bool(colon) == bool(address):
        return name, address or None
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise arguments.wrong(f"--workers cannot take '{text}'", "it takes a number from 1 on, or ray and the address of a cluster",
                              "write it as in --workers 4, ray or ray:127.0.0.1:6379")
    return int(text)


def _columns(text):
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in BY:
            raise arguments.wrong(f"--by cannot take '{word}'", f"it takes a list of {', '.join(BY[:-1])} and {BY[-1]}",
                                  "write it as in --by method,length")
    return words


def _number(option, least, most=None):
    return lambda text: arguments.number(option, text, least, most)


def _numbers(option, least, most=None):
    """12, 1k (1,024) and lists of them."""
    def read(text):
        found = []
        for word in text.split(","):
            thousands = word[-1:] in ("k", "K")
            found.append(arguments.number(option, word[:-1] if thousands else word, 0) * (1024 if thousands else 1))
        if min(found) < least or (most is not None and max(found) > most):
            raise arguments.wrong(f"{option} cannot take '{text}'", f"it takes numbers from {least} {'on' if most is None else f'to {most}'}",
                                  f"write it as in {option} {'256,1k' if most is None else f'{least},{most}'}")
        return list(dict.fromkeys(found))
    return read


def _failing(text):
    """How many samples at most."""
    word, colon, most = text.partition(":")
    if word != "failing" or (colon and not (most.isascii() and most.isdecimal() and int(most) >= 1)):
        raise arguments.wrong(f"--trace cannot take '{text}'", "it takes failing, or failing:N for the first N samples",
                              "write it as in --trace failing:10")
    return int(most) if colon else math.inf


def _shard(text):
    index, _, count = text.partition("/")
    if not (index.isascii() and index.isdecimal() and count.isascii() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise arguments.wrong(f"--shard cannot take '{text}'", "it takes which of how many parts, from 1 on", "write it as in --shard 1/4")
    return int(index), int(count)
