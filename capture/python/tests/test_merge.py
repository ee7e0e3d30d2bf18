"""Models that are spread over processes: their parts, joined, are the trace of the whole."""
import os
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import h5py
import numpy as np
import torch

import kvloupe
from kvloupe import recorder

from .support import CHUNK, FAMILIES, ROOT, generate, load_model, load_tokenizer, program, program_json, prompt, recorded, scratch

# A rank of a tensor-parallel model on the CPU.
RANK = """
import sys, warnings
from tests.support import *
from transformers.distributed import DistributedConfig
family, path = sys.argv[1:]
model = transformers.AutoModelForCausalLM.from_pretrained(
    MODELS / family, dtype=torch.float32, attn_implementation="eager", distributed_config=DistributedConfig(tp_plan="auto"))
with kvloupe.record(model, path, tokenizer=load_tokenizer(family), chunk_size=CHUNK, dtype="float32", spans={"needle": (3, 7)}):
    generate(model, prompt(family))
torch.distributed.destroy_process_group()
"""

# Merges where files may grow as far as is told.
MERGING = """
import resource, sys
import kvloupe
limit, path, *parts = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    kvloupe.merge(parts, path)
except kvloupe.KvloupeError as error:
    print(error)
"""


def record_rank(family, path, rank, layers):
    """A rank of a model whose layers are spread over two processes."""
    with mock.patch.object(recorder, "rank_of_process", lambda: (rank, 2)):
        with kvloupe.record(load_model(family), path, tokenizer=load_tokenizer(family), chunk_size=CHUNK, dtype="float32", layers=layers,
                            spans={"needle": (3, 7)}):
            generate(load_model(family), prompt(family))
    return path.with_name(f"{path.name}.rank{rank}")


def halve(path, rank):
    """Takes away what the other rank of a tensor-parallel model has."""
    with h5py.File(path, "r+") as part:
        part.attrs["part_rank"] = rank
        for axis in "q", "kv":
            half = part.attrs[f"{axis}_end"] // 2
            part.attrs[f"{axis}_begin"], part.attrs[f"{axis}_end"] = rank * half, (rank + 1) * half
        lengths = zip(part["chunks/begin"][:] + part["chunks/length"][:], part["chunks/phase"][:])
        ends = [end for end, phase in lengths if phase == 0]
        part["chunks/mass_offsets"][:] //= 2
        for group in part["layers"].values():
            if "sink_logit" in group.attrs:
                sinks = group.attrs["sink_logit"]
                group.attrs["sink_logit"] = sinks[rank * len(sinks) // 2 : (rank + 1) * len(sinks) // 2]
            for name in "q", "k", "v", "lse":
                rows = group[name][:]
                del group[name]
                group[name] = rows[rank * len(rows) // 2 : (rank + 1) * len(rows) // 2]
            at, masses = 0, []
            for end in ends:
                heads = group["key_mass"].shape[0] // sum(ends)
                masses.append(group["key_mass"][at : at + heads * end].reshape(heads, end)[rank * heads // 2 : (rank + 1) * heads // 2])
                at += heads * end
            del group["key_mass"]
            group["key_mass"] = np.concatenate([mass.ravel() for mass in masses])


class Merge(unittest.TestCase):
    def check_equal(self, path, family, atol):
        """Every dataset and attribute but when and how large."""
        with h5py.File(path) as merged, h5py.File(recorded(family)) as whole:
            self.assertEqual(dict(merged["model"].attrs).keys(), dict(whole["model"].attrs).keys())
            for name, value in whole["model"].attrs.items():
                np.testing.assert_array_equal(merged["model"].attrs[name], value, name)
            names = []
            whole.visit(lambda name: names.append(name) if isinstance(whole[name], h5py.Dataset) else None)
            self.assertGreater(len(names), 10)
            for name in names:
                if whole[name].dtype.kind == "f":
                    np.testing.assert_allclose(merged[name][:], whole[name][:], atol=atol, err_msg=name)
                else:
                    np.testing.assert_array_equal(merged[name][:], whole[name][:], name)
                for key, value in whole[name].attrs.items():
                    np.testing.assert_array_equal(merged[name].attrs[key], value, key)
            for layer in whole["layers"]:
                for key, value in whole["layers"][layer].attrs.items():
                    np.testing.assert_array_equal(merged["layers"][layer].attrs[key], value, key)
        self.assertIn("sound", program("validate", path))
        methods = [program_json("select", at, "--method", "oracle:budget_tokens=5")["layers"] for at in (path, recorded(family))]
        for merged_layer, whole_layer in zip(*methods):
            self.assertEqual([[row["selected"] for row in chunk["kv_heads"]] for chunk in merged_layer["chunks"]],
                             [[row["selected"] for row in chunk["kv_heads"]] for chunk in whole_layer["chunks"]])

    def test_tensor_parallel_processes(self):
        path, script, folder = scratch("parallel.h5"), scratch("rank.py"), ROOT / "capture" / "python"
        script.write_text(RANK)
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, "qwen2", path],
                       cwd=folder, check=True, capture_output=True, timeout=240,
                       env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"})
        parts = [path.with_name(f"{path.name}.rank{rank}") for rank in (0, 1)]
        with h5py.File(parts[1]) as part:
            self.assertEqual(part["layers/0/q"].shape[0], 2)
            self.assertEqual(part["layers/0/k"].shape[0], 1)
        subprocess.run([sys.executable, "-m", "kvloupe", "merge", *parts, "-o", path], cwd=folder, check=True, timeout=60)
        self.check_equal(path, "qwen2", 1e-4)

    def test_heads_on_two_ranks(self):
        """Of every family: a part with all heads, cut in two."""
        for family in FAMILIES:
            with self.subTest(family=family):
                path = scratch(f"heads-{family}.h5")
                whole = record_rank(family, path, 0, None)
                if load_model(family).config.num_key_value_heads == 1:
                    continue
                parts = [whole.with_name(f"{whole.name}.half{rank}") for rank in (0, 1)]
                for rank, part in enumerate(parts):
                    shutil.copy(whole, part)
                    halve(part, rank)
                kvloupe.merge(parts, path)
                self.check_equal(path, family, 0)

    def test_layers_on_two_processes(self):
        path = scratch("pipeline.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        kvloupe.merge(reversed(parts), path)
        self.check_equal(path, "llama", 0)

    def test_ranks_that_hold_the_same(self):
        path = scratch("replicas.h5")
        parts = [record_rank("llama", path, rank, None) for rank in (0, 1)]
        kvloupe.merge(parts, path)
        self.check_equal(path, "llama", 0)

    def test_parts_cut_short(self):
        """What all ranks have done."""
        path = scratch("short.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        with h5py.File(parts[1], "r+") as part:
            part.attrs.modify("chunks_done", np.int64(4))
            part.attrs.modify("complete", np.int64(0))
        kvloupe.merge(parts, path)
        with kvloupe.open(path) as trace:
            self.assertEqual((len(trace.chunks), trace.complete), (4, False))
        self.assertIn("incomplete", program("validate", path))

    def test_refusals(self):
        path = scratch("refused.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        other = scratch("other.h5")
        with mock.patch.object(recorder, "rank_of_process", lambda: (1, 2)):
            with kvloupe.record(load_model("llama"), other, chunk_size=CHUNK, dtype="float32", layers=[2]), torch.no_grad():
                load_model("llama")(prompt("llama").flip(1))
        stranger = record_rank("qwen2", scratch("stranger.h5"), 1, [2])
        cases = (([], "there are none"), (parts[:1], "ranks \\[0\\] of 2"), ([parts[0]] * 2, "ranks \\[0, 0\\] of 2"),
                 ([parts[0], other.with_name("other.h5.rank1")], "other (tokens|chunks)"), ([parts[0], stranger], "of another model"),
                 ([recorded("llama")], "is not a part of a trace"), ([scratch("absent.h5")], "cannot read"))
        for given, sentence in cases:
            with self.assertRaisesRegex(kvloupe.KvloupeError, sentence):
                kvloupe.merge(given, path)
            self.assertFalse(path.exists())
        with h5py.File(parts[0], "r+") as part:
            part.attrs.modify("kv_end", np.int64(1))
            part.attrs.modify("q_end", np.int64(2))
        with self.assertRaisesRegex(kvloupe.KvloupeError, "KV head 1 of layer 0 is in none of them"):
            kvloupe.merge(parts, path)
        with h5py.File(parts[0], "r+") as part:
            part.attrs.modify("kv_end", np.int64(2))
            part.attrs.modify("q_end", np.int64(4))
            del part["layers/1/v"]
        with self.assertRaisesRegex(kvloupe.KvloupeError, "/layers/1/v is missing"):
            kvloupe.merge(parts, path)
        self.assertFalse(path.exists() or path.with_name("refused.h5.part").exists())

    def test_a_part_is_not_written_over(self):
        path = scratch("over.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        whole = [part.read_bytes() for part in parts]
        linked = scratch("over-link.h5")
        linked.symlink_to(parts[1])
        begun = parts[0].rename(path.with_name("over.h5.part"))  # as the output is called while it is written
        for given, output in (([begun, parts[1]], parts[1]), ([begun, parts[1]], linked), ([begun, parts[1]], path)):
            with self.subTest(output=output.name), self.assertRaisesRegex(kvloupe.KvloupeError, "it is one of the files that are read"):
                kvloupe.merge(given, output, force=True)
            self.assertTrue([part.read_bytes() for part in given] == whole)  # megabytes, whose difference nobody reads
        self.assertFalse(path.exists() or parts[1].with_name("over.h5.rank1.part").exists())

    def test_a_full_disk(self):
        """One sentence, and nothing of the trace is left, which the parts still hold."""
        path = scratch("full-merge.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        for limit in (1, 2000, 20000, 100000):  # Each in a process of its own: HDF5 does not forget a file that it could not close.
            done = subprocess.run([sys.executable, "-c", MERGING, str(limit), path, *parts],
                                  cwd=ROOT / "capture" / "python", capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            self.assertRegex(done.stdout, "^cannot write .*full-merge.h5; [^;]+; check the free space\\n$")
            self.assertFalse(path.exists() or path.with_name("full-merge.h5.part").exists())
        kvloupe.merge(parts, path)
        self.check_equal(path, "llama", 0)

    def test_a_damaged_part(self):
        path = scratch("damaged-merge.h5")
        parts = [record_rank("llama", path, 0, [0, 1]), record_rank("llama", path, 1, [2])]
        whole = parts[1].read_bytes()

        def no_group_of_model(part):
            del part["model"]
            part["model"] = 3

        def text_of_another_kind(part):
            del part["tokens/generated"]
            part.create_group("tokens/generated")

        def no_mass_offsets(part):
            del part["chunks/mass_offsets"]

        def an_array_for_a_number(part):
            part.attrs["part_rank"] = [1, 2]

        for damage in (no_group_of_model, text_of_another_kind, no_mass_offsets, an_array_for_a_number):
            parts[1].write_bytes(whole)
            with h5py.File(parts[1], "r+") as file:
                damage(file)
            with self.subTest(damage=damage.__name__), self.assertRaisesRegex(kvloupe.KvloupeError, "^cannot [^;]+; [^;]+; record again$"):
                kvloupe.merge(parts, path)
            self.assertFalse(path.exists() or path.with_name("damaged-merge.h5.part").exists())
        for begin in range(0, len(whole), len(whole) // 40):
            parts[1].write_bytes(whole[:begin] + bytes(byte ^ 0x5A for byte in whole[begin : begin + 64]) + whole[begin + 64 :])
            try:
                kvloupe.merge(parts, path, force=True)
            except kvloupe.KvloupeError:
                self.assertFalse(path.with_name("damaged-merge.h5.part").exists())

    def test_the_program_takes_a_part_for_no_trace(self):
        part = record_rank("llama", scratch("alone.h5"), 0, [0])
        program("info", part, expect=1)
        with self.assertRaisesRegex(kvloupe.KvloupeError, "is not a KVLoupe trace"):
            kvloupe.open(part)


if __name__ == "__main__":
    unittest.main()
