"""What a selector costs in Python beside the program itself: one chunk of 128 tokens after 4,096 keys, in turns. A script, no test:

    python -m tests.bench_selector        in capture/python; --help lists the sizes

Both select of the same random arrays, on one thread, once what the chunk's choice rests on has been selected before it. The program's time is
`select` of `kvloupe latency`. Each number is a median of 20, in the quietest of the rounds. The arrays lie as a model has them: queries of
a chunk for themselves, the first number at a multiple of 64 bytes. Values are given to methods that read them alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import kvloupe
from kvloupe.spec_facts import spec_facts

CHUNK, REPETITIONS = 128, 20
METHODS = ("quoka:budget_tokens=1024", "uniform_queries:budget_tokens=1024", "oracle:budget_tokens=1024", "sparq:budget_tokens=1024", "quest:budget_tokens=1024,skip_layers=0",
           "snapkv:budget_tokens=1024", "tova:budget_tokens=1024", "xattention", "flash_prefill", "compact_attention")


def main():
    options = parse()
    tokens = options.past // CHUNK * CHUNK + CHUNK
    draw = np.random.default_rng(1).standard_normal
    q, k, v = (aligned(draw((heads, tokens, options.head_dim), dtype=np.float32)) for heads in (options.heads, options.kv_heads, options.kv_heads))
    queries = {past: aligned(q[:, past : past + CHUNK]) for past in range(0, tokens, CHUNK)}
    with tempfile.TemporaryDirectory(prefix="kvloupe-bench-") as folder:
        path = pathlib.Path(folder) / "t.h5"
        for name, array in (("q", q), ("k", k), ("v", v)):
            np.save(pathlib.Path(folder) / f"{name}.npy", array[None])
        program("import", "--q", f"{folder}/q.npy", "--k", f"{folder}/k.npy", "--v", f"{folder}/v.npy", "--chunk-size", CHUNK, "-o", path)
        print(f"{'method':45} {'program ms':>10} {'Python ms':>10}  ratio")
        for spec in options.methods or METHODS:
            ours, theirs = [], []
            with selector_for(spec, options) as selector:
                for _ in range(options.rounds):
                    report = json.loads(program("latency", path, "--method", spec, "--threads", 1, "--repetitions", REPETITIONS, "--json"))
                    theirs.append(report["rows"][0]["parts"]["select"])
                    ours.append(statistics.median(time_last_chunk(selector, spec, queries, k, v, tokens) for _ in range(REPETITIONS)))
            # Of the quietest round: what else runs on the machine only adds.
            mine, program_ms = min(ours), min(theirs)
            print(f"{spec:45} {program_ms:10.3f} {mine:10.3f}  {mine / program_ms:5.2f}", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--past", type=int, default=4096, help="keys before the chunk, default 4096")
    parser.add_argument("--heads", type=int, default=9, help="query heads, default 9")
    parser.add_argument("--kv-heads", type=int, default=3, help="default 3")
    parser.add_argument("--head-dim", type=int, default=64, help="default 64")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("methods", nargs="*", help="method SPECs")
    return parser.parse_args()


def program(*arguments):
    done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], *map(str, arguments)], capture_output=True, text=True, check=False,
                          env={**os.environ, "KVLOUPE_PYTHON": sys.executable})
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def aligned(array):
    """A copy that begins at a multiple of 64 bytes, as tensors of Torch do."""
    room = np.empty(array.size + 16, np.float32)
    begin = -room.ctypes.data % 64 // 4
    copy = room[begin : begin + array.size].reshape(array.shape)
    copy[...] = array
    return copy


def selector_for(spec, options):
    return kvloupe.Selector(spec, layers=1, q_heads=options.heads, kv_heads=options.kv_heads, head_dim=options.head_dim, threads=1)


def time_last_chunk(selector, spec, queries, k, v, tokens):
    """In milliseconds."""
    # Two chunks before it: what is kept of the keys has got its room by then, as in the program.
    facts = spec_facts(spec)
    first, reads_no_values = 0 if facts["state_action"] == "eviction" else tokens - 3 * CHUNK, facts["lanes"] is None
    selector.reset(past=first, chunk=first // CHUNK)
    for past in range(first, tokens, CHUNK):
        given = queries[past], k[:, : past + CHUNK], None if reads_no_values else v[:, : past + CHUNK], past
        if past + CHUNK == tokens:
            begin = time.perf_counter()
        selector.select(0, *given, ends_prefill=past + CHUNK == tokens)
    return 1000 * (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
