"""Recordings that end early leave what was done, and long ones grow."""
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np
import torch
import transformers

import kvloupe

from .support import ROOT, generate, golden, load_model, load_tokenizer, program, program_json, prompt, recorded, scratch

# Decodes until it is killed, and tells how far it is; nothing says beforehand how much room it will take.
ENDLESS = """
import itertools, sys
from tests.support import *
model, ids = load_model(sys.argv[1]), prompt(sys.argv[1])
cache = transformers.DynamicCache(config=model.config)
with kvloupe.record(model, sys.argv[2], tokenizer=load_tokenizer(sys.argv[1]), chunk_size=16), torch.no_grad():
    model(ids, past_key_values=cache)
    for step in itertools.count():
        model(ids[:, step % 34 : step % 34 + 1], past_key_values=cache)
        print(step, flush=True)
"""

# Saves a run where files may grow as far as is told, time after time, and tells the refusals.
SAVING = """
import resource, sys
import kvloupe
path, *limits = sys.argv[1:]
before = resource.getrlimit(resource.RLIMIT_FSIZE)
with kvloupe.open(path) as trace:
    for limit in map(int, limits):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            trace.add_run("large", lambda layer, chunk, q, k, v: [range(k.shape[1])] * len(k))
            print("saved")
        except kvloupe.KvloupeError as error:
            print(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
"""


class Interrupted(unittest.TestCase):
    def test_an_exception_leaves_the_chunks_done(self):
        path, model, ids = scratch("exception.h5"), load_model("gemma3_text"), prompt("gemma3_text")
        cache = transformers.DynamicCache(config=model.config)
        for error in (RuntimeError("out of memory"), KeyboardInterrupt()):
            with self.assertRaises(type(error)) as caught, torch.no_grad():
                with kvloupe.record(model, path, tokenizer=load_tokenizer("gemma3_text"), chunk_size=16, force=True):
                    model(ids[:, :20], past_key_values=cache)
                    raise error
            self.assertIs(caught.exception, error)
            cache = transformers.DynamicCache(config=model.config)
            self.check_incomplete(path, 20, [(0, 16, "prefill"), (16, 4, "prefill")])

    def test_an_exception_inside_a_forward_takes_it_back(self):
        path, model, ids = scratch("forward.h5"), load_model("llama"), prompt("llama")
        hook = None
        with self.assertRaisesRegex(RuntimeError, "in the middle"), torch.no_grad():
            with kvloupe.record(model, path, chunk_size=16):
                cache = transformers.DynamicCache(config=model.config)
                model(ids[:, :20], past_key_values=cache)

                def fail(*_):
                    raise RuntimeError("in the middle")
                hook = model.model.layers[1].mlp.register_forward_pre_hook(fail)
                model(ids[:, 20:], past_key_values=cache)
        hook.remove()
        self.check_incomplete(path, 20, [(0, 16, "prefill"), (16, 4, "prefill")])

    def check_incomplete(self, path, tokens, chunks):
        with kvloupe.open(path) as trace:
            self.assertFalse(trace.complete)
            self.assertEqual([tuple(chunk) for chunk in trace.chunks], chunks)
            self.assertEqual(trace.num_tokens, tokens)
        self.assertIn("incomplete", program("validate", path))

    def test_a_killed_process_leaves_its_chunks(self):
        for family, steps in (("llama", 1), ("gpt_oss", 300)):
            path = scratch(f"killed-{family}.h5")
            part = path.with_name(path.name + ".part")
            process = subprocess.Popen([sys.executable, "-c", ENDLESS, family, path], cwd=ROOT / "capture" / "python",
                                       stdout=subprocess.PIPE, text=True)
            for line in process.stdout:
                if int(line) >= steps:
                    break
            process.kill()
            process.stdout.close()
            self.assertEqual(process.wait(), -signal.SIGKILL)
            self.assertFalse(path.exists())
            self.assertIn("incomplete", program("validate", part))
            expected, ids = golden(family), prompt(family)[0].tolist()
            with kvloupe.open(part) as trace:
                # The prompt's last chunk is open until it is written with decoded ones.
                self.assertGreaterEqual(trace.num_tokens, 32 if steps == 1 else 34 + 192)
                self.assertEqual(trace.tokens.tolist(), (ids * 100)[: trace.num_tokens])
                self.assertEqual(trace.warnings, [])
                np.testing.assert_allclose(trace.k(1)[:, :32], expected["layers.1.k"][:, :32], atol=5e-3)
                self.assertEqual(program_json("info", part)["tokens"], trace.num_tokens)


    def test_a_full_disk(self):
        """As far as files may grow; the chunks done before stay, and the model serves on."""
        path, model, ids = scratch("full.h5"), load_model("llama"), prompt("llama")
        cache = transformers.DynamicCache(config=model.config)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        with torch.no_grad(), self.assertRaisesRegex(kvloupe.KvloupeError, "cannot write .*full.h5.part; .*; check the free space"):
            with kvloupe.record(model, path, chunk_size=16):
                model(ids, past_key_values=cache)
                for _ in range(100):
                    model(ids[:, :1], past_key_values=cache)
                resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("full.h5.part").stat().st_size, before[1]))
                try:
                    for step in range(2000):
                        model(ids[:, :1], past_key_values=cache)
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertLess(step, 1999)
        with torch.no_grad():
            self.assertTrue(torch.equal(model(ids).logits, model(ids).logits))
        part = path.with_name("full.h5.part")
        kept = path if path.exists() else part
        self.assertIn("incomplete", program("validate", kept))
        with kvloupe.open(kept) as trace:
            self.assertGreaterEqual(trace.num_tokens, 34 + 64)

    def test_a_full_disk_where_a_run_is_saved(self):
        """One sentence, whatever could not be written, and the runs that were there stay."""
        path = scratch("full-run.h5")
        shutil.copy(recorded("llama"), path)
        sidecar = path.with_name("full-run.h5.runs.h5")
        with kvloupe.open(path) as trace:
            for name in (None, "small"):
                if name:
                    trace.add_run(name, lambda layer, chunk, q, k, v: [[0]] * len(k))
                before = sidecar.read_bytes() if name else None
                limits = [str(size) for size in (1, 500, 2000, 4000, 8000, 12000, 16000, 24000, 32000)]
                done = subprocess.run([sys.executable, "-c", SAVING, path, *limits],
                                      cwd=ROOT / "capture" / "python", capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
                for line in done.stdout.splitlines():
                    self.assertRegex(line, "^cannot save the run in .*full-run.h5.runs.h5; [^;]+; free some space, or")
                self.assertEqual(len(done.stdout.splitlines()), len(limits))
                self.assertEqual(sidecar.read_bytes() if sidecar.exists() else None, before)
                self.assertEqual([file.name for file in path.parent.glob("full-run.h5.*") if file != sidecar], [])
        self.assertIn("sound", program("validate", path))


class Growing(unittest.TestCase):
    def test_many_decoded_tokens(self):
        """Beyond the room of the beginning, in tokens, chunks and text."""
        path, model, ids = scratch("long.h5"), load_model("qwen2"), prompt("qwen2")
        with kvloupe.record(model, path, tokenizer=load_tokenizer("qwen2"), chunk_size=5, dtype="float32"):
            sequences = generate(model, ids, steps=600)
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.tokens.tolist(), sequences[0, :-1].tolist())
            self.assertEqual(trace.text(), load_tokenizer("qwen2").decode(sequences[0, :-1]))
            self.assertEqual(len(trace.chunks), 7 + 600)
            self.assertEqual(trace._files[0]["tokens/generated"][:].tolist(), sequences[0, ids.shape[1] :].tolist())
        output = program("validate", path)
        self.assertIn("sound", output)
        self.assertNotIn("room", output)

    def test_chunked_prefill_and_a_second_turn(self):
        """In one pass or in pieces of any size, with any kind of cache: the same chunks, sums and keys."""
        for family, make in (("llama", transformers.DynamicCache), ("gemma3_text", transformers.DynamicCache),
                             ("gemma3_text", transformers.StaticCache)):
            path, model, ids = scratch(f"pieces-{family}-{make.__name__}.h5"), load_model(family), prompt(family)
            cache = make(config=model.config, max_cache_len=64) if make is transformers.StaticCache else make(config=model.config)
            with kvloupe.record(model, path, chunk_size=16, dtype="float32"), torch.no_grad():
                for begin, end in ((0, 3), (3, 19), (19, 33), (33, 34)):
                    model(ids[:, begin:end], past_key_values=cache)
                model(golden(family)["decode_ids"][None, :2].long(), past_key_values=cache)
            self.assertIn("sound", program("validate", path))
            with kvloupe.open(path) as trace, kvloupe.open(recorded(family)) as whole:
                # Token 33 came alone, and the two after it together.
                table = [(0, 16, "prefill"), (16, 16, "prefill"), (32, 1, "prefill"), (33, 1, "decode"), (34, 2, "prefill")]
                self.assertEqual([tuple(chunk) for chunk in trace.chunks], table)
                for layer in whole.layers:
                    np.testing.assert_allclose(trace.k(layer), whole.k(layer)[:, :36], atol=1e-4)
                    np.testing.assert_allclose(trace.v(layer), whole.v(layer)[:, :36], atol=1e-4)
                    np.testing.assert_allclose(trace.lse(layer), whole.lse(layer)[:, :36], atol=1e-4)
                    masses = [recording._files[0][f"layers/{layer}/key_mass"][: 2 * trace.model["num_kv_heads"] * 24]
                              for recording in (trace, whole)]
                    np.testing.assert_allclose(masses[0], masses[1], atol=1e-4)

    def test_one_row_of_a_batch(self):
        path, model, ids = scratch("batch.h5"), load_model("qwen3"), prompt("qwen3")
        batch = torch.cat([ids.flip(1), ids])
        with kvloupe.record(model, path, batch_index=1, chunk_size=16, dtype="float32"):
            generate(model, batch)
        with kvloupe.open(path) as trace, kvloupe.open(recorded("qwen3")) as alone:
            self.assertEqual(trace.tokens.tolist(), alone.tokens.tolist())
            for layer in alone.layers:
                np.testing.assert_allclose(trace.q(layer), alone.q(layer), atol=1e-4)

    def test_layers_and_stores(self):
        for store in (("qkv",), ("lse",), ("qkv", "mass"), ("lse", "mass")):
            path, model = scratch("stores.h5"), load_model("llama")
            with kvloupe.record(model, path, layers=[1], store=store, force=True), torch.no_grad():
                model(prompt("llama"))
            self.assertIn("sound", program("validate", path))
            with kvloupe.open(path) as trace, kvloupe.open(recorded("llama", "float16")) as whole:
                self.assertEqual(trace.layers, [1])
                group = trace._files[0]["layers/1"]
                names = {"qkv": {"q", "k", "v"}, "lse": {"lse"}, "mass": {"key_mass"}}
                self.assertEqual(set(group), set().union(*(names[name] for name in store)))
                if "lse" in store or "qkv" in store:
                    np.testing.assert_allclose(trace.lse(1), whole.lse(1)[:, : trace.num_tokens], atol=1e-5)


if __name__ == "__main__":
    unittest.main()
