"""python -m kvloupe record MODEL_FOLDER ... | select T.h5 FILE.py:FUNCTION ... | import ... | merge PART... | eval ... | results ..."""
import json
import os
import sys

from . import arguments, eval_arguments, own_method
from .errors import KvloupeError
from .printable import printable


def main(given=None):
    options = parser().parse_args(_with_two_words(sys.argv[1:] if given is None else given))
    try:
        options.given = sys.argv[1:] if given is None else given
        options.run(options)
    except KvloupeError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _with_two_words(given):
    """`eval merge` and `eval record` are commands of their own: eval takes no other word that is no option."""
    return [" ".join(given[:2]), *given[2:]] if given[:2] in (["eval", "merge"], ["eval", "record"]) else given


def parser():
    top = arguments.Parser(prog="python -m kvloupe", description="Records transformers models to KVLoupe traces, runs methods of your own on them, and evaluates methods on tasks.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    record = commands.add_parser("record", help="run a model on a prompt and record it")
    record.add_argument("model", metavar="MODEL_FOLDER", help="a Hugging Face folder, or a name in the local cache")
    prompt = record.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt-file", metavar="F", help="text, wrapped in the chat template as one user message; - is standard input")
    prompt.add_argument("--messages", metavar="F.json", help="messages for the chat template; - is standard input")
    record.add_argument("--raw", action="store_true", help="the text as it stands, without the chat template")
    record.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1 or auto")
    record.add_argument("--compute", default="auto", choices=["auto", "float32", "bfloat16", "float16"], help="type of the weights; auto: as stored")
    record.add_argument("--attention", metavar="NAME", help="attn_implementation of transformers")
    record.add_argument("--chunk-size", type=arguments.chunk_size, default=128, metavar="N", help="tokens of a prefill chunk (default 128)")
    record.add_argument("--layers", type=arguments.layers, metavar="LIST", help="layers to record: 3, 0-3, 3,7 or all (default)")
    record.add_argument("--heads", type=arguments.heads, metavar="LIST", help="KV heads to record, with their query heads: 3, 0-3, 3,7 or all (default)")
    record.add_argument("--dtype", default="float16", choices=["float16", "float32"], help="type of the stored q, k and v")
    record.add_argument("--store", type=arguments.store, metavar="LIST",
                        help="list of qkv, lse, mass, probe, loss (default qkv,lse, and mass where it is small)")
    record.add_argument("--queries", choices=arguments.QUERIES, default="all", help="of which chunks the queries are stored: all (default), or the last one")
    record.add_argument("--chunks", type=arguments.chunks, metavar="CHUNKS", help="only the queries of these chunks: every:4 for the 4th, the 8th and so on, or 8-15")
    record.add_argument("--span", dest="spans", type=arguments.named_text, action=arguments.Named, default={}, metavar="NAME=TEXT",
                        help="a span of that name where TEXT stands in the prompt; may be repeated. Where it stands more than once the "
                             "next ones are NAME.2, NAME.3")
    record.add_argument("--max-new-tokens", type=arguments.new_tokens, default=0, metavar="N", help="tokens to decode greedily (default 0)")
    record.add_argument("--no-hash", dest="hash", action="store_false", help="leave out the SHA-256 of the weights")
    record.add_argument("--force", action="store_true", help="replace an existing trace")
    record.add_argument("-o", dest="output", required=True, metavar="T.h5")
    record.set_defaults(run=run_record)
    select = commands.add_parser("select", help="save what a method of your own keeps of a trace beside it")
    select.add_argument("trace", metavar="T.h5")
    select.add_argument("function", metavar="FILE.py:FUNCTION", help="a function of (layer, chunk, q, k, v): help(kvloupe.Trace.add_run) says what it returns")
    select.add_argument("--plugin", action="store_true", help="it is LIBRARY.so:FUNCTION, a kvloupe_method of kvloupe.h")
    select.add_argument("--name", metavar="NAME", help="the run is called custom:NAME (default: the function's name)")
    select.add_argument("--budget", type=arguments.budget, metavar="N", help="keys kept of each row's scores")
    select.add_argument("--rows", default="kv_head", choices=own_method.AXES, help="whether a set is chosen for each KV head (default) or query head")
    select.add_argument("--layers", type=arguments.layers, metavar="LIST", help="layers to select in: 3, 0-3, 3,7 or all (default)")
    select.add_argument("--note", default="", help="a text that is stored with the run")
    select.add_argument("--time-limit", type=arguments.seconds, default=600, metavar="SECONDS", help="after which it is stopped (default 600)")
    select.add_argument("--memory-limit", type=arguments.mebibytes, default=None, metavar="MIB", help="memory that it may have (default: all of the machine's)")
    select.set_defaults(run=run_select)
    take = commands.add_parser("import", help="take selections, or q, k and v, that another program wrote as arrays (.npy, .npz, .safetensors)")
    what = take.add_mutually_exclusive_group(required=True)
    what.add_argument("--trace", metavar="T.h5", help="the trace beside which selections are saved")
    what.add_argument("--q", metavar="F", help="queries [layers, heads, tokens, channels], from which a trace is made with --k and --v")
    take.add_argument("file", nargs="?", metavar="F", help="selections: positions padded by -1, a mask, or offsets and positions")
    take.add_argument("--name", metavar="NAME", help="the run is called custom:NAME")
    take.add_argument("--note", default="", help="a text that is stored with the run")
    take.add_argument("--layers", type=arguments.layers_in_order, metavar="LIST", help="the layers that the arrays are of: 3, 0-3, 3,7 (default: all, or from 0 on)")
    take.add_argument("--k", metavar="F", help="keys, as they enter the product")
    take.add_argument("--v", metavar="F", help="values")
    take.add_argument("--ids", metavar="F", help="the tokens' ids (default: their positions)")
    take.add_argument("--texts", metavar="F.json", help="a list of the tokens' texts")
    take.add_argument("--chunk-size", type=arguments.chunk_size, metavar="N", help="tokens of a prefill chunk (default 128)")
    take.add_argument("--scale", type=arguments.scale, metavar="X", help="of the logits (default: 1 / sqrt(channels))")
    take.add_argument("--rope-theta", type=arguments.rope_theta, metavar="X", help="base of the rotary embedding that q and k have (default: not known)")
    take.add_argument("--model", metavar="NAME", help="the model's name")
    take.add_argument("--dtype", choices=["float16", "float32"], help="how q, k and v are stored (default: as wide as they are)")
    take.add_argument("--force", action="store_true", help="replace an existing trace")
    take.add_argument("-o", dest="output", metavar="T.h5", help="the trace that is made")
    take.set_defaults(run=run_import)
    arguments.add_merge(commands, "merge", "join the parts that the ranks of a model wrote", "trace", "T.h5", run_merge)
    eval_arguments.add_commands(commands)
    return top


def run_merge(options):
    from .join import merge_parts
    merge_parts(options.parts, options.output, force=options.force)


def run_import(options):
    from .interrupts import die_with_parent, end_at_signals
    arguments.check_import(options)
    end_at_signals()
    die_with_parent()
    if options.trace is not None:
        return import_run(options)
    from .import_trace import import_trace
    import_trace(options.output, options.q, options.k, options.v, ids=options.ids, texts=options.texts, layers=options.layers, chunk_size=options.chunk_size or 128,
                 scale=options.scale, rope_theta=options.rope_theta or 0.0, model=options.model, dtype=options.dtype, force=options.force)
    print(options.output, file=sys.stderr)


def import_run(options):
    from . import array_files
    from .reader import open_trace
    own_method.check_name(options.name)
    with open_trace(options.trace) as trace:
        arrays = array_files.load(options.file)
        given = next(iter(arrays.values())) if len(arrays) == 1 else arrays
        told_saved(trace.add_run(options.name, positions=given, layers=options.layers, note=options.note), trace)


def told_saved(run, trace):
    print(f"saved as run {run.id}, {run.method}, of {trace.path}.runs.h5", file=sys.stderr)


def run_select(options):
    from . import sidecar
    from .interrupts import end_with_parent
    from .own_file import select_apart
    from .reader import open_trace
    name = options.name or options.function.rpartition(":")[2]
    method = own_method.check_name(name)
    end_with_parent()
    with open_trace(options.trace) as trace:
        sidecar.check(trace, method)
    from .array_files import memory as all_memory
    memory = options.memory_limit or all_memory()
    selected = select_apart(options.trace, options.function, rows=options.rows, budget=options.budget, layers=options.layers,
                            seconds=options.time_limit, bytes_of_memory=memory, in_c=options.plugin)
    with open_trace(options.trace) as trace:
        told_saved(trace._add_cells(name, options.rows, selected, options.note), trace)


def run_record(options):
    from .part_file import check_output, names_of, refuse_inputs
    check_output(options.output, options.force)  # Before the seconds that torch and a model take to load.
    refuse_inputs(names_of(options.output), [options.prompt_file, options.messages])
    prompt = read_prompt(options)
    spin_briefly()
    try:
        from .record_folder import record_folder
    except ImportError as error:
        raise KvloupeError("recording is not possible here", f"{error.name} is not installed", "pip install torch transformers") from None
    record_folder(options, prompt)


def spin_briefly():
    """Lets OpenMP's threads sleep soon at a barrier, as the program does (docs/performance.md). OpenMP reads it when torch is loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def read_prompt(options):
    """A text, or a list of messages."""
    path = options.prompt_file or options.messages
    try:
        if path == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        else:
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        return text if options.prompt_file else json.loads(text)
    except (OSError, ValueError) as error:
        raise KvloupeError(f"cannot read {path}", str(error), "check the file") from None


if __name__ == "__main__":
    sys.exit(main())
