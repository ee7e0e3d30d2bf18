"""Recordings of some heads: what they hold, against recordings of all heads of the same models."""
import functools
import itertools
import unittest
from unittest import mock

import h5py
import numpy as np
import torch
import transformers

import kvloupe
from kvloupe import arguments, recorder

from .class_table_models import build, tokens
from .selector_cases import FREE
from .selector_cases import prompt as words
from .support import CHUNK, MODELS, STEPS, generate, load_model, load_tokenizer, program, program_json, prompt, scratch
from .test_command import run
from .test_estimate import stored

EVERYTHING = ("qkv", "lse", "mass", "probe", "loss")
# Rank over all heads together, or draw by the number of a head.
OVER_ALL_HEADS = {"tova", "less_is_more", "random"}


@functools.lru_cache(maxsize=None)
def model_of(family):
    """Of 8 query heads and 4 KV heads, with weights that were drawn."""
    config = transformers.AutoConfig.from_pretrained(MODELS / family, num_attention_heads=8, num_key_value_heads=4, attn_implementation="eager")
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                parameter.mul_(8)  # so that attention is not flat
            elif name.endswith("sinks"):
                parameter.normal_()
    return model


def recorded(family, heads, store=EVERYTHING, dtype="float32"):
    path = scratch(f"heads-{family}-{heads}-{dtype}-{store}.h5".replace(" ", ""))
    if not path.exists():
        with kvloupe.record(model_of(family), path, tokenizer=load_tokenizer(family), chunk_size=CHUNK, store=store, dtype=dtype, heads=heads):
            generate(model_of(family), prompt(family), **({"logits_to_keep": 0} if store and "probe" in store else {}))
    return path


@functools.lru_cache(maxsize=None)
def long_text(heads):
    """A recording long enough for every method to choose."""
    path = scratch(f"heads-long-{heads}.h5")
    ids = torch.tensor([load_tokenizer("llama")(words().read_text())["input_ids"][:200]])
    with kvloupe.record(model_of("llama"), path, tokenizer=load_tokenizer("llama"), chunk_size=24, store=("qkv", "lse", "probe"), dtype="float32", heads=heads):
        generate(model_of("llama"), ids, logits_to_keep=0)
    return path


class Heads(unittest.TestCase):
    def test_they_are_slices_of_all(self):
        for family, heads in itertools.product(("llama", "gpt_oss"), ([2], [1, 2], [0, 3], [0, 2, 3])):
            q_heads = [2 * head + i for head in heads for i in range(2)]
            with self.subTest(family=family, heads=heads), h5py.File(recorded(family, None)) as whole, h5py.File(recorded(family, heads)) as some:
                self.assertEqual(set(whole["layers"]), set(some["layers"]))
                for name in ("tokens/ids", "tokens/nll", "chunks/begin", "chunks/length"):
                    np.testing.assert_array_equal(some[name][:], whole[name][:])
                for number, layer in whole["layers"].items():
                    other = some["layers"][number]
                    self.assertEqual(set(layer), set(other))
                    for name, chosen in (("q", q_heads), ("k", heads), ("v", heads)):
                        np.testing.assert_array_equal(other[name][:], layer[name][:][chosen])
                    np.testing.assert_array_equal(other["probe_q"][:], layer["probe_q"][:][:, q_heads])
                    np.testing.assert_allclose(other["lse"][:], layer["lse"][:][q_heads], atol=1e-5)
                    for ours, all_heads in zip(masses(some, other, len(heads)), masses(whole, layer, 4), strict=True):
                        np.testing.assert_allclose(ours, all_heads[heads], atol=1e-5)
                    self.assertEqual("sink_logit" in layer.attrs, family == "gpt_oss")
                    if family == "gpt_oss":
                        np.testing.assert_array_equal(other.attrs["sink_logit"], layer.attrs["sink_logit"][q_heads])
            path = recorded(family, heads)
            self.assertIn("sound", program("validate", path))
            self.assertEqual(program_json("info", path)["model"]["kv_heads"], ",".join(map(str, heads)))
            self.assertIn(f"KV heads {','.join(map(str, heads))} of the model", program("info", path))

    def test_of_other_classes_and_calls(self):
        """Latent attention, heads without groups, a softcap; padding, a row of a batch, a cache that has its room beforehand."""
        paths = [scratch(f"heads-class-{which}.h5") for which in ("all", "some")]
        for name, heads, options in (("DeepseekV3ForCausalLM", [1, 3], {}), ("GPT2LMHeadModel", [0, 3], {}), ("Gemma2ForCausalLM", [1], {}),
                                     ("Qwen2ForCausalLM", [1], dict(cache_implementation="static"))):
            model, ids = build(name, "eager"), tokens().repeat(2, 1)
            mask = torch.ones_like(ids)
            mask[1, :3] = 0
            for path, chosen in zip(paths, (None, heads)):
                with kvloupe.record(model, path, chunk_size=8, dtype="float32", store=("qkv", "lse", "mass"), batch_index=1, heads=chosen, force=True):
                    model.generate(ids, attention_mask=mask, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0, **options)
            with self.subTest(name=name), h5py.File(paths[0]) as whole, h5py.File(paths[1]) as some:
                self.assertEqual((some["chunks/begin"].shape, some["layers/0/q"].shape[1]), (whole["chunks/begin"].shape, 29))
                for number, layer in whole["layers"].items():
                    other, group = some["layers"][number], layer["q"].shape[0] // layer["k"].shape[0]
                    q_heads = [head * group + i for head in heads for i in range(group)]
                    for array, chosen in (("q", q_heads), ("k", heads), ("v", heads), ("lse", q_heads)):
                        np.testing.assert_allclose(other[array][:], layer[array][:][chosen], atol=1e-5 if array == "lse" else 0)
                    for ours, all_heads in zip(masses(some, other, len(heads)), masses(whole, layer, len(layer["k"])), strict=True):
                        np.testing.assert_allclose(ours, all_heads[heads], atol=1e-5)

    def test_what_the_trace_says(self):
        with kvloupe.open(recorded("llama", [0, 2, 3])) as trace, h5py.File(trace.path, locking=False) as file:
            self.assertEqual([trace.model[name] for name in ("num_q_heads", "num_kv_heads", "kv_heads", "file_hash")], [6, 3, [0, 2, 3], ""])
            self.assertEqual(file["model"].attrs["kv_heads"], "0,2,3")
            self.assertEqual(trace.info["model"]["kv_heads"], [0, 2, 3])
            self.assertEqual(trace.warnings, [])
        path = recorded("llama", range(4))
        with kvloupe.open(path) as trace, kvloupe.open(recorded("llama", None)) as whole:
            # All of them named are no choice.
            self.assertEqual(trace.model, whole.model)
            self.assertNotEqual(trace.model["file_hash"], "")
            self.assertNotIn("kv_heads", trace.info["model"])

    def test_a_wrong_attribute_is_left_out(self):
        for value in ("0", "0,2,2", "2,1,0", "-1,0,1", "0,1,1048576", "0,1,2.0", "heads", "", [0, 1, 2]):
            path = scratch("heads-wrong.h5")
            path.write_bytes(recorded("llama", [0, 2, 3]).read_bytes())
            with h5py.File(path, "r+") as file:
                del file["model"].attrs["kv_heads"]
                file["model"].attrs["kv_heads"] = value
            with self.subTest(value=value), kvloupe.open(path) as trace:
                self.assertEqual(trace.model["kv_heads"], [])
                self.assertIn("kv_heads of /model", " ".join(trace.warnings))

    def test_methods_keep_what_they_keep_of_all_heads(self):
        heads, other = (0, 2, 3), set()
        for spec in FREE:
            whole, some = (program_json("select", long_text(chosen), "--method", spec, "--threads", 1) for chosen in (None, heads))
            with self.subTest(spec=spec):
                chosen = 0
                for layer, of_heads in zip(whole["layers"], some["layers"], strict=True):
                    for chunk, cell in zip(layer["chunks"], of_heads["chunks"], strict=True):
                        self.assertEqual(chunk["dense_reason"], cell["dense_reason"])
                        chosen += cell["dense_reason"] is None
                        if rows_of(cell) != rows_of(chunk, heads):
                            other.add(spec.split(":")[0] + (":per_kv_head" if "per_kv_head" in spec else ""))
                self.assertEqual(chosen > 0, spec != "dense")
        self.assertEqual(other, OVER_ALL_HEADS)

    def test_the_estimate(self):
        model, tokens = model_of("llama"), prompt("llama").shape[1]
        for heads in ([2], [0, 2, 3], None):
            said = kvloupe.estimate(model, tokens, new_tokens=STEPS + 1, chunk_size=CHUNK, dtype="float32", heads=heads)
            self.assertEqual(said, stored(recorded("llama", heads, store=None)), heads)
        whole, half = (kvloupe.estimate(model, 64, heads=heads) for heads in (None, [1, 3]))
        self.assertEqual({part: 2 * size for part, size in half.items()}, whole)

    def test_the_command(self):
        path = scratch("heads-command.h5")
        code, errors, _ = run("record", MODELS / "olmoe", "--prompt-file", "-", "--heads", "0,2-3", "--layers", "1", "--force", "-o", path, given="the cat sat")
        self.assertEqual(code, 0, errors)
        with kvloupe.open(path) as trace:
            self.assertEqual((trace.model["kv_heads"], trace.layers), ([0, 2, 3], [1]))
        self.assertIsNone(arguments.heads("all"))
        for text in ("", "x", "-1", "1-", "3-1", "0,,1", "1.5", "99999", "\u0664", "9" * 5000):
            with self.subTest(text=text[:9]):
                code, errors, _ = run("record", MODELS / "olmoe", "--prompt-file", "-", "--heads=" + text, "-o", scratch("none.h5"))
                self.assertEqual((code, errors.count("\n"), errors[: 13 + len("cannot")].startswith("error: --heads")), (2, 1, True), errors[:200])
        code, errors, _ = run("record", MODELS / "olmoe", "--prompt-file", "-", "--heads", "4", "-o", scratch("none.h5"), given="the cat")
        self.assertEqual((code, errors), (1, "error: KV head 4 cannot be recorded; the model has the KV heads 0 to 3; name heads of the model\n"))

    def test_what_is_refused(self):
        never = itertools.count()
        for heads, words in (([4], "KV head 4 cannot be recorded; the model has the KV heads 0 to 3"), ([-1, 0], "KV head -1"), ([], r"heads=\[\] records nothing"),
                             ([1 << 80], "KV head 1208"), ("0,2", "heads= cannot be used"), (b"\0\1", "heads="), (2, "heads="), ([0.0], "heads="), ([True], "heads="),
                             (np.array([True, False]), "heads="), ([None], "heads="), ([[0]], "heads="), (np.array(1), "heads="), ({"a": 1}, "heads="), (never, "heads=")):
            for refuse in (lambda: kvloupe.record(model_of("llama"), scratch("none.h5"), heads=heads), lambda: kvloupe.estimate(model_of("llama"), 8, heads=heads)):
                with self.subTest(heads=str(heads)), self.assertRaisesRegex(kvloupe.KvloupeError, words) as caught:
                    refuse()
                self.assertEqual(str(caught.exception).count("; "), 2)
        self.assertFalse(scratch("none.h5").exists())
        with self.assertRaisesRegex(kvloupe.KvloupeError, "KV head 1 cannot be recorded; the model has one KV head, 0; "):
            kvloupe.record(load_model("gemma3_text"), scratch("none.h5"), heads=[1])
        with mock.patch.object(recorder, "rank_of_process", lambda: (0, 2)), self.assertRaisesRegex(kvloupe.KvloupeError, "spread over processes"):
            kvloupe.record(model_of("llama"), scratch("none.h5"), heads=[1])

    def test_numbers_of_numpy_and_any_order(self):
        for heads in (np.array([2, 0]), (head for head in (2, 0, 2)), {0, 2}, np.array([0, 2], np.uint8), torch.tensor([0, 2])):
            path = scratch("heads-order.h5")
            with kvloupe.record(model_of("llama"), path, heads=heads, force=True, store=("qkv",)), torch.no_grad():
                model_of("llama")(prompt("llama"))
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.model["kv_heads"], [0, 2])

    def test_a_configuration_that_names_more_heads_than_a_layer_has(self):
        model = load_model("gemma3_text")
        with mock.patch.object(recorder, "num_kv_heads_of", lambda _: 4), self.assertRaisesRegex(kvloupe.KvloupeError, "one KV head, 0"), torch.no_grad():
            with kvloupe.record(model, scratch("none.h5"), heads=[0, 3]):
                model(prompt("gemma3_text"))
        self.assertFalse(scratch("none.h5").exists())


def masses(file, layer, num_heads):
    """[KV heads, keys] of each prefill chunk."""
    offsets = file["chunks/mass_offsets"][:]
    return [layer["key_mass"][begin:end].reshape(num_heads, -1) for begin, end in zip(offsets, offsets[1:]) if end > begin]


def rows_of(cell, heads=None):
    """What each row keeps; of these KV heads alone, which share the rows evenly."""
    rows = next((cell[axis] for axis in ("kv_heads", "q_heads", "subgroups") if axis in cell), [])
    kept = [row["selected"] for row in rows]
    per_head = len(kept) // 4
    return kept if heads is None else [kept[head * per_head + i] for head in heads for i in range(per_head)]


if __name__ == "__main__":
    unittest.main()
