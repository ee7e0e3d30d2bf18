"""Records what attention sees in a transformers model, runs it with what a method keeps, reads KVLoupe traces, adds methods of your
own to them, and selects by KVLoupe's methods in your program.

    with kvloupe.record(model, "t.h5", tokenizer=tokenizer):
        model.generate(**inputs)

    with kvloupe.sparse(model, "snapkv:budget_tokens=256"):
        model.generate(**inputs)

    trace = kvloupe.open("t.h5")
    trace.attention(layer=3, q_head=0, begin=100, end=101)
    trace.add_run("mine", lambda layer, chunk, q, k, v: scores_of(q, k), budget=256)

    kvloupe.compare(trace, ["quoka:budget_tokens=256", "custom:mine"], span="needle")
    trace.figure("kv_map", method="custom:mine")

    selector = kvloupe.Selector("quoka:budget_tokens=256", layers=24, q_heads=16, kv_heads=4, head_dim=64)
    rows = selector.select(layer, q, k, v, past)
"""
from .ask import compare, explain, latency, worst
from .errors import KvloupeError
from .reader import Trace
from .reader import open_trace as open
from .selector import Selector

__all__ = ["KvloupeError", "Selector", "Trace", "compare", "estimate", "explain", "latency", "merge", "methods_from", "open", "record", "sparse", "worst"]


def record(model, path, *, tokenizer=None, chunk_size=128, layers=None, dtype="float16", store=None, spans=None,
           batch_index=0, force=False, hash=True, heads=None, queries="all", chunks=None):
    """A context manager that records every model(...) and model.generate(...) of one sequence inside it to a trace.

    tokenizer    gives the tokens their text
    chunk_size   prefill is cut at its multiples; each later forward of one token is a chunk of its own
    layers       numbers of the layers to record; all by default
    heads        numbers of the KV heads to record, each with its query heads; all by default. The trace is that of a model which has
                 these heads alone, and names no hash
    dtype        "float16" or "float32": how q, k and v are stored
    store        what is stored: "qkv", "lse" (row log-sum-exp), "mass" (the attention that each key receives from each prefill
                 chunk), "loss" (-log P of each token) and "probe" (after each prefill chunk the model reads a short text; its
                 queries and the losses are stored, which the method infinipot needs). By default qkv and lse, and mass while it
                 takes at most a quarter of the bytes of q, k and v. loss and probe need the logits of all tokens: pass
                 logits_to_keep=0 to model.generate(...). probe needs tokenizer, and more time
    queries      "last": only the queries of the last chunk are stored, which is a decoded token after generate(...). Keys, values and
                 all else are stored of every chunk
    chunks       only the queries of these chunks are stored: "every:4" for the 4th, the 8th and so on, or a range "8-15". With
                 queries="last", those of the last of them
    spans        names of token ranges, {name: (begin, end)}
    batch_index  which row of a batch
    force        replaces a trace of that name
    hash         False leaves out the SHA-256 of the weights. It is computed beside the model and kept in the cache by path, size
                 and time of the model's files. Without it the program cannot find a calibrated basis (basis=auto) for the trace

    An exception inside leaves a valid incomplete trace of the chunks done. Raises KvloupeError for what cannot be recorded.
    """
    try:
        from .recorder import Recorder
    except ImportError as error:
        raise KvloupeError("recording is not possible here", f"{error.name} is not installed",
                           "pip install torch transformers") from None
    return Recorder(model, path, tokenizer=tokenizer, chunk_size=chunk_size, layers=layers, dtype=dtype, store=store, spans=spans,
                    batch_index=batch_index, force=force, hash=hash, heads=heads, queries=queries, chunks=chunks)


def sparse(model, method, *, chunk_size=128, record=None, tokenizer=None, rows=None, budget=None):
    """A context manager in which every model(...) and model.generate(...) of one sequence attends only to what a method keeps.

    method       a SPEC, such as "snapkv:budget_tokens=256", or a function select(layer, chunk, q, k, v), as Trace.add_run takes it
    chunk_size   a prompt is cut at its multiples, and the method chooses for each chunk; each later forward of one token is a chunk
                 of its own. A chunk's own keys are always seen
    record       a path: the run is recorded to a trace, as kvloupe.record does, with what was kept as its run 0
    tokenizer    gives the recorded tokens their text; infinipot asks for it in any case
    rows, budget    of a function: "kv_head" (the default) or "q_head", and how many keys its scores keep

    Afterwards the model is as it was before. Raises KvloupeError for what cannot be run.
    """
    try:
        from .sparse_run import SparseRun
    except ImportError as error:
        raise KvloupeError("a model cannot be run here", f"{error.name} is not installed", "pip install torch transformers") from None
    return SparseRun(model, method, chunk_size=chunk_size, record=record, tokenizer=tokenizer, rows=rows, budget=budget)


def estimate(model, tokens, *, new_tokens=0, chunk_size=128, layers=None, dtype="float16", store=None, heads=None,
             queries="all", chunks=None):
    """Bytes that `record` would store of so many tokens of a prompt and new ones, by part ("qkv", "lse", "mass") and in all
    ("bytes"). The options are those of `record`; loss and probe are small and not counted. Nothing is run."""
    try:
        from .size_estimate import estimate as of_model
    except ImportError as error:
        raise KvloupeError("a recording cannot be estimated here", f"{error.name} is not installed", "pip install torch transformers") from None
    return of_model(model, tokens, new_tokens=new_tokens, chunk_size=chunk_size, layers=layers, dtype=dtype, store=store, heads=heads,
                    queries=queries, chunks=chunks)


def methods_from(path):
    """{name: function} of the functions in a file of Python, for Trace.add_run. Names that begin with _ are left out."""
    from .own_file import methods_from
    return methods_from(path)


def merge(parts, path, *, force=False):
    """Joins the parts that the ranks of one model wrote to one trace."""
    from .join import merge_parts
    merge_parts(parts, path, force=force)
