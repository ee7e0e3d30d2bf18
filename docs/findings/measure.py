#!/usr/bin/env python3
"""Measures what docs/findings.md says of a model, and prints it as Markdown tables.

    docs/findings/measure.py smollm2 gemma3-270m [--lengths 1500,4000,7500] [--depths 0.2,0.5,0.8] [--folder out/findings]

Run from the repository's root; gemma3-270m is fetched once by hand, its terms accepted. Needs nothing but Python. Traces that exist are
not captured again.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess

PROGRAM = os.environ.get("KVLOUPE", "./kvloupe.sh")
BUDGET = 256
METHODS = ("quoka", "uniform_queries", "snapkv", "h2o", "streaming_llm")


def kvloupe(*arguments):
    words = [PROGRAM, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def capture(model, task, path, *more):
    """Whether the answer held the needle."""
    log = path.with_suffix(".txt")
    if not path.exists() or not log.exists():
        log.write_text(kvloupe("capture", "--model", model, "--raw", "--task", task, "--max-new-tokens", 10, *more, "--force", "-o", path))
    return "(found)" in log.read_text()


def needles(model, lengths, depths, folder):
    """Answered needles by length: by the dense model, and in closed loop by each method."""
    print(f"| {model} | dense | {' | '.join(METHODS)} |\n|{'---|' * (len(METHODS) + 2)}")
    for length in lengths:
        found = dict.fromkeys(("dense", *METHODS), 0)
        for depth in depths:
            task = f"niah:length={length},depth={depth}"
            for method in found:
                loop = () if method == "dense" else ("--closed-loop", f"{method}:budget_tokens={BUDGET}")
                path = folder / f"{model}-{length}-{depth}-{method}.h5"
                found[method] += capture(model, task, path, "--layers", 0, "--store", "lse", *loop)
        print(f"| {length} tokens | {' | '.join(f'{count} of {len(depths)}' for count in found.values())} |", flush=True)


def whole_trace(model, length, folder):
    path = folder / f"{model}-{length}.h5"
    capture(model, f"niah:length={length},depth=0.5", path)
    return path


def recall(model, lengths, folder):
    """Mean mass recall in prefill at the same cells, over all layers and over those that see every key."""
    print(f"| {model}, mass recall | layers | {' | '.join(METHODS)} |\n|{'---|' * (len(METHODS) + 2)}")
    specs = [word for method in METHODS for word in ("--method", f"{method}:budget_tokens={BUDGET}")]
    for length in lengths:
        path = whole_trace(model, length, folder)
        windows = {row["layer"] for row in json.loads(kvloupe("info", path, "--json"))["softmax"] if "window" in row}
        rows = json.loads(kvloupe("compare", path, *specs, "--cells", "common", "--scope", "layer", "--json"))["rows"]
        rows = [row for row in rows if row["scope"] == "layer" and row["phase"] == "prefill" and row["mass_recall"] is not None]
        for name, wanted in (("all", lambda row: True), ("full", lambda row: row["index"] not in windows)):
            if name == "full" and not windows:
                continue
            means = []
            for method in METHODS:
                values = [row["mass_recall"] for row in rows if row["method"].startswith(method) and wanted(row)]
                means.append(f"{sum(values) / len(values):.2f}")
            print(f"| {length} tokens | {name} | {' | '.join(means)} |", flush=True)


def premise(model, lengths, folder):
    """QuoKA's premise by head: Pearson r of S_q and the largest attention given, at the last full chunk."""
    print(f"| {model}, r of S_q | layers | heads | median | above 0.5 | below 0 |\n|---|---|---|---|---|---|")
    for length in lengths:
        path = whole_trace(model, length, folder)
        info = json.loads(kvloupe("info", path, "--json"))
        windows = {row["layer"] for row in info["softmax"] if "window" in row}
        table = path.with_suffix(".csv")
        chunk = length // 128 - 1
        kvloupe("export", path, "--view", "layer_head_overview", "--metric", "pearson", "--goto", f"chunk={chunk}", "--csv", table)
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        for name, wanted in (("windows", lambda layer: layer in windows), ("full", lambda layer: layer not in windows)):
            values = sorted(float(row["relevance_pearson"]) for row in rows if row["relevance_pearson"] not in ("", "nan") and wanted(int(row["layer"])))
            if values:
                print(f"| {length} tokens | {name} | {len(values)} | {values[len(values) // 2]:.2f} | {sum(v > 0.5 for v in values)} "
                      f"| {sum(v < 0 for v in values)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--lengths", default="1500,4000,7500")
    parser.add_argument("--depths", default="0.2,0.5,0.8")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("out/findings"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lengths = [int(length) for length in options.lengths.split(",")]
    for model in options.models:
        premise(model, lengths, options.folder)
        print()
        recall(model, lengths, options.folder)
        print()
        needles(model, lengths, options.depths.split(","), options.folder)
        print()


main()
