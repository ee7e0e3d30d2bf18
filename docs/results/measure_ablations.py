#!/usr/bin/env python3
"""Measures what docs/results.md says of QuoKA's three choices, head by head: writes every number as CSV and prints Markdown tables.

    docs/results/measure_ablations.py [--model smollm2] [--raw] [--folder out/ablations] [--csv assets/results/smollm2_ablations.csv]

Run from the repository's root. Needs nothing but Python, and 1 GB of disk in the folder. Traces that exist are not captured again.
A difference is QuoKA less the variant, so above 0 QuoKA's choice has more. Each text gives one difference.
"""
import argparse
import csv
import math
import os
import pathlib
import statistics
import subprocess

PROGRAM = os.environ.get("KVLOUPE", "./kvloupe.sh")
TEXTS = {f"{kind}{seed}": task.format(seed=seed, depth=seed / 5) for seed in (1, 2, 3, 4) for kind, task in (
    ("needle", "niah:length=2048,depth={depth},seed={seed}"), ("novel", "perplexity:length=2048,seed={seed}"))}
VARIANTS = {"quoka": "quoka:budget_tokens={}", "uniform_queries": "uniform_queries:budget_tokens={}",
            "dot": "quoka:budget_tokens={},metric=dot", "mean": "quoka:budget_tokens={},query_reduce=mean"}
BUDGETS = (256, 64)


def student_t(tests=1):
    """What Student's t with 7 degrees of freedom exceeds, on both sides together, with probability 0.05 / tests (Bonferroni)."""
    def inside(t):  # the integral of its density from -t to t
        angle = math.atan(t / math.sqrt(7))
        near = math.cos(angle)
        return (angle + math.sin(angle) * (near + 2 / 3 * near ** 3 + 8 / 15 * near ** 5)) * 2 / math.pi
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 1 - 0.05 / tests else (low, middle)
    return low


T_95 = student_t()


def kvloupe(*arguments):
    words = [PROGRAM, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")


def measure(model, raw, folder):
    """A row for each budget, text, layer, KV head and variant."""
    rows = []
    for text, task in TEXTS.items():
        trace = folder / f"{text}.h5"
        if not trace.exists():
            kvloupe("capture", "--model", model, "--task", task, *(["--raw"] if raw else []), "--store", "qkv", "--quiet", "-o", trace)
        for budget in BUDGETS:
            table = folder / f"{text}-{budget}.csv"
            specs = [word for spec in VARIANTS.values() for word in ("--method", spec.format(budget))]
            kvloupe("compare", trace, *specs, "--scope", "layer,kv_head", "--cells", "common", "--quiet", "--force", "--csv", table)
            with open(table, newline="") as file:
                found = [row for row in csv.DictReader(file) if row["scope"] == "layer,kv_head" and row["phase"] == "prefill"]
            methods = list(dict.fromkeys(row["method"] for row in found))  # in the order of VARIANTS
            for row in found:
                layer, head = row["index"].split(",")
                rows.append({"budget": budget, "text": text, "layer": int(layer), "kv_head": int(head),
                             "variant": list(VARIANTS)[methods.index(row["method"])],
                             "mass_recall": f"{float(row['mass_recall']):.6f}", "output_error": f"{float(row['output_error']):.6f}"})
    return rows


def interval(differences, t=T_95):
    mean = statistics.mean(differences)
    half = t * statistics.stdev(differences) / len(differences) ** 0.5
    return mean, mean - half, mean + half


def proved(differences, t=T_95):
    """1 where the interval lies above 0, -1 where below, else 0."""
    _, low, high = interval(differences, t)
    return (low > 0) - (high < 0)


def written(differences):
    return "{:+.4f} ({:+.4f} to {:+.4f})".format(*interval(differences))


def report(rows):
    value = {(row["budget"], row["text"], row["layer"], row["kv_head"], row["variant"]): row for row in rows}
    pairs = sorted({(row["layer"], row["kv_head"]) for row in rows})
    layers = sorted({layer for layer, _ in pairs})

    def differences(number, budget, variant, where):
        """One of each text: the mean over the pairs of layer and KV head."""
        def mean(text, name):
            return statistics.mean(float(value[budget, text, *pair, name][number]) for pair in where)
        return [mean(text, "quoka") - mean(text, variant) for text in TEXTS]

    for budget in BUDGETS:
        print(f"\nbudget {budget}: means over all layers and heads, and QuoKA less the variant\n")
        print("| variant | mass recall | difference, 95 % | needles | novel | texts above 0 | output error | difference, 95 % |\n" + "|---" * 8 + "|")
        for name in VARIANTS:
            means = [statistics.mean(float(row[number]) for row in rows if (row["budget"], row["variant"]) == (budget, name))
                     for number in ("mass_recall", "output_error")]
            mass = differences("mass_recall", budget, name, pairs)
            kinds = [statistics.mean(d for d, text in zip(mass, TEXTS) if text.startswith(kind)) for kind in ("needle", "novel")]
            print(f"| {name} | {means[0]:.4f} | " + (f" | | | | {means[1]:.4f} | |" if name == "quoka" else
                  f"{written(mass)} | {kinds[0]:+.4f} | {kinds[1]:+.4f} | {sum(d > 0 for d in mass)} of {len(mass)} | {means[1]:.4f} | "
                  f"{written(differences('output_error', budget, name, pairs))} |"))
        for what, places in (("layers", [[p for p in pairs if p[0] == layer] for layer in layers]), ("layer x KV head", [[p] for p in pairs])):
            print(f"\nbudget {budget}, {len(places)} {what}\n\n| variant | number | QuoKA more | less | neither | of all tests together: more | less |"
                  + "\n" + "|---" * 7 + "|")
            for name in list(VARIANTS)[1:]:
                for number in ("mass_recall", "output_error"):
                    signs = [proved(differences(number, budget, name, where)) for where in places]
                    sure = [proved(differences(number, budget, name, where), student_t(len(places))) for where in places]
                    print(f"| {name} | {number} | {signs.count(1)} | {signs.count(-1)} | {signs.count(0)} "
                          f"| {sure.count(1)} | {sure.count(-1)} |")
        print(f"\nbudget {budget}, mass recall by pair (layer.head), the largest first\n")
        for name in list(VARIANTS)[1:]:
            of_pair = {pair: differences("mass_recall", budget, name, [pair]) for pair in pairs}
            for sign, word in ((1, "more"), (-1, "less")):
                sure = sorted((p for p in pairs if proved(of_pair[p]) == sign), key=lambda p: -sign * statistics.mean(of_pair[p]))
                print(f"- {name}, QuoKA {word}:", ", ".join(f"{p[0]}.{p[1]} {statistics.mean(of_pair[p]):+.3f}" for p in sure) or "none")
            means = sorted(statistics.mean(of_pair[pair]) for pair in pairs)
            print(f"- {name}, the ten largest losses by the sum over all pairs: {sum(means[:10]) / sum(means):.2f}")
    print("\nmass recall, QuoKA more with every budget (in bold also of all pairs together)\n")
    for name in list(VARIANTS)[1:]:
        def always(t):
            return {pair for pair in pairs if all(proved(differences("mass_recall", budget, name, [pair]), t) == 1 for budget in BUDGETS)}
        sure = always(student_t(len(pairs)))
        print(f"- {name}:", ", ".join(f"**{p[0]}.{p[1]}**" if p in sure else f"{p[0]}.{p[1]}" for p in sorted(always(T_95))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--raw", action="store_true", help="of a model without a chat template")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("out/ablations"))
    parser.add_argument("--csv", type=pathlib.Path, default=pathlib.Path("assets/results/smollm2_ablations.csv"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = measure(options.model, options.raw, options.folder)
    with open(options.csv, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


main()
