#!/usr/bin/env python3
"""page.py OUT   writes OUT/page.md from what the steps of run.sh left in OUT/details, whatever that is.

Exits 1 where the page names a step that did not go well, or a result that is missing or wrong."""
import csv
import json
import pathlib
import re
import sys

problems = []  # a line for each that makes the kit fail


def table(header, rows):
    return ["", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)] + rows


def row_of(*cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def times(columns, rows):
    words = {"floor_ms": "floor, ms", "megabytes": "MB", "gflop": "GFLOP", "tflop_per_s": "TFLOP/s"}
    return table([words.get(name, name) for name in columns], [row_of(*(row[name] for name in columns)) for row in rows])


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else "it said nothing"


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def steps(details):
    """The name of each step, in the order in which they ended, and what became of it."""
    paths = sorted(details.glob("*.exit"), key=lambda path: (path.stat().st_mtime, path.name))
    return {path.stem: path.read_text().strip() for path in paths}


def judge(details):
    """The steps that did not end with 0: problems, and lines on those that were left out. And how many ended well."""
    found, left_out = steps(details), []
    for name, outcome in found.items():
        said = last_line(details / f"{name}.txt")
        if outcome == "left out":
            left_out.append(f"- `{name}` was left out: {said}")
        elif outcome != "0":
            words = {"124": "ran past its time (124)"}.get(outcome, f"exit {outcome}" if outcome.isdigit() else outcome)
            problems.append(f"- `{name}`: {words}: {said}")
    if not found:
        problems.append("- no step was begun")
    return left_out, f"{sum(outcome == '0' for outcome in found.values())} of {len(found)} steps ended well."


def kernels(details):
    facts = read(details / "kernels.json")
    if not facts:
        return []
    lines = ["", f"## Kernels on {facts['device']}"]
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
    said = [f"- `{name}`: {last_line(details / f'{name}.txt')}" for name in ("racecheck", "memcheck", "synccheck", "initcheck")
            if (details / f"{name}.exit").exists()]
    return ["", "## compute-sanitizer", ""] + said if said else []


def tests(details):
    rows = []
    for name in sorted(steps(details)):
        found = read(details / f"{name}.json")
        if not name.startswith("test_") or not found:
            continue
        cases = [case for suite in found["testsuites"] for case in suite["testsuite"]]
        skipped = sum(case.get("result") == "SKIPPED" for case in cases)
        if skipped == found["tests"]:
            problems.append(f"- `{name}` skipped all of its tests")
        ties = sum(int(case.get("cells_at_cut", 0)) for case in cases)
        rows.append(row_of(name, found["tests"] - skipped, found["failures"], skipped, ties))
    return ["", "## The program against the CPU"] + table(
        ("test", "ran", "failed", "skipped", "cells that differ in ties at the cut"), rows) if rows else []


def parts(counts):
    return "-" if counts is None else " + ".join(str(counts[part]) for part in ("select", "gather", "attend"))


def latencies(details):
    lines = []
    for name in steps(details):
        found = read(details / f"{name}.json") if name.startswith("latency") else {}
        if not found:
            continue
        lines += ["", f"## `{name}` on {found['device_name']}, {found['dtype']}"]
        lines += table(("method", "past keys", "queries", "ms", "of it selection", "dense, ms", "dense by", "dense / method", "floor, ms"),
                       [row_of(row["method"], f"{row['past']:,}", row["chunk_len"], number(row["total_ms"], 3),
                               number(row["parts"]["select"], 3), number(row["dense_ms"], 3), row["dense_variant"],
                               row.get("dense_reason") or number(row.get("speedup"), 2), number(row["floor_ms"], 4))
                        for row in found["rows"]])
        lines += ["", "What the host does for one cell, for selection + gathering + attention:"]
        lines += table(("method", "past keys", "launches", "waits for the device"),
                       [row_of(row["method"], f"{row['past']:,}", parts(row.get("launches")), parts(row.get("host_waits")))
                        for row in found["rows"]])
        lines += [""] * bool(found.get("unavailable")) + [f"- {one['method']}: {one['reason']}" for one in found.get("unavailable", [])]
    return lines


def benches(details):
    lines = []
    for name in ("bench", "paged"):
        found = read(details / f"{name}.json")
        if not found:
            continue
        count = lambda value: "-" if value is None else f"{value:g}"
        lines += ["", f"## `{name}`"]
        lines += table(("row", "dense / method", "ms", "dense by", "launches", "waits for the device"),
                       [row_of(row["id"], row.get("reason", "-") if row.get("value") is None else f"{row['value']:.2f} {row.get('unit', '')}",
                               number(row.get("median_ms"), 3), row.get("details", {}).get("dense_variant", ""), count(row.get("launches")),
                               count(row.get("host_waits"))) for row in found["rows"]])
    return lines


def kernel_name(text):
    """Without the namespaces, the result, the arguments and the types of template numbers."""
    text = re.sub(r"\((?:anonymous namespace|unnamed)\)::|<unnamed>::|\w+::", "", text)
    text = re.sub(r"\([\w ]+\)(?=-?\w)", "", text)
    return re.sub(r"^\w+ (?=\w)", "", text.split("(")[0]).strip()


def launches_of(path):
    """The numbers of each kernel launch in Nsight Compute's CSV, times in ms; what stands above its header is no part of it."""
    per_ms = {"ns": 1e6, "nsecond": 1e6, "us": 1e3, "usecond": 1e3, "ms": 1, "msecond": 1, "s": 1e-3, "second": 1e-3}
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches = {}
    for row in csv.DictReader(lines[begin:]):
        launch = launches.setdefault(row["ID"], {"kernel": kernel_name(row["Kernel Name"])})
        try:
            launch.setdefault(row["Metric Name"], float(row["Metric Value"].replace(",", "")) / per_ms.get(row["Metric Unit"], 1))
        except (AttributeError, ValueError):
            pass  # a rule's words, or a number that this GPU does not count
    return [launch for launch in launches.values() if "Duration" in launch]


def profile(details):
    if steps(details).get("profile") != "0":
        return []
    longest = {}
    for launch in sorted(launches_of(details / "profile.csv"), key=lambda launch: -launch["Duration"]):
        longest.setdefault(launch["kernel"], launch)
    if not longest:
        problems.append("- `profile` has no kernel in profile.csv")
    columns = {"Compute (SM) Throughput": "of the peak of products, %", "Memory Throughput": "of that of memory, %", "DRAM Throughput": "of DRAM's, %",
               "Registers Per Thread": "registers", "Achieved Occupancy": "occupancy, %", "Theoretical Occupancy": "possible, %"}
    rows = [row_of(launch["kernel"], number(launch["Duration"], 3), *(number(launch.get(name), 0) for name in columns))
            for launch in list(longest.values())[:5]]
    return ["", "## The five longest kernels, by Nsight Compute"] + table(("kernel", "ms", *columns.values()), rows)


def main():
    out = pathlib.Path(sys.argv[1])
    left_out, summary = judge(out / "details")
    lines = []
    for part in (kernels, sanitizers, tests, latencies, benches, profile):
        try:
            lines += part(out / "details")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problems.append(f"- what stands under `{part.__name__}` cannot be read: {error!r}")
    head = ["# The CUDA kernels and the program on a GPU", "", summary + " The end of this page names the others." * bool(problems + left_out)]
    end = ["", "## What did not go well, or was left out", "", *problems, *left_out] if problems or left_out else []
    (out / "page.md").write_text("\n".join(head + lines + end) + "\n")
    sys.exit(bool(problems))


main()
