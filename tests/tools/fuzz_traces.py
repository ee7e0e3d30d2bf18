#!/usr/bin/env python3
"""Damaged traces against the program itself: fuzz_traces.py N [--seed S] [--build build/release] [--keep out/fuzz]

N files with damaged structures (object headers, attributes, trees, chunk indices, heaps) and N with random damage; each is
given to `kvloupe info` and `validate`, and to `select` every tenth time. A child has 10 seconds of processor time, 120
seconds by the clock and 2 GiB of address space (`select`, with Torch, 24). A finding is a signal, a time-out, an exit code
other than 0 and 1, and a refusal without the sentence "error: what; why; what to do". The files of findings are kept.
Prints counts and findings; fails when there is one. Needs the targets kvloupe and damage_trace.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SENTENCE = re.compile(r"error: [^;]+; .+; .+")
BATCH = 200
PROCESSOR_SECONDS = 10
CLOCK_SECONDS = 120
ADDRESS_BYTES = {"info": 2 << 30, "validate": 2 << 30, "select": 24 << 30}
SELECT_EVERY = 10


def outcome(program, command, path):
    """Exit code and what is wrong with it, if anything."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES[command], ADDRESS_BYTES[command]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    arguments = ["--method", "keydiff:budget_tokens=8"] if command == "select" else []
    try:
        done = subprocess.run([program, command, path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=CLOCK_SECONDS, preexec_fn=limit,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        return "time-out", f"more than {CLOCK_SECONDS} s"
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    if done.returncode < 0:
        return f"signal {-done.returncode}", f"signal {-done.returncode}"
    if done.returncode not in (0, 1):
        return f"exit {done.returncode}", f"exit {done.returncode}: {said}"
    if done.returncode == 1 and not (said and SENTENCE.fullmatch(said[0])):
        return "exit 1", f"no sentence: {said}"
    return f"exit {done.returncode}", None


def look_at(program, index, path):
    commands = ["info", "validate"] + (["select"] if index % SELECT_EVERY == 0 else [])
    return path, [(command, *outcome(program, command, path)) for command in commands]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("out/fuzz"))
    options = parser.parse_args()
    program, maker = options.build / "bin/kvloupe", options.build / "tests/damage_trace"
    counts, findings = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for kind in ("structure", "random"):
            for first in range(0, options.count, BATCH):
                seed = options.seed * 1_000_000 + first
                with tempfile.TemporaryDirectory() as folder:
                    made = subprocess.run([maker, kind, str(seed), str(min(BATCH, options.count - first)), folder],
                                          check=True, capture_output=True, text=True).stdout.splitlines()
                    jobs = [pool.submit(look_at, program, i, os.path.join(folder, f"{i}.h5")) for i in range(len(made))]
                    for i, job in enumerate(jobs):
                        path, outcomes = job.result()
                        for command, result, trouble in outcomes:
                            counts[kind, command, result] += 1
                            if trouble:
                                findings += 1
                                options.keep.mkdir(parents=True, exist_ok=True)
                                kept = options.keep / f"{kind}-{seed}-{i}.h5"
                                shutil.copy(path, kept)
                                print(f"{kept}: {command}: {trouble} ({made[i]})", flush=True)
                print(f"{kind}: {first + len(made)} of {options.count} files", file=sys.stderr, flush=True)
    for (kind, command, result), count in sorted(counts.items()):
        print(f"{kind:9} {command:8} {result:10} {count}")
    print(f"{findings} findings in {2 * options.count} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
