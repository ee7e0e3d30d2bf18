#!/usr/bin/env python3
"""Independent oracle of the selection methods: slow, plain, in fp64, written from the papers and the
contract, sharing no code with the program.

  selection_oracle.py make FOLDER     writes synthetic traces (h5py) and the expected `select` and
                                      `compare` answers as JSON: FOLDER/<name>.h5, <name>.json
  selection_oracle.py check KVLOUPE TRACE [SPEC...]
                                      runs the program on any trace and compares every cell

Needs numpy and h5py. The checked-in files in tests/data/goldens were made by `make`.
"""
import json
import math
import subprocess
import sys

import h5py
import numpy as np

TIE = 1e-5  # two keys closer than this at the cut may swap (contract, "Same sets")


# ---- specs -------------------------------------------------------------------------------------
DEFAULTS = {
    "dense": {},
    "oracle": {"reduce": "sum"},
    "sliding_window": {},
    "quoka": {"num_queries": 16, "metric": "cosine", "query_reduce": "max",
              "group_query_mode": "rank_paired", "decode": "select"},
    "uniform_queries": {"num_queries": 16},
    "snapkv": {"window": 32, "kernel": 7, "pool": "max", "state": "evict"},
    "keydiff": {"state": "evict"},
    "streaming_llm": {"sink_tokens": 4, "positions": "original"},
}


def parse(spec):
    method, _, rest = spec.partition(":")
    values = {"budget_tokens": 1024, "budget_ratio": 0.0, "budget_scope": "past"}
    values.update(DEFAULTS[method])
    for item in filter(None, rest.split(",")):
        name, value = item.split("=")
        old = values[name]
        values[name] = type(old)(value)
        if name == "budget_ratio" and values[name] > 0:
            values["budget_tokens"] = 0
    return method, values


def budget(values, n):
    if values["budget_tokens"] > 0:
        return values["budget_tokens"]
    return max(1, math.floor(values["budget_ratio"] * n + 1e-9))


# ---- trace -------------------------------------------------------------------------------------
class Trace:
    def __init__(self, path):
        with h5py.File(path, "r") as f:
            m = f["model"].attrs
            self.H, self.G, self.d = int(m["num_q_heads"]), int(m["num_kv_heads"]), int(m["head_dim"])
            self.R = self.H // self.G
            self.scale = float(m["softmax_scale"])
            self.chunks = [(int(b), int(n), int(p)) for b, n, p in zip(
                f["chunks/begin"][:], f["chunks/length"][:], f["chunks/phase"][:])]
            self.layers = sorted(int(l) for l in f["layers"])
            self.q = {l: f[f"layers/{l}/q"][:].astype(np.float64) for l in self.layers}
            self.k = {l: f[f"layers/{l}/k"][:].astype(np.float64) for l in self.layers}
            self.v = {l: f[f"layers/{l}/v"][:].astype(np.float64) for l in self.layers}

    def probabilities(self, layer, begin, length, keys=None, rows=None):
        """p [H, rows, len(keys)] over the given keys, causal; keys default to all of [0, T)."""
        total = begin + length
        keys = np.arange(total) if keys is None else keys
        rows = np.arange(length) if rows is None else rows
        out = np.zeros((self.H, len(rows), total if keys is None else self._len(keys)))
        for h in range(self.H):
            own = keys[h // self.R] if isinstance(keys, list) else keys
            z = self.scale * self.q[layer][h, begin + rows] @ self.k[layer][h // self.R, own].T
            z[own[None, :] > (begin + rows)[:, None]] = -np.inf
            z -= z.max(axis=1, keepdims=True)
            e = np.exp(z)
            out[h, :, :len(own)] = e / e.sum(axis=1, keepdims=True)
        return out

    @staticmethod
    def _len(keys):
        return max(len(k) for k in keys) if isinstance(keys, list) else len(keys)


def cos(a, b, eps):
    na = np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), eps)
    nb = np.maximum(np.linalg.norm(b, axis=-1, keepdims=True), eps)
    return (a / na) @ (b / nb).T


def rank(scores, positions, forced=()):
    order = sorted(range(len(positions)),
                   key=lambda i: (positions[i] not in forced, -scores[i], positions[i]))
    return [positions[i] for i in order]


class Choice:
    """Kept positions with the margin at the cut, so that a near tie is not called a difference."""

    def __init__(self, positions, near=(), forced=0):
        self.positions = sorted(int(p) for p in positions)
        self.near = set(int(p) for p in near)
        self.forced = forced


def choose(scores, positions, n, forced=(), relative_to_spread=False):
    ranked = rank(scores, list(positions), set(forced))
    kept = ranked[:n]
    by_pos = dict(zip(positions, scores))
    near = ()
    if 0 < n < len(ranked):
        cut = by_pos[ranked[n - 1]]
        size = max(abs(cut), np.std(scores)) if relative_to_spread else abs(cut)
        # Exact ties (max pooling makes them) are decided by position, so they are no excuse.
        close = [p for p in positions if p not in forced and abs(by_pos[p] - cut) <= TIE * size]
        near = close if any(by_pos[p] != cut for p in close) else ()
    return Choice(kept, near, sum(p in set(forced) for p in kept))


# ---- methods -----------------------------------------------------------------------------------
def score_oracle(tr, layer, begin, length, v):
    p = tr.probabilities(layer, begin, length).reshape(tr.G, tr.R, length, -1)
    return p.max(axis=(1, 2)) if v["reduce"] == "max" else p.sum(axis=(1, 2))


def top_rows(values, n):
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:n]


def score_quoka(tr, layer, begin, length, v):
    q = tr.q[layer][:, begin:begin + length]
    k = tr.k[layer][:, :begin + length]
    n, eps = min(v["num_queries"], length), 1e-6
    s_q = np.zeros((tr.H, length))
    for h in range(tr.H):
        mean = q[h].mean(axis=0)
        for i in range(length):
            na, nb = max(np.linalg.norm(mean), eps), max(np.linalg.norm(q[h, i]), eps)
            s_q[h, i] = -(mean @ q[h, i]) / (na * nb)
    reduce = np.max if v["query_reduce"] == "max" else np.mean
    out = np.zeros((tr.G, begin + length))
    for g in range(tr.G):
        heads = range(g * tr.R, (g + 1) * tr.R)
        group_mean = s_q[g * tr.R:(g + 1) * tr.R].mean(axis=0)
        picked = {}
        for h in heads:
            if v["num_queries"] >= length:
                picked[h] = list(range(length))
            else:
                by = group_mean if v["group_query_mode"] == "shared_tokens" else s_q[h]
                picked[h] = top_rows(by, n)
        # The dot metric scores raw queries against raw keys; the choice of rows stays the cosine's.
        unit = {h: np.array([q[h, i] / (max(np.linalg.norm(q[h, i]), eps)
                                        if v["metric"] == "cosine" else 1.0) for i in picked[h]])
                for h in heads}
        keys = k[g] / np.maximum(np.linalg.norm(k[g], axis=1, keepdims=True), eps) \
            if v["metric"] == "cosine" else k[g]
        if v["group_query_mode"] == "post_agg":
            out[g] = np.mean([reduce(unit[h] @ keys.T, axis=0) for h in heads], axis=0)
        else:
            out[g] = reduce(np.mean([unit[h] for h in heads], axis=0) @ keys.T, axis=0)
    return out


def score_uniform(tr, layer, begin, length, v):
    n = v["num_queries"]
    rows = list(range(length)) if n >= length else [((2 * i + 1) * length) // (2 * n) for i in range(n)]
    out = np.zeros((tr.G, begin + length))
    for g in range(tr.G):
        mean = np.zeros((len(rows), tr.d))
        for h in range(g * tr.R, (g + 1) * tr.R):
            q = tr.q[layer][h, begin + np.array(rows)]
            mean += q / np.maximum(np.linalg.norm(q, axis=1, keepdims=True), 1e-6) / tr.R
        k = tr.k[layer][g, :begin + length]
        out[g] = (mean @ (k / np.maximum(np.linalg.norm(k, axis=1, keepdims=True), 1e-6)).T).max(axis=0)
    return out


def pool(x, kernel, kind):
    pad, n = kernel // 2, len(x)
    out = np.zeros(n)
    for i in range(n):
        window = [x[j] for j in range(i - pad, i + pad + 1) if 0 <= j < n]
        out[i] = max(window) if kind == "max" else sum(window) / kernel
    return out


def snapkv_votes(tr, layer, begin, length, v, keys_by_g, scored_by_g):
    """Per KV head the pooled votes of `scored` keys (a prefix of the attended keys)."""
    w = min(v["window"], length)
    rows = np.arange(length - w, length)
    out = []
    for g in range(tr.G):
        keys, scored = keys_by_g[g], scored_by_g[g]
        votes = []
        for h in range(g * tr.R, (g + 1) * tr.R):
            z = tr.scale * tr.q[layer][h, begin + rows] @ tr.k[layer][g, keys].T
            z[keys[None, :] > (begin + rows)[:, None]] = -np.inf
            e = np.exp(z - z.max(axis=1, keepdims=True))
            p = e / e.sum(axis=1, keepdims=True)
            votes.append(pool(p.sum(axis=0)[np.isin(keys, scored)], v["kernel"], v["pool"]))
        out.append(np.mean(votes, axis=0))
    return out


def keydiff_score(tr, layer, g, keys):
    k = tr.k[layer][g, keys]
    unit = k / np.maximum(np.linalg.norm(k, axis=1, keepdims=True), 1e-12)
    mu = unit.mean(axis=0)
    return -np.array([mu @ x / (max(np.linalg.norm(mu), 1e-8) * max(np.linalg.norm(x), 1e-8)) for x in k])


def evict(method, tr, layer, begin, length, v, alive, g):
    total = begin + length
    n = budget(v, total)
    keys = np.array(sorted(set(alive) | set(range(begin, total))))
    if len(keys) <= n:
        return Choice(keys)
    if method == "keydiff":
        return choose(keydiff_score(tr, layer, g, keys), list(keys), n, relative_to_spread=True)
    if method == "streaming_llm":
        if n <= v["sink_tokens"]:
            return Choice(keys[:n], forced=n)
        sinks = [p for p in keys if p < v["sink_tokens"]]
        recent = [p for p in keys if p >= v["sink_tokens"]][-(n - len(sinks)):]
        return Choice(sinks + recent, forced=len(sinks + recent))
    w = min(v["window"], length)
    if n <= w:
        return Choice(keys[-n:], forced=n)
    window = list(range(total - w, total))
    rest = np.array([p for p in keys if p < total - w])
    lists = [keys if i == g else np.array([0]) for i in range(tr.G)]
    scored = [rest if i == g else np.array([0]) for i in range(tr.G)]
    votes = snapkv_votes(tr, layer, begin, length, v, lists, scored)[g]
    best = choose(votes, list(rest), n - w)
    return Choice(best.positions + window, best.near, w)


SELECT_IN_DECODE = {"quoka", "uniform_queries", "oracle"}
EVICT_IN_DECODE = {"streaming_llm"}


def run(tr, spec, layer):
    """Per chunk: (dense_reason, dense_fallback, [Choice per KV head]); and the final alive sets."""
    method, v = parse(spec)
    evicting = method == "streaming_llm" or v.get("state") == "evict"
    scope_all = v["budget_scope"] == "all"
    alive = [Choice([]) for _ in range(tr.G)]
    cells = []
    for begin, length, phase in tr.chunks:
        total = begin + length
        candidates = list(range(total if scope_all else begin))
        n = budget(v, begin)
        dense = [Choice(candidates) for _ in range(tr.G)]
        reason = None
        if begin == 0:
            reason = "empty_past"
        elif method != "dense" and len(candidates) <= n:
            reason = "fits_budget"
        fallback = reason is not None
        if reason is None and method == "dense":
            reason = "method_rule"
        if reason is None and phase == 1 and not evicting and method not in SELECT_IN_DECODE:
            reason = "method_rule"
        if reason is None and phase == 1 and v.get("decode") == "dense":
            reason = "method_rule"
        if reason is not None:
            cells.append((reason, fallback, dense))
        elif evicting:
            cells.append((None, False, alive))
        else:
            cells.append((None, False, [select(method, tr, layer, begin, length, v, n, candidates, g)
                                        for g in range(tr.G)]))
        if evicting:
            nxt = []
            for g in range(tr.G):
                if phase == 1 and method not in EVICT_IN_DECODE:
                    nxt.append(Choice(alive[g].positions + list(range(begin, total)), alive[g].near))
                else:
                    nxt.append(evict(method, tr, layer, begin, length, v, alive[g].positions, g))
            alive = nxt
    return cells, alive


CACHE = {}


def select(method, tr, layer, begin, length, v, n, candidates, g):
    key = (id(tr), method, layer, begin, json.dumps(v, sort_keys=True))
    if method == "sliding_window":
        return Choice(candidates[-n:], forced=n)
    if method == "snapkv":
        keys = np.arange(begin + length)
        if key not in CACHE:
            CACHE[key] = snapkv_votes(tr, layer, begin, length, v, [keys] * tr.G,
                                      [np.arange(begin)] * tr.G)
        return choose(CACHE[key][g], candidates, n)
    if method == "keydiff":
        scores = keydiff_score(tr, layer, g, np.arange(begin + length))[:begin]
        return choose(scores, candidates, n, relative_to_spread=True)
    if key not in CACHE:
        CACHE[key] = {"oracle": score_oracle, "quoka": score_quoka,
                      "uniform_queries": score_uniform}[method](tr, layer, begin, length, v)
    return choose(CACHE[key][g][:len(candidates)], candidates, n, relative_to_spread=method != "oracle")


# ---- metrics -----------------------------------------------------------------------------------
def metrics(tr, spec, layer, chunk, cell):
    method, v = parse(spec)
    begin, length, _ = tr.chunks[chunk]
    reason, _, rows = cell
    scope_all = v["budget_scope"] == "all"
    p = tr.probabilities(layer, begin, length)
    mass = p.reshape(tr.G, tr.R, length, -1).sum(axis=(1, 2))
    out = []
    for g in range(tr.G):
        candidates = np.arange(begin + length if scope_all else begin)
        s = np.array(rows[g].positions, dtype=int)
        if reason is not None:
            out.append((1.0, 1.0))
            continue
        whole = mass[g][candidates].sum()
        recall = mass[g][s].sum() / whole if whole > 0 else 1.0
        best = set(rank(mass[g][candidates], list(candidates))[:len(s)])
        out.append((recall, len(best & set(s.tolist())) / len(s) if len(s) else 1.0))
    errors = []
    for h in range(tr.H):
        s = np.array(rows[h // tr.R].positions, dtype=int)
        visible = np.zeros((length, begin + length), dtype=bool)
        for t in range(length):
            if scope_all:
                visible[t, s[s <= begin + t]] = True
                visible[t, begin + t] = True
            else:
                visible[t, s] = True
                visible[t, begin:begin + t + 1] = True
        kept = np.where(visible, p[h], 0)
        kept /= kept.sum(axis=1, keepdims=True)
        values = tr.v[layer][h // tr.R, :begin + length]
        full = p[h] @ values
        errors.append(np.linalg.norm(full - kept @ values) / np.linalg.norm(full))
    return out, errors


# ---- make and check ----------------------------------------------------------------------------
SPECS = [
    "dense", "oracle:budget_tokens=24", "oracle:budget_tokens=24,reduce=max",
    "oracle:budget_ratio=0.25,budget_scope=all", "sliding_window:budget_tokens=20",
    "sliding_window:budget_tokens=20,budget_scope=all", "quoka:budget_tokens=24,num_queries=4",
    "quoka:budget_tokens=24", "quoka:budget_tokens=24,num_queries=64",
    "quoka:budget_tokens=24,num_queries=4,metric=dot",
    "quoka:budget_tokens=24,num_queries=4,query_reduce=mean",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=shared_tokens",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=post_agg",
    "quoka:budget_tokens=24,num_queries=4,group_query_mode=post_agg,metric=dot,query_reduce=mean",
    "quoka:budget_tokens=24,num_queries=4,budget_scope=all", "quoka:budget_ratio=0.3,decode=dense",
    "uniform_queries:budget_tokens=24,num_queries=5", "uniform_queries:budget_tokens=24,num_queries=40",
    "uniform_queries:budget_ratio=0.25,num_queries=5,budget_scope=all",
    "snapkv:budget_tokens=24,window=8", "snapkv:budget_tokens=24,window=8,pool=avg,kernel=5",
    "snapkv:budget_tokens=24,window=8,state=select", "snapkv:budget_tokens=24,window=8,state=select,pool=avg",
    "snapkv:budget_tokens=24", "snapkv:budget_ratio=0.5,window=4", "snapkv:budget_tokens=40,window=64",
    "keydiff:budget_tokens=24", "keydiff:budget_tokens=24,state=select", "keydiff:budget_ratio=0.3",
    "streaming_llm:budget_tokens=24", "streaming_llm:budget_tokens=3", "streaming_llm:budget_ratio=0.25",
    "streaming_llm:budget_tokens=24,sink_tokens=0", "quoka:budget_tokens=1000", "keydiff:budget_tokens=1000",
]


def write_trace(path, seed, H, G, d, lengths, decode, layers, num_layers, dtype):
    rng = np.random.default_rng(seed)
    chunks = [(sum(lengths[:i]), n, 0) for i, n in enumerate(lengths)]
    chunks += [(sum(lengths) + i, 1, 1) for i in range(decode)]
    T = sum(lengths) + decode
    vlen = h5py.string_dtype()
    with h5py.File(path, "w") as f:
        f.attrs.update(dict(format="kvloupe-trace", schema_version="1.0", producer="selection_oracle.py",
                            created="2026-01-01T00:00:00Z", complete=1, chunks_done=len(chunks),
                            mode="open_loop"))
        m = f.create_group("model")
        m.attrs.update(dict(name="synthetic", architecture="llama", num_layers=num_layers, num_q_heads=H,
                            num_kv_heads=G, head_dim=d, hidden_size=H * d, softmax_scale=1 / math.sqrt(d),
                            rope_theta=10000.0, rope_pairing="half_split", rope_scaling="none",
                            file_hash="0" * 64))
        m.attrs.create("layer_types", ["full"] * num_layers, dtype=vlen)
        f["tokens/ids"] = np.arange(T, dtype=np.int32)
        f["tokens/text"] = np.frombuffer(b"ab" * T, dtype=np.uint8)
        f["tokens/text_offsets"] = np.arange(T + 1, dtype=np.uint64) * 2
        f["tokens/generated"] = np.arange(decode, dtype=np.int32)
        spans = np.array([("needle", 9, 13)], dtype=[("name", vlen), ("begin", "i4"), ("end", "i4")])
        f["tokens/spans"] = spans
        f["chunks/begin"] = np.array([c[0] for c in chunks], dtype=np.int32)
        f["chunks/length"] = np.array([c[1] for c in chunks], dtype=np.int32)
        f["chunks/phase"] = np.array([c[2] for c in chunks], dtype=np.uint8)
        for layer in layers:
            centre = rng.normal(size=d)
            k = rng.normal(size=(G, T, d)) + 0.7 * centre
            q = rng.normal(size=(H, T, d)) * 1.5 + 0.5 * centre
            k[:, 0] += 2 * centre
            q[:, T // 2:T // 2 + 6] += 1.5 * k[0, 9]
            for name, x in (("q", q), ("k", k), ("v", rng.normal(size=(G, T, d)))):
                f[f"layers/{layer}/{name}"] = x.astype(dtype)


def expected(tr, spec):
    out = []
    for layer in tr.layers:
        cells, alive = run(tr, spec, layer)
        chunks = []
        for c, cell in enumerate(cells):
            rows, errors = metrics(tr, spec, layer, c, cell)
            chunks.append({
                "chunk": c, "dense_fallback": cell[1], "dense_reason": cell[0],
                "rows": [{"selected": r.positions, "near_ties": sorted(r.near), "forced": r.forced,
                          "mass_recall": round(m[0], 9), "topk_overlap": round(m[1], 9)}
                         for r, m in zip(cell[2], rows)],
                "output_error": [round(e, 9) for e in errors]})
        method, v = parse(spec)
        evicting = method == "streaming_llm" or v.get("state") == "evict"
        out.append({"layer": layer, "chunks": chunks,
                    "final_alive": [a.positions for a in alive] if evicting else None})
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
        answer = {spec: expected(tr, spec) for spec in SPECS}
        near = [s for s, ls in answer.items() for l in ls for c in l["chunks"] for r in c["rows"]
                if r["near_ties"]]
        with open(f"{folder}/{name}.json", "w") as f:
            json.dump(answer, f, separators=(",", ":"))
        print(name, "written; near ties in", sorted(set(near)))


def check(program, path, specs):
    tr, bad, cells = Trace(path), 0, 0
    for spec in specs:
        result = subprocess.run([program, "select", path, "--method", spec, "--json"],
                                capture_output=True, text=True)
        if result.returncode != 0:
            print(spec, "FAILED:", result.stderr.strip().splitlines()[-1:])
            bad += 1
            continue
        got = json.loads(result.stdout)
        for want, have in zip(expected(tr, spec), got["layers"]):
            bad += compare_layer(spec, want, have)
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
        for g, (x, y) in enumerate(zip(w["rows"], h["kv_heads"])):
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


if __name__ == "__main__":
    if len(sys.argv) >= 3 and sys.argv[1] == "make":
        make(sys.argv[2])
    elif len(sys.argv) >= 4 and sys.argv[1] == "check":
        sys.exit(1 if check(sys.argv[2], sys.argv[3], sys.argv[4:] or SPECS) else 0)
    else:
        sys.exit(__doc__)
