#!/usr/bin/env python3
"""How often a model still answers a needle prompt when it attends only to what a method selects.

  needle_answers.py PROGRAM --log FILE [--method SPEC ...] [--seeds 1-20] [--length 2048]
                    [--new-tokens 16] [--jobs 1] [--threads 2] [--table]

Each prompt is one closed-loop capture with the bundled model, which records as little as it can.
Depths are spread evenly over the seeds. Every answer is one line of FILE, so that a run that was
stopped goes on where it was; the table is printed at the end (--table: only the table).
Python's standard library is all it needs.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading


def wilson(hits, total, z=1.959964):
    """The 95 % score interval of a share."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, z * z
    centre = (share + square / (2 * total)) / (1 + square / total)
    half = z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return max(0.0, centre - half), min(1.0, centre + half)


def ask(program, method, seed, depth, options, folder):
    output = os.path.join(folder, f"{threading.get_ident()}.h5")
    task = f"niah:length={options.length},depth={depth:.3f},seed={seed}"
    command = [program, "capture", "--model", "smollm2", "--task", task, "--closed-loop", method,
               "--max-new-tokens", str(options.new_tokens), "--store", "lse", "--layers", "0",
               "--threads", str(options.threads), "--quiet", "--force", "-o", output]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return {"method": method, "seed": seed, "depth": depth, "error": last}
    verdict = re.search(r"^expected: (.*) \((found|[^()]*)\)\s*$", result.stdout, re.M)
    answer = re.search(r"^answer: (.*?)(?=^expected: )", result.stdout, re.M | re.S)
    if not verdict or not answer:
        return {"method": method, "seed": seed, "depth": depth, "error": "the report has no answer"}
    return {"method": method, "seed": seed, "depth": depth, "length": options.length,
            "answer": answer.group(1).strip(), "expected": verdict.group(1),
            "found": verdict.group(2) == "found"}


def read_log(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def print_table(records, methods):
    print("| method | budget | answered | share | 95 % (Wilson) |")
    print("|---|---|---|---|---|")
    for method in methods:
        done = [r for r in records if r["method"] == method and "error" not in r]
        if not done:
            continue
        hits = sum(r["found"] for r in done)
        low, high = wilson(hits, len(done))
        budget = re.search(r"budget_tokens=(\d+)", method)
        name = re.sub(r"[:,]budget_tokens=\d+", "", method)
        print(f"| {name} | {budget.group(1) if budget else '-'} | {hits}/{len(done)} "
              f"| {hits / len(done):.2f} | {low:.2f} to {high:.2f} |")
    for record in records:
        if "error" in record and record["method"] in methods:
            print(f"\n{record['method']}, seed {record['seed']}: {record['error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--log", required=True)
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--seeds", default="1-20")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    seeds = range(first, last + 1)

    records = read_log(options.log)
    if not options.table:
        done = {(r["method"], r["seed"]) for r in records if "error" not in r}
        todo = [(method, seed) for seed in seeds for method in options.method
                if (method, seed) not in done]
        lock = threading.Lock()
        with tempfile.TemporaryDirectory() as folder, open(options.log, "a") as log, \
                concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            def work(item):
                method, seed = item
                depth = (seed - first) / max(1, len(seeds) - 1)
                record = ask(options.program, method, seed, depth, options, folder)
                with lock:
                    log.write(json.dumps(record) + "\n")
                    log.flush()
            for _ in pool.map(work, todo):
                pass
        records = read_log(options.log)
    wanted = options.method or list(dict.fromkeys(r["method"] for r in records))
    # A later success replaces an earlier error.
    latest = {(r["method"], r["seed"]): r for r in records}
    print_table(list(latest.values()), wanted)
    return 1 if any("error" in r for r in latest.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
