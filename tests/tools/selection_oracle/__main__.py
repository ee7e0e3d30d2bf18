#!/usr/bin/env python3
"""Independent oracle of the selection methods: slow, plain, in fp64, written from the papers and the
contract, sharing no code with the program.

  selection_oracle make FOLDER        writes synthetic traces (h5py) and the expected `select` and
                                      `compare` answers as JSON: FOLDER/<name>.h5, <name>.json, <name>_lanes.json, and files that
                                      methods take: <name>_gate.safetensors, <name>_patterns.json
  selection_oracle check KVLOUPE TRACE [--layers 2,5] [SPEC...]
                                      runs the program on any trace and compares every cell
                                      (of the layers named)
  selection_oracle explain KVLOUPE TRACE [--layers 2,5] [--keys 200] [--seed 0] [--budgets] [SPEC...]
                                      draws so many keys for each SPEC, asks the program why they were kept or lost
                                      and compares; needed_budget of methods that evict only with --budgets (slow)
  selection_oracle explain-selftest TRACE [--layers 2,5] [--keys 200] [--seed 0] [SPEC...]
                                      the oracle's own explanations against whole runs with other budgets

Needs numpy and h5py. The checked-in files in tests/data/goldens were made by `make`.
"""
import json
import subprocess
import sys

import numpy as np

import explain_check
import lanes
import trained
from metrics import metrics
from run import evicts, run
from specs import SPECS, parse
from traces import Trace, write_trace


def expected(tr, spec, layers):
    method, v = parse(spec, tr)
    out = []
    for layer in layers:
        cells, alive = run(tr, spec, layer)
        chunks = []
        for c, cell in enumerate(cells):
            rows, errors = metrics(tr, v, layer, c, cell)
            chunks.append({
                "chunk": c, "dense_fallback": cell[1], "dense_reason": cell[0],
                "rows": [{"selected": r.positions, "near_ties": sorted(r.near), "forced": r.forced,
                          "mass_recall": round(m[0], 9), "topk_overlap": round(m[1], 9)}
                         for r, m in zip(cell[2], rows)],
                "output_error": [round(e, 9) for e in errors]})
        out.append({"layer": layer, "chunks": chunks,
                    "final_alive": [a.positions for a in alive] if evicts(method, v) else None})
    return out


def make(folder):
    traces = {
        "group3_f16": dict(seed=5, H=6, G=2, d=16, lengths=[32, 32, 32, 32, 21], decode=3,
                           layers=[1, 3], num_layers=4, dtype=np.float16),
        "group1_f32": dict(seed=8, H=3, G=3, d=8, lengths=[48, 48, 17], decode=0, layers=[0],
                           num_layers=1, dtype=np.float32),
    }
    for name, options in traces.items():
        path = f"{folder}/{name}.h5"
        write_trace(path, **options)
        tr = Trace(path)
        trained.write_files(tr, options["seed"])
        answer = {spec: expected(tr, spec, tr.layers) for spec in SPECS}
        near = [s for s, ls in answer.items() for l in ls for c in l["chunks"] for r in c["rows"]
                if r["near_ties"]]
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(answer, f, separators=(",", ":"))
        pruned = {spec: {str(layer): dict(zip(("chunks", "final_alive"), lanes.run(tr, spec, layer)))
                         for layer in tr.layers} for spec in lanes.SPECS}
        with open(f"{folder}/{name}_lanes.json", "w") as f:
            json.dump(pruned, f, separators=(",", ":"), default=int)
        print(name, "written; near ties in", sorted(set(near)))


def check(program, path, specs, only):
    tr, bad, cells, specs = Trace(path), 0, 0, specs or SPECS + lanes.SPECS
    layers = only or tr.layers
    for spec in specs:
        result = subprocess.run([program, "select", path, "--method", trained.spec_with_files(tr, spec), "--json"],
                                capture_output=True, text=True)
        if result.returncode != 0:
            print(spec, "FAILED:", result.stderr.strip().splitlines()[-1:])
            bad += 1
            continue
        got = {x["layer"]: x for x in json.loads(result.stdout)["layers"]}
        if lanes.is_lane_method(spec):
            for layer in layers:
                want, alive = lanes.run(tr, spec, layer)
                wrong = lanes.differences(spec, layer, want, alive, got[layer])
                print(*wrong, sep="\n", end="\n" if wrong else "")
                bad, cells = bad + len(wrong), cells + len(want)
            continue
        for want in expected(tr, spec, layers):
            bad += compare_layer(spec, want, got[want["layer"]])
            cells += len(want["chunks"])
    print(f"{cells} cells of {len(specs)} specs compared, {bad} differences")
    return bad


def compare_layer(spec, want, have):
    bad = 0
    for w, h in zip(want["chunks"], have["chunks"]):
        where = f"{spec} layer {want['layer']} chunk {w['chunk']}"
        if (w["dense_fallback"], w["dense_reason"]) != (h["dense_fallback"], h["dense_reason"]):
            print(where, "reason", w["dense_fallback"], w["dense_reason"], "got", h["dense_fallback"],
                  h["dense_reason"])
            bad += 1
        have_rows = next(h[axis] for axis in ("kv_heads", "q_heads", "subgroups") if axis in h)
        if len(w["rows"]) != len(have_rows):
            print(where, len(w["rows"]), "rows, got", len(have_rows))
            bad += 1
        for g, (x, y) in enumerate(zip(w["rows"], have_rows)):
            odd = set(x["selected"]) ^ set(y["selected"])
            if odd - set(x["near_ties"]):
                print(where, "head", g, "selected differs:", sorted(odd)[:12])
                bad += 1
            elif not odd and (abs(x["mass_recall"] - y["mass_recall"]) > 1e-4 or
                              abs(x["topk_overlap"] - y["topk_overlap"]) > 0.06):
                print(where, "head", g, "metrics", x["mass_recall"], y["mass_recall"],
                      x["topk_overlap"], y["topk_overlap"])
                bad += 1
            if w["dense_reason"] is None and x["forced"] != y["forced"]:
                print(where, "head", g, "forced", x["forced"], y["forced"])
                bad += 1
    if want["final_alive"] is not None:
        for g, (x, y) in enumerate(zip(want["final_alive"], have["final_alive"])):
            if x != y["positions"]:
                print(spec, "final_alive", g, "differs")
                bad += 1
    elif "final_alive" in have and have["final_alive"]:
        print(spec, "has a final_alive that it should not have")
        bad += 1
    return bad


def option(arguments, name, default, read):
    """Takes an option and its value out of the arguments."""
    if name not in arguments:
        return default
    at = arguments.index(name)
    value = read(arguments[at + 1])
    del arguments[at:at + 2]
    return value


def main(arguments):
    only = option(arguments, "--layers", None, lambda text: [int(x) for x in text.split(",")])
    keys, seed = option(arguments, "--keys", 200, int), option(arguments, "--seed", 0, int)
    budgets = "--budgets" in arguments
    arguments = [x for x in arguments if x != "--budgets"]
    if arguments[:1] == ["make"] and len(arguments) == 2:
        make(arguments[1])
        return 0
    if arguments[:1] == ["check"] and len(arguments) >= 3:
        return check(arguments[1], arguments[2], arguments[3:], only)
    if arguments[:1] == ["explain"] and len(arguments) >= 3:
        path = arguments[2]
        return explain_check.check(arguments[1], path, Trace(path), arguments[3:], only, keys, seed, budgets)
    if arguments[:1] == ["explain-selftest"] and len(arguments) >= 2:
        return explain_check.selftest(Trace(arguments[1]), arguments[2:], only, keys, seed)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
