#!/usr/bin/env python3
"""page.py OUT   writes OUT/page.md from what run.sh left in OUT."""
import json
import pathlib
import sys


def table(header, rows):
    return ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)] + rows


def times(columns, rows):
    words = {"floor_ms": "floor, ms", "megabytes": "MB", "gflop": "GFLOP", "tflop_per_s": "TFLOP/s"}
    return table([words.get(name, name) for name in columns],
                 ["| " + " | ".join(str(row[name]) for name in columns) + " |" for row in rows])


def kernels(facts):
    lines = [f"# CUDA kernels on {facts['device']}"]
    lines += table(("case", "type", "query heads", "KV heads", "chunk", "past", "dim", "output", "lse", "key mass",
                    "of what is tolerated", "same bits", "right"),
                   ["| {case} | {type} | {q_heads} | {kv_heads} | {chunk_len} | {past} | {dim} | {output:.2g} | {lse:.2g} | {key_mass:.2g} "
                    "| {of_tolerated:.2g} | {same_bits} | {right} |".format(**row) for row in facts["attention"]])
    if "attention_times" in facts:
        lines += ["", "32 query and 8 KV heads of 128 after 30,720 keys. Medians of 20, L2 overwritten between. The floor is by the clocks that "
                  "the device names, of 16-bit types by the peak of its tensor cores."]
        lines += times(("case", "type", "ms", "floor_ms", "gflop", "tflop_per_s", "megabytes"), facts["attention_times"])
    lines += table(("kernel", "type", "shape", "error, in parts of what is tolerated", "same bits", "those of fp32", "right"),
                   ["| {kernel} | {type} | {shape} | {error:.2g} | {same_bits} | {bits_of_fp32} | {right} |".format(**row)
                    for row in facts["selection"] + facts["probabilities"]])
    if "selection_times" in facts:
        lines += ["", "8 KV heads of 128, 30,720 keys unless said otherwise, groups of 4. Medians of 20, L2 overwritten between. The floor is "
                  "the time of a copy on this GPU that moves as many bytes."]
        lines += times(("kernel", "type", "ms", "floor_ms", "megabytes"), facts["selection_times"])
    if "probability_times" in facts:
        lines += ["", "8 KV heads. The floor is the time of a copy on this GPU that moves as many bytes; most of these are bound by their "
                  "products."]
        lines += times(("kernel", "type", "ms", "floor_ms", "megabytes", "gflop", "tflop_per_s"), facts["probability_times"])
    return lines


def sanitizers(details):
    last = lambda path: (path.read_text().strip().splitlines() or ["said nothing"])[-1]
    return [f"\n{tool}: {last(details / f'{tool}.txt')}" for tool in ("racecheck", "memcheck", "synccheck", "initcheck")
            if (details / f"{tool}.txt").exists()]


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def tests(details):
    lines = []
    for path in sorted(details.glob("test_*.txt")):
        found = read(path.with_suffix(".json"))
        if not found:
            last = (path.read_text().strip().splitlines() or ["it said nothing"])[-1]
            lines.append(f"| {path.stem} | did not finish: {last} | | |")
            continue
        skipped = sum(case.get("result") == "SKIPPED" for suite in found["testsuites"] for case in suite["testsuite"])
        lines.append(f"| {path.stem} | {found['tests'] - skipped} | {found['failures']} | {skipped} |")
    return table(("test", "ran", "failed", "skipped"), lines) if lines else []


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def latencies(details):
    lines = []
    for path in sorted(details.glob("latency*.json")):
        found = read(path)
        rows = [f"| {row['method']} | {row['past']:,} | {row['chunk_len']} | {number(row['total_ms'], 3)} | {number(row['parts']['select'], 3)} "
                f"| {number(row['dense_ms'], 3)} | {row['dense_variant']} | {row.get('dense_reason') or number(row.get('speedup'), 2)} "
                f"| {number(row['floor_ms'], 4)} |" for row in found.get("rows", [])]
        if rows:
            lines += ["", f"`latency` on {found['device_name']}, {found['dtype']}."]
            lines += table(("method", "past keys", "queries", "ms", "of it selection", "dense, ms", "dense by", "dense / method", "floor, ms"),
                           rows)
    return lines


def benches(details):
    lines = []
    for name in ("bench", "paged"):
        rows = read(details / f"{name}.json").get("rows", [])
        cells = [f"| {row['id']} | {row['value']:.2f} {row.get('unit', '')} | {number(row.get('median_ms'), 3)} "
                 f"| {row.get('details', {}).get('dense_variant', '')} |" for row in rows if row.get("value") is not None]
        lines += table((f"row of `bench`, {name}", "dense / method", "ms", "dense by"), cells) if cells else []
    return lines


def main():
    out = pathlib.Path(sys.argv[1])
    details = out / "details"
    facts = read(out / "kernels.json")
    lines = kernels(facts) if facts else ["# CUDA kernels", "", "kernels.json is not whole: see kernels.txt in details.tar.gz"]
    lines += sanitizers(details) + tests(details) + latencies(details) + benches(details)
    (out / "page.md").write_text("\n".join(lines) + "\n")


main()
