#!/usr/bin/env python3
"""Measures what docs/results.md says of perplexity: writes every pair of runs as CSV and prints the table in Markdown.

    docs/results/measure_perplexity.py [--model smollm2] [--csv assets/results/smollm2_perplexity.csv]

Run from the repository's root. Needs nothing but Python. A pair that the CSV has already is not measured again.
"""
import argparse
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

PROGRAM = os.environ.get("KVLOUPE", "./kvloupe.sh")
METHODS = [*(f"{method}:budget_tokens={budget}" for budget in (64, 256) for method in ("quoka", "uniform_queries", "h2o", "snapkv", "streaming_llm")),
           *(f"aqua:dim_ratio={ratio}" for ratio in (0.75, 0.5, 0.25))]
LENGTHS = (512, 1024, 2048)
SEEDS = (1, 2, 3, 4)
T_95 = 3.1824  # Student's t with 3 degrees of freedom, two-sided 95 %


def perplexities(model, method, length, seed):
    """Of the closed loop, and of the dense model beside it on the same tokens."""
    with tempfile.TemporaryDirectory() as folder:
        words = [PROGRAM, "capture", "--model", model, "--task", f"perplexity:length={length},seed={seed}", "--layers", "0", "--store", "loss",
                 "--closed-loop", method, "--drift", "--quiet", "--json", "-o", f"{folder}/passage.h5"]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    report = json.loads(done.stdout)
    return report["perplexity"], report["dense_perplexity"]


def measure(model, path):
    rows = []
    if path.exists():
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
    known = {(row["method"], int(row["length"]), int(row["seed"])) for row in rows}
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, ("method", "length", "seed", "perplexity", "dense_perplexity"), lineterminator="\n")
        if not rows:
            writer.writeheader()
        for seed in SEEDS:
            for length in LENGTHS:
                for method in METHODS:
                    if (method, length, seed) in known:
                        continue
                    sparse, dense = perplexities(model, method, length, seed)
                    rows.append({"method": method, "length": length, "seed": seed, "perplexity": f"{sparse:.4f}", "dense_perplexity": f"{dense:.4f}"})
                    writer.writerow(rows[-1])
                    file.flush()
    return rows


def interval(differences):
    """In percent, of differences of logarithms."""
    mean = statistics.mean(differences)
    half = T_95 * statistics.stdev(differences) / len(differences) ** 0.5
    return "{:+.1f} % ({:.1f} to {:.1f})".format(*(100 * math.expm1(value) for value in (mean, mean - half, mean + half)))


def report(rows):
    logs = {(row["method"], int(row["length"]), int(row["seed"])): [math.log(float(row[name])) for name in ("perplexity", "dense_perplexity")] for row in rows}

    def against_dense(method, length):
        return [sparse - dense for sparse, dense in (logs[method, length, seed] for seed in SEEDS)]

    print("| method | " + " | ".join(f"{length:,} tokens" for length in LENGTHS) + " |\n" + "|---" * (len(LENGTHS) + 1) + "|")
    print("| dense, its perplexity | " + " | ".join(f"{math.exp(statistics.mean(logs[METHODS[0], length, seed][1] for seed in SEEDS)):.1f}"
                                                  for length in LENGTHS) + " |")
    for method in METHODS:
        print(f"| `{method}` | " + " | ".join(interval(against_dense(method, length)) for length in LENGTHS) + " |")
    print("\nBy how much another method's perplexity is above quoka's, passage by passage\n")
    for budget in (64, 256):
        for method in METHODS:
            if method.endswith(f"={budget}") and not method.startswith("quoka"):
                quoka = f"quoka:budget_tokens={budget}"
                print(f"- {method}: " + ", ".join(f"{length}: " + interval([logs[method, length, seed][0] - logs[quoka, length, seed][0] for seed in SEEDS])
                                                  for length in LENGTHS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--csv", type=pathlib.Path, default=pathlib.Path("assets/results/smollm2_perplexity.csv"))
    options = parser.parse_args()
    report(measure(options.model, options.csv))


main()
