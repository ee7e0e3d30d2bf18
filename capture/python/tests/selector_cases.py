"""What the tests of kvloupe.Selector share: methods, traces of tiny models, and what the program selects there."""
import functools

import h5py
import numpy as np

import kvloupe

from .support import MODELS, program, program_json, scratch

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards box with a quiet judge and then ".split()
CHUNK = 24
# Of each method, with a budget that chooses in most cells of 400 tokens.
FREE = ["dense", "oracle:budget_tokens=24", "oracle:budget_ratio=0.25,budget_scope=all", "random:budget_tokens=24", "sliding_window:budget_tokens=24",
        "quoka:budget_tokens=24", "quoka:budget_tokens=24,num_queries=4,group_query_mode=post_agg,decode=dense", "quoka:budget_tokens=24,skip_layers=1,metric=dot",
        "uniform_queries:budget_tokens=24", "sample_attention:budget_tokens=24", "sample_attention:budget_tokens=64,mode=coverage", "sparq:budget_tokens=24",
        "sparq:budget_tokens=24,agg=prob_mean", "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=1",
        "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=2,sel_layers=set",
        "less_is_more:budget_tokens=24,first_layer=1,correction_layer=2,sel_layers=set", "snapkv:budget_tokens=40,window=8", "snapkv:budget_tokens=40,window=8,state=select",
        "keydiff:budget_tokens=24", "keydiff:budget_tokens=24,state=select", "h2o:budget_tokens=24", "h2o:budget_ratio=0.3,normalise=by_age", "h2o:budget_tokens=24,start=decode",
        "tova:budget_tokens=24", "tova:budget_tokens=24,per_kv_head=1", "streaming_llm:budget_tokens=24", "streaming_llm:budget_tokens=24,positions=reassigned",
        "infinipot:budget_tokens=24", "quest:budget_tokens=32,skip_layers=0", "quest:budget_tokens=32,skip_layers=1,prefill=per_query,gqa_reduce=union",
        "flash_prefill:block_size=16,sink_blocks=1,window_blocks=1,alpha=0.3", "flash_prefill:block_size=16,lowering=union,last_full_blocks=1,alpha=0.3",
        "flash_prefill:block_size=16,lowering=budget,budget_tokens=64", "xattention:block_size=16,stride=4,tau=0.6", "xattention:block_size=16,stride=4,lowering=union,tau=0.6",
        "flex_prefill:block_size=16,min_budget=16,gamma=0.6", "flex_prefill:block_size=16,min_budget=16,lowering=union,gamma=0.6",
        "compact_attention:selector=flash_prefill,block_size=16,subgroup_size=2", "compact_attention:selector=xattention,block_size=16,stride=4,subgroup_size=1"]
BY_BASIS = {"loki": ["loki:budget_tokens=24", "loki:budget_tokens=24,agg=prob_mean"],
            "aqua": ["aqua:dim_ratio=0.5", "static_slicing:dim_ratio=0.5", "aqua_h2o:dim_ratio=0.5,token_ratio=0.3", "aqua_memory:slice_values=1", "aqua_memory"]}


@functools.lru_cache(maxsize=None)
def prompt():
    path = scratch("selector-prompt.txt")
    path.write_text(" ".join(WORDS * 4))
    return path


@functools.lru_cache(maxsize=None)
def captured(family, dtype):
    path = scratch(f"selector-{family}-{dtype}.h5")
    program("capture", "--model", MODELS / family, "--prompt-file", prompt(), "--raw", "--chunk-size", CHUNK, "--max-new-tokens", 4,
            "--store", "qkv,lse,probe", "--dtype", dtype, "-o", path)
    return path


@functools.lru_cache(maxsize=None)
def basis(kind):
    path = scratch(f"selector-{kind}.basis")
    program("calibrate", kind, "--model", MODELS / "qwen3", "--corpus", prompt(), "--sequences", 1, "--length", 128, "-o", path)
    return path


def with_files():
    """Methods that read a file, made for the model qwen3."""
    specs = []
    for kind, listed in BY_BASIS.items():
        specs += [f"{spec}{',' if ':' in spec else ':'}basis={basis(kind)}" for spec in listed]
    gate, config = scratch("selector-gate.safetensors"), scratch("selector-patterns.json")
    program("calibrate", "seer", captured("qwen3", "f32"), "--block-size", 16, "--hidden", 8, "--steps", 2, "-o", gate, "--force")
    program("calibrate", "minference", captured("qwen3", "f32"), "-o", config, "--force")
    return specs + [f"seer_attention:block_size=16,gate={gate}", f"seer_attention:block_size=16,gate={gate},lowering=union", f"minference:config={config}",
                    f"minference:config={config},lowering=union", f"compact_attention:selector=seer_attention,block_size=16,gate={gate},subgroup_size=2"]


class Stored:
    """The arrays of a trace, chunk by chunk."""

    def __init__(self, path):
        with kvloupe.open(path) as trace, h5py.File(path, "r", locking=False) as file:
            self.model, self.chunks, self.layers = dict(trace.model), list(trace.chunks), list(trace.layers)
            self.arrays = {layer: tuple(np.asarray(trace.layer(layer).array(name)[:, :, :]) for name in "qkv") for layer in self.layers}
            at = [trace.layer(layer) for layer in self.layers]
            self.windows, self.softcap, self.scale = [layer.window for layer in at], at[0].softcap, at[0].scale
            self.sinks = None if at[0].sinks is None else np.stack([layer.sinks for layer in at])
            self.probe = {layer: file[f"layers/{layer}/probe_q"][...] for layer in self.layers if f"layers/{layer}/probe_q" in file}
            self.novelty = file["tokens/nll"][...] if "tokens/nll" in file else None

    def selector(self, spec, **options):
        model = self.model
        return kvloupe.Selector(spec, layers=model["num_layers"], q_heads=model["num_q_heads"], kv_heads=model["num_kv_heads"], head_dim=model["head_dim"],
                                softmax_scale=self.scale, windows=self.windows, softcap=self.softcap, sink_logits=self.sinks,
                                rope_theta=model["rope_theta"], rope_interleaved=model["rope_pairing"] == "interleaved", threads=1, **options)

    def inputs(self, layer, index, change=lambda array: array):
        chunk = self.chunks[index]
        q, k, v = self.arrays[layer]
        given = dict(q=change(q[:, chunk.begin : chunk.end]), k=change(k[:, : chunk.end]), v=change(v[:, : chunk.end]), past=chunk.begin,
                     phase=phase_of(chunk), ends_prefill=phase_of(chunk) == "prefill" and (index + 1 == len(self.chunks) or phase_of(self.chunks[index + 1]) == "decode"))
        if self.novelty is not None:
            given["novelty"] = self.novelty[: chunk.end]
        if layer in self.probe and given["phase"] == "prefill":
            given["probe_q"] = change(self.probe[layer][index])
        return given

    def live_order(self):
        return [(layer, index) for index in range(len(self.chunks)) for layer in self.layers]


def phase_of(chunk):
    return "decode" if chunk.phase in (1, "decode") else "prefill"


def by_program(path, spec):
    """{(layer, chunk): (rows or None, dense_reason)}, {layer: final alive}."""
    report = program_json("select", path, "--method", spec, "--threads", "1")
    cells, alive = {}, {}
    for layer in report["layers"]:
        for chunk in layer["chunks"]:
            rows = next((chunk[axis] for axis in ("kv_heads", "q_heads", "subgroups") if axis in chunk), None)
            cells[layer["layer"], chunk["chunk"]] = (None if rows is None else [row["selected"] for row in rows], chunk["dense_reason"])
        if "final_alive" in layer:
            alive[layer["layer"]] = [row["positions"] for row in layer["final_alive"]]
    return cells, alive


def plain(spec="quoka:budget_tokens=4", **changed):
    return kvloupe.Selector(spec, **{**dict(layers=3, q_heads=4, kv_heads=2, head_dim=8, threads=1), **changed})


def arrays(m=6, past=0, dtype=np.float32, seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return draw((4, m, 8)).astype(dtype), draw((2, past + m, 8)).astype(dtype), draw((2, past + m, 8)).astype(dtype)
