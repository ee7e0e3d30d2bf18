#!/usr/bin/env python3
"""Makes tests/data/results/needles.h5: answers to needles that nobody computed, written by the package's own writer.

  PYTHONPATH=capture/python:<part python> python3 tests/tools/make_results.py tests/data/results/needles.h5
"""
import sys

from kvloupe.results.results_file import write_results

LENGTHS, DEPTHS, SEEDS = (512, 1024), (0, 50, 100), range(4)
# What each method keeps of the needles: dense all but one, quoka those at both ends, snapkv the last.
FINDS = {"dense": lambda length, depth, seed: not (length == 1024 and depth == 50 and seed == 3),
         "quoka:budget_tokens=64": lambda length, depth, seed: depth != 50,
         "quoka:budget_tokens=256": lambda length, depth, seed: not (depth == 50 and seed > 1),
         "snapkv:budget_tokens=64": lambda length, depth, seed: depth == 100}
BUDGETS = {"dense": -1, "quoka:budget_tokens=64": 64, "quoka:budget_tokens=256": 256, "snapkv:budget_tokens=64": 64}


def record(task, method, length, depth, seed, score, refused=""):
    sample = f"{task}/{length}/{depth}/{seed}"
    failed_trace = score == 0 and method.startswith("snapkv") and (length, depth, seed) == (512, 0, 0)
    return {"id": f"{sample}/{method}", "sample": sample, "task": task, "method": method, "answer": "4093" if score else "I do not know.",
            "expected": "4093", "refused": refused, "metrics": {"contains,none": score}, "doc": seed, "length": length, "seed": seed,
            "budget": BUDGETS[method], "prompt_tokens": max(length, 0), "direction": 1, "depth": float(depth),
            "kept": float("nan") if method == "dense" else float(BUDGETS[method]), "score": float(score), "prefill_s": 1.0, "decode_s": 0.5,
            "trace": "needles.traces/lost.h5" if failed_trace else ""}


def main():
    records = [record("kvloupe_niah", method, length, depth, seed, finds(length, depth, seed))
               for method, finds in FINDS.items() for length in LENGTHS for depth in DEPTHS for seed in SEEDS]
    for method in ("dense", "snapkv:budget_tokens=64"):
        records += [record("choices", method, -1, float("nan"), seed, seed % 2) for seed in range(4)]
    records.append(record("choices", "dense", -1, float("nan"), 4, float("nan"), "the prompt is too long"))
    plan = {}
    for each in records:
        cell = (each["task"], each["method"], each["length"], None if each["depth"] != each["depth"] else each["depth"])
        plan[cell] = plan.get(cell, 0) + 1
    write_results(sys.argv[1], {"model": "tiny-llama", "model_hash": "0" * 64, "versions": {}, "options": {}}, records, plan)


if __name__ == "__main__":
    main()
