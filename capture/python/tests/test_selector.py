"""kvloupe.Selector keeps what the program keeps, of the same numbers, and refuses what cannot be right."""
import functools
import os
import subprocess
import sys
import threading
import unittest

import h5py
import numpy as np
import torch

import kvloupe

from .support import MODELS, ROOT, program, program_json, scratch

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


class SameAsTheProgram(unittest.TestCase):
    def compare(self, path, spec, stored, order=None, change=lambda array: array):
        cells, alive = by_program(path, spec)
        chosen = 0
        with stored.selector(spec) as selector:
            for layer, index in order or stored.live_order():
                rows = [row.tolist() for row in selector.select(layer, **stored.inputs(layer, index, change))]
                want, reason = cells[layer, index]
                if want is None:  # lanes alone are pruned: every key that some row sees is kept
                    chunk, window = stored.chunks[index], stored.windows[layer]
                    first = max(0, chunk.begin - window + 1) if window else 0
                    want = [list(range(first, chunk.begin))] * selector.num_rows
                self.assertEqual(rows, want, (spec, layer, index))
                self.assertEqual(selector.dense_reason, reason, (spec, layer, index))
                self.assertEqual(len(rows), selector.num_rows)
                chosen += reason is None
            for layer, want in alive.items():
                self.assertEqual([row.tolist() for row in selector.alive(layer)], want, (spec, layer))
        return chosen

    def compare_all(self, family, dtype, specs, decodes=True):
        path = captured(family, dtype)
        stored = Stored(path)
        self.assertGreater(len(stored.chunks), 12)
        self.assertEqual("decode" in {phase_of(chunk) for chunk in stored.chunks}, decodes)
        for spec in specs:
            with self.subTest(family=family, dtype=dtype, spec=spec):
                chosen = self.compare(path, spec, stored)
                if spec != "dense":
                    self.assertGreater(chosen, 0, "nothing was chosen, so nothing was tested")

    def test_every_method_is_named_here(self):
        named = {spec.split(":")[0] for spec in FREE + sum(BY_BASIS.values(), [])} | {"seer_attention", "minference"}
        self.assertEqual(named, {method["id"] for method in program_json("methods")["methods"]})

    def test_float32_with_files(self):
        self.compare_all("qwen3", "f32", FREE + with_files())

    def test_float16(self):
        self.compare_all("qwen3", "f16", FREE + with_files())

    def test_layers_with_windows(self):
        self.compare_all("gemma3_text", "f32", FREE)

    def test_layers_with_sinks_and_windows(self):
        self.compare_all("gpt_oss", "f16", [spec for spec in FREE if "start=decode" not in spec], decodes=False)  # it ends at once

    def test_layer_after_layer_and_arrays_of_torch(self):
        path = captured("qwen3", "f32")
        stored = Stored(path)
        order = [(layer, index) for layer in stored.layers for index in range(len(stored.chunks))]
        apart = lambda array: torch.from_numpy(array).transpose(0, 1).contiguous().transpose(0, 1)  # noqa: E731
        for spec in ("quoka:budget_tokens=24", "h2o:budget_tokens=24", "tidal_decode:budget_tokens=24,first_layer=1,correction_layer=2"):
            for change in (lambda array: array, torch.from_numpy, apart, lambda array: torch.from_numpy(array).requires_grad_()):
                self.compare(path, spec, stored, order, change)

    def test_a_method_without_a_memory_may_begin_anywhere(self):
        path = captured("qwen3", "f32")
        stored, index = Stored(path), 9
        evicting = {method["id"] for method in program_json("methods")["methods"] if method["state_action"] == "eviction"}
        for spec in FREE + with_files():
            with stored.selector(spec) as selector, self.subTest(spec=spec):
                try:
                    selector.reset(past=stored.chunks[index].begin, chunk=index)
                except kvloupe.KvloupeError as error:
                    self.assertIn("cannot begin at position", str(error))
                    self.assertIn(spec.split(":")[0], evicting)
                    continue
                cells = by_program(path, spec)[0]
                for at in range(index, len(stored.chunks)):
                    for layer in stored.layers:
                        rows = selector.select(layer, **stored.inputs(layer, at))
                        if cells[layer, at][0] is not None:
                            self.assertEqual([row.tolist() for row in rows], cells[layer, at][0], (layer, at))

    def test_a_fork_goes_its_own_way(self):
        stored = Stored(captured("qwen3", "f32"))
        order = stored.live_order()
        for spec in FREE + with_files():
            with stored.selector(spec) as selector, self.subTest(spec=spec):
                half = len(order) // 2 + 1  # between two layers of a chunk
                for layer, index in order[:half]:
                    last = selector.select(layer, **stored.inputs(layer, index))
                fork, other = selector.fork(), selector.fork()
                self.assertEqual(fork.spec, selector.spec)
                # The other one sees other keys in the same places.
                for layer, index in order[half : half + 6]:
                    given = stored.inputs(layer, index)
                    begin = given["past"]
                    given["k"] = np.concatenate([given["k"][:, :begin], -3 * given["k"][:, begin:]], axis=1)
                    other.select(layer, **given)
                other.close()
                self.assertEqual(len(last), fork.num_rows)
                want = [[row.tolist() for row in selector.select(layer, **stored.inputs(layer, index))] for layer, index in order[half:]]
                selector.close()
                found = [[row.tolist() for row in fork.select(layer, **stored.inputs(layer, index))] for layer, index in order[half:]]
                self.assertEqual(found, want)
                fork.close()

    def test_bfloat16_is_widened_as_it_is(self):
        stored = Stored(captured("qwen3", "f32"))
        for spec in ("quoka:budget_tokens=24", "snapkv:budget_tokens=40,window=8"):
            wide, narrow = stored.selector(spec), stored.selector(spec)
            for layer, index in stored.live_order():
                rounded = narrow.select(layer, **stored.inputs(layer, index, lambda array: torch.from_numpy(array).bfloat16()))
                same = wide.select(layer, **stored.inputs(layer, index, lambda array: torch.from_numpy(array).bfloat16().float().numpy()))
                self.assertEqual([row.tolist() for row in rounded], [row.tolist() for row in same])

    def test_after_a_reset_all_begins_anew(self):
        path = captured("qwen3", "f32")
        stored = Stored(path)
        cells, _ = by_program(path, "random:budget_tokens=24")
        with stored.selector("random:budget_tokens=24") as selector, stored.selector("h2o:budget_tokens=24") as evicting:
            first = [selector.select(*given) for given in [(0, *stored.arrays[0][:2], None, 0)]]
            self.assertEqual(len(first[0]), selector.num_rows)
            # In the middle: a method without a memory needs no chunk before.
            index = 5
            selector.reset(past=stored.chunks[index].begin, chunk=index)
            rows = selector.select(1, **stored.inputs(1, index))
            self.assertEqual([row.tolist() for row in rows], cells[1, index][0])
            for _ in range(2):
                evicting.reset()
                for at in range(4):
                    rows = evicting.select(0, **stored.inputs(0, at))
            self.assertEqual([row.tolist() for row in rows], by_program(path, "h2o:budget_tokens=24")[0][0, 3][0])
            with self.assertRaisesRegex(kvloupe.KvloupeError, "h2o cannot begin at position 24; what is alive there"):
                evicting.reset(past=24)


def plain(spec="quoka:budget_tokens=4", **changed):
    return kvloupe.Selector(spec, **{**dict(layers=3, q_heads=4, kv_heads=2, head_dim=8, threads=1), **changed})


def arrays(m=6, past=0, dtype=np.float32, seed=0):
    draw = np.random.default_rng(seed).standard_normal
    return draw((4, m, 8)).astype(dtype), draw((2, past + m, 8)).astype(dtype), draw((2, past + m, 8)).astype(dtype)


class Refused(unittest.TestCase):
    def refuses(self, words, call):
        with self.assertRaisesRegex(kvloupe.KvloupeError, words) as caught:
            call()
        self.assertEqual(len(caught.exception.parts), 3)
        self.assertNotIn("\n", str(caught.exception))

    def test_methods_and_models_that_are_none(self):
        for words, spec in (("is not a method", "no_such_method"), ("budget", "quoka:budget_tokens=-1"), ("colour", "quoka:colour=red"), ("is no method", 7),
                            ("is no method", "a\0b"), ("loki has no basis; basis=auto is looked up by the hash", "loki:budget_tokens=4"),
                            ("loki has no basis; basis=self is fitted on a whole text", "loki:budget_tokens=4,basis=self"),
                            ("cannot read the basis /nowhere/b; there is no such file", "aqua:basis=/nowhere/b"), ("gate", "seer_attention"), ("nowhere", "seer_attention:gate=/nowhere/g"),
                            ("nowhere", "minference:config=/nowhere/c")):
            with self.subTest(spec=spec):
                self.refuses(words, lambda: plain(spec))
        for words, changed in (("0 layers", dict(layers=0)), ("do not share", dict(kv_heads=3)), ("-1 numbers a head", dict(head_dim=-1)), ("no number", dict(layers="3")),
                               ("no number", dict(layers=True)), ("out of range", dict(layers=1 << 40)), ("softmax_scale", dict(softmax_scale=0)),
                               ("softmax_scale", dict(softmax_scale=float("nan"))), ("softcap", dict(softcap=-1)), ("threads", dict(threads=-1)), ("window", dict(windows=[1, 2])),
                               ("window of layer 2 is -4", dict(windows=[0, 0, -4])), ("shape", dict(sink_logits=np.zeros((2, 4)))),
                               ("not finite", dict(sink_logits=np.full((3, 4), np.nan))), ("model of that hash", dict(spec="loki:budget_tokens=4", model_hash="0" * 64))):
            with self.subTest(changed=changed):
                self.refuses(words, lambda: plain(**changed))

    def test_the_gate_says_that_it_needs_the_rotary_embedding(self):
        gate = [spec for spec in with_files() if spec.startswith("seer_attention")][0]
        self.refuses("rotary embedding", lambda: plain(gate, head_dim=16))

    def test_a_basis_of_another_model(self):
        self.refuses("made for another model", lambda: plain(f"loki:budget_tokens=4,basis={basis('loki')}", head_dim=16, model_hash="0" * 64))
        self.refuses("channels", lambda: plain(f"loki:budget_tokens=4,basis={basis('loki')}"))

    def test_arrays_that_cannot_be_read(self):
        q, k, v = arrays()
        wrong_end = np.frombuffer(b"\0" * (1 + q.nbytes), np.uint8)[1:].view(np.float32).reshape(q.shape)
        cases = [("q cannot be used; its numbers are <f8", q.astype(np.float64), k, v), ("k cannot be used; its numbers are <i4", q, k.astype(np.int32), v),
                 ("q cannot be used; its numbers are >f4", q.astype(">f4"), k, v), ("three axes", q[None], k, v), ("three axes", q, k[0], v), ("of type list", q.tolist(), k, v),
                 ("of type NoneType", None, k, v), ("array k .* shape is \\[2, 5, 8\\]", q, k[:, :5], v), ("array q .* shape is \\[3, 6, 8\\]", q[:3], k, v),
                 ("array k .* shape is \\[1, 6, 8\\]", q, k[:1], v), ("array v .* shape is \\[2, 6, 4\\]", q, k, np.ascontiguousarray(v[:, :, :4])), ("last stride is 2", q, np.repeat(k, 2, axis=2)[:, :, ::2], v),
                 ("not negative", q, k[:, ::-1], v), ("last stride", q, k[:, :, ::-1], v), ("second axis is 0", q[:, :0], k, v), ("multiples of their size", wrong_end, k, v),
                 ("torch.float64", torch.from_numpy(q).double(), k, v), ("three axes", torch.from_numpy(q)[0], k, v), ("torch.int32", q, torch.from_numpy(k).int(), v),
                 ("complex", q.astype(np.complex64), k, v), ("object", q.astype(object), k, v)]
        for number in (np.nan, np.inf, -np.inf):
            for name, at in (("q", 0), ("k", 1), ("v", 2)):
                broken = [q.copy(), k.copy(), v.copy()]
                broken[at][1, 3, 2] = number
                cases.append((f"layer 0, head 1 of {name}, position 3 cannot be used; it holds a NaN or an infinity", *broken))
        with plain() as selector:
            for words, *given in cases:
                with self.subTest(words=words):
                    self.refuses(words, lambda: selector.select(0, *given, 0))
            # All of that changed nothing.
            self.assertEqual([row.tolist() for row in selector.select(0, q, k, v, 0)], [[], []])

    def test_arrays_of_dlpack_that_are_elsewhere(self):
        import ctypes
        from kvloupe.borrowed import _DLTensor
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        q, k, v = arrays()

        class Lent:
            def __init__(self, array, device=1, code=2):
                self.array, self.shape = array, (ctypes.c_int64 * 3)(*array.shape)
                self.tensor = _DLTensor(array.ctypes.data, device, 0, 3, code, 32, 1, self.shape, None, 0)

            def __dlpack__(self):
                return new(ctypes.addressof(self.tensor), b"dltensor", None)

        class Broken:
            def __dlpack__(self):
                raise BufferError("on strike\nand more")

        with plain() as selector:
            self.refuses("q cannot be used; it is not in the memory of the CPU", lambda: selector.select(0, Lent(q, device=2), k, v, 0))
            self.refuses("q cannot be used; its numbers are", lambda: selector.select(0, Lent(q, code=1), k, v, 0))
            self.refuses("q cannot be used; DLPack does not give it: BufferError: on strike and more", lambda: selector.select(0, Broken(), k, v, 0))
            self.assertEqual(len(selector.select(0, Lent(q), Lent(k), Lent(v), 0)), 2)  # no strides: row after row

    def test_a_nan_of_float16_and_in_a_later_chunk(self):
        q, k, v = arrays(6, 6, np.float16)
        with plain() as selector:
            selector.select(0, q, k[:, :6], v[:, :6], 0)
            k[1, 8, 0] = np.inf
            self.refuses("layer 0, head 1 of k, position 8", lambda: selector.select(0, q, k, v, 6))

    def test_chunks_and_layers_out_of_order(self):
        (q, k, v), (_, k2, v2) = arrays(), arrays(6, 6)
        with plain() as selector:
            self.refuses("the first chunk there begins at 0", lambda: selector.select(0, q, k2, v2, 6))
            selector.select(1, q, k, v, 0)
            self.refuses("layer 0 cannot take .* layer 1 comes after it", lambda: selector.select(0, q, k, v, 0))
            self.refuses("the next chunk there begins at 6", lambda: selector.select(1, q, k, v, 0))
            self.refuses("layer 2 cannot take .* another layer took a prefill chunk of 6 tokens", lambda: selector.select(2, q[:, :3], k[:, :3], v[:, :3], 0))
            self.refuses("is a decode chunk", lambda: selector.select(2, q, k, v, 0, "decode"))
            selector.select(1, q, k2, v2, 6)
            self.refuses("layer 1 comes before it|begins at 0", lambda: selector.select(2, q, k2, v2, 6))
            selector.select(2, q, k, v, 0)
            for layer in (-1, 3):
                self.refuses(f"there is no layer {layer}", lambda: selector.select(layer, q, k, v, 0))
            self.refuses("no phase", lambda: selector.select(2, q, k2, v2, 6, "verify"))
            self.refuses("no number", lambda: selector.select(2, q, k2, v2, 6.0))
            self.refuses("shape", lambda: selector.select(2, q, k, v, 6))
            self.refuses("cannot come before", lambda: selector.select(2, q, k, v, -6))
            self.refuses("cannot come before", lambda: selector.select(2, q, k, v, 1 << 62))
            self.refuses("keeps no set alive", lambda: selector.alive(2))
        with plain("tidal_decode:budget_tokens=4,first_layer=1,correction_layer=0") as selector:
            self.refuses("reuses the set of layer 1", lambda: selector.select(2, q, k, v, 0))
        with plain("h2o:budget_tokens=4") as selector:
            self.refuses("nothing is alive in layer 2", lambda: selector.alive(2))

    def test_what_infinipot_needs_beside_arrays(self):
        q, k, v = arrays()
        novelty = np.r_[np.inf, np.ones(5)]
        with plain("infinipot:budget_tokens=4") as selector:
            self.refuses("needs -log P of each token", lambda: selector.select(0, q, k, v, 0))
            self.refuses("needs the queries of a probe text", lambda: selector.select(0, q, k, v, 0, novelty=novelty))
            self.refuses("novelty cannot be used; its shape", lambda: selector.select(0, q, k, v, 0, novelty=novelty[:3], probe_q=q))
            self.refuses("novelty cannot be used; it holds a NaN", lambda: selector.select(0, q, k, v, 0, novelty=novelty * np.nan, probe_q=q))
            self.refuses("array probe_q .* shape", lambda: selector.select(0, q, k, v, 0, novelty=novelty, probe_q=q[:2]))
            selector.select(0, q, k, v, 0, novelty=novelty, probe_q=q)
            self.assertEqual([len(row) for row in selector.alive(0)], [4, 4])

    def test_values_where_they_are_read(self):
        q, k, _ = arrays(m=6)
        with plain(f"aqua_h2o:basis={basis('aqua')}", head_dim=16) as selector:
            wide = np.concatenate([q, q], axis=2), np.concatenate([k, k], axis=2)
            self.refuses("aqua_h2o cannot select; it reads values", lambda: selector.select(0, *wide, None, 0))
            selector.select(0, *wide, wide[1], 0)
        with plain() as selector:
            self.assertEqual(len(selector.select(0, q, k, None, 0)), 2)

    def test_a_selector_that_was_closed_or_copied(self):
        import copy
        selector = plain()
        self.refuses("cannot be copied", lambda: copy.deepcopy(selector))
        selector.close()
        selector.close()
        for call in (lambda: selector.select(0, *arrays(), 0), selector.reset, selector.fork, lambda: selector.alive(0), lambda: selector.dense_reason):
            self.refuses("it was closed", call)

    @unittest.skipUnless(hasattr(os, "fork"), "processes cannot be forked here")
    def test_a_forked_child_is_told(self):
        selector = plain()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                selector.select(0, *arrays(), 0)
            except kvloupe.KvloupeError as error:
                code = 0 if "forked" in str(error) else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_libraries_that_are_none(self):
        for file, words in (("/nowhere/libkvloupe.so", "cannot be used"), (os.environ["KVLOUPE_PROGRAM"], "cannot be used")):
            code = "import kvloupe\ntry: kvloupe.Selector('dense', layers=1, q_heads=1, kv_heads=1, head_dim=8)\nexcept kvloupe.KvloupeError as error: print(error)"
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "KVLOUPE_LIBRARY": file}, capture_output=True, text=True, timeout=120, check=True)
            self.assertIn(words, done.stdout)


class BesideOthers(unittest.TestCase):
    def test_threads_with_selectors_of_their_own(self):
        path = captured("qwen3", "f32")
        stored, found, failed = Stored(path), {}, []

        def run(number, spec):
            try:
                with stored.selector(spec) as selector:
                    found[number] = [[row.tolist() for row in selector.select(layer, **stored.inputs(layer, index))] for layer, index in stored.live_order()]
            except Exception as error:  # handed to the thread that asserts
                failed.append(error)

        specs = ["quoka:budget_tokens=24", "h2o:budget_tokens=24"] * 2
        threads = [threading.Thread(target=run, args=given) for given in enumerate(specs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        for number, spec in enumerate(specs):
            cells = by_program(path, spec)[0]
            self.assertEqual(found[number], [cells[at][0] for at in stored.live_order()])

    def test_many_selectors_one_after_the_other(self):
        """Threads of the host and of the engine come and go, and take each other's stacks; the memory does not grow with them."""
        code = """import threading, numpy as np, kvloupe
draw = np.random.default_rng(0).standard_normal
q, k = draw((4, 96, 8), dtype=np.float32), draw((2, 96, 8), dtype=np.float32)
def once(number):
    with kvloupe.Selector(("quoka:budget_tokens=8", "h2o:budget_tokens=8")[number % 2], layers=1, q_heads=4, kv_heads=2, head_dim=8, threads=2) as selector:
        for past in range(0, 96, 32):
            rows = selector.select(0, q[:, past : past + 32], k[:, : past + 32], None, past)
        selector.fork().close()
    assert [len(row) for row in rows] == [8, 8]
def many(count):
    for number in range(count):
        threads = [threading.Thread(target=once, args=(i,)) for i in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
before = many(100)
print(many(100) - before < 24)
"""
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    @unittest.skipUnless(hasattr(os, "fork"), "processes cannot be forked here")
    def test_a_forked_child_makes_its_own(self):
        code = """import os, numpy as np, kvloupe
q, k = np.ones((4, 8, 8), np.float32), np.ones((2, 8, 8), np.float32)
make = lambda: kvloupe.Selector("quoka:budget_tokens=2", layers=1, q_heads=4, kv_heads=2, head_dim=8, threads=2)
make().close()
held = make()
child = os.fork()
with make() as selector:
    rows = selector.select(0, q, k, None, 0)
    rows = selector.select(0, q[:, :1], np.ones((2, 9, 8), np.float32), None, 8)
held.close()
if child == 0:
    os._exit(0 if [row.tolist() for row in rows] == [[0, 1]] * 2 else 3)
print(os.waitpid(child, 0)[1])
"""
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)

    def test_two_threads_on_one_selector_wait_for_each_other(self):
        q, k, v = arrays(6, 594)
        taken, refused = [], []
        with plain() as selector:
            def run():
                for past in range(0, 600, 6):
                    try:
                        taken.append((past, [len(row) for row in selector.select(0, q, k[:, : past + 6], v[:, : past + 6], past)]))
                    except kvloupe.KvloupeError as error:
                        refused.append(str(error))
            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(past for past, _ in taken), sorted({past for past, _ in taken}))
        self.assertTrue(all(count == [min(4, past)] * 2 for past, count in taken))
        self.assertTrue(all("cannot take the chunk" in said for said in refused))

    def test_the_example_of_the_page(self):
        page = (ROOT / "docs" / "selector.md").read_text()
        code = page.split("```python\n", 1)[1].split("```", 1)[0]
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "kv_head [256, 256, 256, 256]\n"), done.stderr)

    def test_torch_before_and_after(self):
        """The engine's Torch and that of the process stay apart, whichever comes first."""
        code = """if {before}: import torch
import numpy as np, kvloupe
draw = np.random.default_rng(0).standard_normal
q, k = draw((4, 40, 8), dtype=np.float32), draw((2, 40, 8), dtype=np.float32)
with kvloupe.Selector("quoka:budget_tokens=8", layers=1, q_heads=4, kv_heads=2, head_dim=8) as selector:
    rows = [selector.select(0, q[:, at : at + 20], k[:, : at + 20], None, at) for at in (0, 20)][1]
    import torch
    assert torch.allclose(torch.ones(300, 300) @ torch.ones(300, 300), torch.full((300, 300), 300.0))
    selector.reset()
    print([row.tolist() for row in rows] == [row.tolist() for row in [selector.select(0, torch.from_numpy(q)[:, at : at + 20], torch.from_numpy(k)[:, : at + 20], None, at)
                                                                     for at in (0, 20)][1]], len(rows[0]))
"""
        for before in (True, False):
            done = subprocess.run([sys.executable, "-c", code.format(before=before)], capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "True 8\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
