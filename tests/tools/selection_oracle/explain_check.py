"""Holds the program's `explain` against the oracle's on keys drawn at random, and the oracle against itself."""
import json
import subprocess
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import explain
import lanes
import run
import trained
from explain import ANY
from specs import SPECS, parse

# Beside the SPECs of the goldens: other ways to lower a mask, and draws.
MORE_SPECS = [
    "flash_prefill:block_size=4,alpha=0.9,sink_blocks=1,window_blocks=1,lowering=native",
    "xattention:block_size=6,stride=3,tau=0.25,lowering=native",
    "flex_prefill:block_size=8,gamma=0.2,tau=1,min_budget=8,lowering=native",
    "seer_attention:block_size=8,threshold=0.1,gate=@gate.safetensors,lowering=native",
    "minference:config=@patterns.json,lowering=native",
    "random:budget_tokens=24",
]
KEYS_PER_CELL = 8


def explainer(tr, spec, masses):
    return explain.Explainer(tr, *parse(spec, tr), masses)


def row_option(tr, rows, row):
    """As the program names a row: by its KV head, or by a query head that it speaks for."""
    return ["--kv-head", str(row)] if rows == tr.G else ["--q-head", str(row * (tr.H // rows))]


def draw(e, rng, layers, keys):
    """(layer, chunk, row, key), by cells: half of them keys of much true mass that the method lost."""
    out, chunks = [], [c for c in range(len(e.tr.chunks)) if len(e.candidates(c))]
    cells = sorted((int(rng.choice(layers)), int(rng.choice(chunks))) for _ in range(-(-keys // KEYS_PER_CELL)))
    for layer, chunk in cells:
        e.forget(layer, chunk)
        for n in range(min(KEYS_PER_CELL, keys - len(out))):
            row, candidates = int(rng.integers(e.rows)), e.candidates(chunk)
            key = int(rng.choice(candidates))
            if n % 2 == 0 and (lost := heavy_losses(e, layer, chunk, row)):
                key = int(rng.choice(lost))
            out.append((layer, chunk, row, key))
    return out


def heavy_losses(e, layer, chunk, row):
    if e.method == "random":
        return []
    reason, rows = e.cell(layer, chunk)
    truth = e.truth(layer, chunk, row)
    lost = [] if reason is not None else np.setdiff1d(truth.positions, rows[row].positions)
    return sorted(lost, key=lambda j: -truth.scores[truth.at[int(j)]])[:16]


def ask(program, path, spec, rows, tr, at, more=()):
    layer, chunk, row, key = at
    command = [program, "explain", path, "--method", spec, "--layer", str(layer), "--chunk", str(chunk),
               *row_option(tr, rows, row), "--key", str(key), "--json", *more]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return f"exit {result.returncode}: {(result.stderr.strip().splitlines() or [''])[-1]}"
    return json.loads(result.stdout)


def text(want):
    return "any" if want is ANY else "null" if want is None else str(want)


def number_differs(want, have):
    if want is ANY:
        return False
    if want is None or have is None:
        return want is not None or have is not None
    return abs(want[0] - have) > want[1] + 1e-12


def rank_differs(want, have):
    if want is ANY:
        return False
    if want is None or have is None:
        return want is not None or have is not None
    return not want[0] <= have <= want[1]


def differences(want, have):
    """[(field, expected, got)]; the stages that the definitions leave open are no difference."""
    out = []
    if want["kept"] != have["kept"]:
        out.append(("kept", want["kept"], have["kept"]))
    for name in "score", "cut", "margin", "true_mass":
        if number_differs(want[name], have[name]):
            out.append((name, text(want[name]), have[name]))
    if None not in (have["margin"], have["score"], have["cut"]):
        apart = have["score"] - have["cut"]  # of two fp32 numbers
        if abs(have["margin"] - apart) > 1e-6 * max(abs(have["score"]), abs(have["cut"])):
            out.append(("margin", f"score - cut = {apart}", have["margin"]))
    for name in "rank", "true_rank":
        if rank_differs(want[name], have[name]):
            out.append((name, text(want[name]), have[name]))
    if want["candidates"] != have["candidates"]:
        out.append(("candidates", want["candidates"], have["candidates"]))
    needed = want["needed_budget"]
    if needed is not ANY and have["needed_budget"] not in ([None] if needed is None else needed):
        out.append(("needed_budget", text(needed)[:60], have["needed_budget"]))
    return out + stage_differences(want, have)


def stage_differences(want, have):
    got = {s["stage"]: s["passed"] for s in have["stages"]}
    if have["kept"]:
        failed = [name for name, passed in got.items() if passed is False]
        out = [("stages of a kept key", "all passed", failed)] if failed else []
        return out + ([("lost_at", None, have["lost_at"])] if have["lost_at"] is not None else [])
    if want["kept"] is not False:
        return []
    out, stages = [], want["stages"]
    for name in {**stages, **got}:
        if name in want["optional"] and name not in got:
            continue
        expected, passed = stages.get(name, "no such stage"), got.get(name, "no such stage")
        if expected is not None and expected != passed:
            out.append((f"stage {name}", f"passed {expected}", passed))
    if list(got) != [s for s in explain.STAGES if s in got]:
        out.append(("order of stages", explain.STAGES, list(got)))
    allowed = [n for n in want["lost_at"] if n in got or n not in want["optional"]]
    if not out and have["lost_at"] not in allowed:
        out.append(("lost_at", want["lost_at"], have["lost_at"]))
    return out


def is_open(want):
    """Whether a near tie leaves something of the answer open."""
    return want["kept"] is None or want["score"] is ANY or None in want["stages"].values()


class Lanes:
    """Lane methods, a row for each KV head: every key is read, except what AQUA-H2O has evicted."""
    method = "lanes"

    def __init__(self, tr, spec, masses):
        self.tr, self.spec, self.rows, self.sets = tr, spec, tr.G, {}
        self.dense = explainer(tr, "dense", masses)
        self.candidates, self.truth = self.dense.candidates, self.dense.truth

    def forget(self, layer, chunk):
        pass

    def alive(self, layer):
        if layer not in self.sets:
            self.sets[layer] = lanes.passes(self.tr, self.spec, layer)[1]
        return self.sets[layer]

    def cell(self, layer, chunk):
        if "aqua_h2o" in self.spec:
            return None, self.alive(layer)[chunk]
        return None, [run.Choice(self.candidates(chunk)) for _ in range(self.rows)]

    def answer(self, layer, chunk, row, key):
        out = explain.answer(self.dense, layer, chunk, row, key, False)
        if "aqua_h2o" not in self.spec:
            return out
        cuts = [sets[row] for sets in self.alive(layer)[1:chunk + 1]]
        cut = explain.last_cut(cuts, key)
        choice = self.cell(layer, chunk)[1][row]
        kept = None if choice.doubt or key in choice.near else key in choice.positions
        return {**out, **explain.with_margin(*self.dense.numbers(cut, key)), "kept": kept,
                "stages": {"evicted": False} if kept is False else {},
                "lost_at": ["evicted"] if kept is False else [None]}


def answer_random(e, at, have):
    """What must hold whatever was drawn: the program's score and cut are taken from its answer."""
    layer, chunk, row, key = at
    truth, n = e.truth(layer, chunk, row), have["rank"]
    begin = e.tr.chunks[chunk][0]
    budget = run.budget(e.v, begin)
    dense = begin <= budget
    kept = dense or n is not None and n <= budget
    given = lambda x: None if dense else (x, 1e-4 * abs(x))
    return {"kept": kept, "candidates": begin, "score": given(have["score"]), "cut": given(have["cut"]),
            "margin": None if dense else (have["score"] - have["cut"], 1e-5), "rank": None if dense else (n, n),
            "true_mass": (truth.scores[truth.at[key]], 1e-4 * truth.scores[truth.at[key]]),
            "true_rank": truth.ranks(key), "needed_budget": ANY if dense else [n],
            "stages": {} if kept else {"budget": False}, "optional": set(), "lost_at": [None] if kept else ["budget"]}


def check(program, path, tr, specs, layers, keys, seed, budgets):
    compared = opened = bad = 0
    masses, layers = {}, layers or tr.layers
    for spec in specs or SPECS + MORE_SPECS + lanes.SPECS:
        is_lane = lanes.is_lane_method(spec)
        e = Lanes(tr, spec, masses) if is_lane else explainer(tr, spec, masses)
        places = draw(e, np.random.default_rng([seed, zlib.crc32(spec.encode())]), layers, keys)
        canonical = trained.spec_with_files(tr, spec)
        # The program would try all budgets.
        more = ["--no-budget"] if not budgets and not is_lane and run.evicts(*parse(spec, tr)) else []
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda at: ask(program, path, canonical, e.rows, tr, at, more), places))
        wrong, undecided, absent = 0, 0, Counter()
        for at, have in zip(places, answers):
            e.forget(*at[:2])
            where = "{} layer {} chunk {} row {} key {}".format(spec, *at)
            if isinstance(have, str):
                wrong += 1
                print(where, have)
                continue
            want = e.answer(*at) if is_lane else answer_random(e, at, have) if e.method == "random" else \
                explain.answer(e, *at, budgets)
            undecided += is_open(want)
            if want["kept"] is None:
                continue
            names = {s["stage"] for s in have["stages"]}
            absent.update(name for name in want["optional"] if want["kept"] is False and name not in names)
            for field, expected, got in differences(want, have):
                wrong += 1
                print(f"{where}: {field} expected {text(expected)} got {got}", flush=True)
        compared, opened, bad = compared + len(places), opened + undecided, bad + wrong
        note = "".join(f"; {n} answers without the stage {name}" for name, n in absent.items())
        print(f"{spec}: {len(places)} keys, {undecided} with near ties, {wrong} differences{note}", flush=True)
    print(f"{compared} keys compared, {opened} with near ties, {bad} differences")
    return bad


def selftest(tr, specs, layers, keys, seed):
    """The explanation against whole runs of the selection: kept, and kept first at needed_budget."""
    bad = done = 0
    for spec in specs or SPECS + [s for s in MORE_SPECS if not s.startswith("random")]:
        e, runs = explainer(tr, spec, {}), {}
        method, v = parse(spec, tr)
        for layer, chunk, row, key in draw(e, np.random.default_rng(seed), layers or tr.layers, keys):
            want = explain.answer(e, layer, chunk, row, key, True)

            def kept_with(b):
                if (layer, b) not in runs:
                    head, _, rest = spec.partition(":")
                    items = [x for x in rest.split(",") if x and not x.startswith("budget_tokens") and
                             not x.startswith("budget_ratio")]
                    changed = spec if b is None else head + ":" + ",".join([f"budget_tokens={b}", *items])
                    runs[layer, b] = run.run(tr, changed, layer)[0]
                reason, _, rows = runs[layer, b][chunk]
                return reason is not None or key in rows[row].positions

            found = []
            if want["kept"] is not None and want["kept"] != kept_with(None):
                found.append("kept")
            needed = want["needed_budget"]
            if needed is not None and len(needed) == 1:
                if not kept_with(needed[0]) or needed[0] > 1 and kept_with(needed[0] - 1):
                    found.append(f"needed_budget {needed}")
            if want["kept"] is False and not want["lost_at"]:
                found.append("lost nowhere")
            done, bad = done + 1, bad + len(found)
            for what in found:
                print(spec, "layer", layer, "chunk", chunk, "row", row, "key", key, "differs in", what)
    print(f"{done} keys, {bad} differences from whole runs")
    return bad
