"""The command line, the README's lines, and the text of tokens."""
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import h5py
import numpy as np
import tokenizers
import torch
import transformers

import kvloupe
from kvloupe import arguments
from kvloupe.__main__ import main
from kvloupe.token_text import TokenText, byte_table
from kvloupe.weights_hash import hash_of_folder, hash_of_model

from .support import FAMILIES, MODELS, ROOT, load_model, load_tokenizer, program, prompt, scratch

FOLDER = ROOT / "capture" / "python"


def run(*arguments, given=""):
    """(exit code, standard error, standard output) of the command, in this process."""
    errors, output = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(output), \
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode()))):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    return code, errors.getvalue(), output.getvalue()


class Command(unittest.TestCase):
    def record(self, *arguments, expect=0, given=""):
        path = scratch("command.h5")
        code, errors, self.output = run("record", *arguments, "--force", "-o", path, given=given)
        self.assertEqual(code, expect, errors)
        return path if expect == 0 else errors.strip().splitlines()[-1]

    def test_a_folder_and_a_prompt(self):
        question, tokenizer = scratch("question.txt"), load_tokenizer("gemma3_text")
        question.write_text("the cat sat on the mat")
        path = self.record(MODELS / "gemma3_text", "--prompt-file", question, "--chunk-size", 16, "--max-new-tokens", 3,
                           "--dtype", "float32", "--layers", "1-2")
        wrapped = "<|begin_of_text|><|user|>the cat sat on the mat<|end_of_text|><|assistant|>"
        ids = tokenizer(wrapped, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            expected = load_model("gemma3_text", "sdpa").generate(
                torch.tensor([ids]), max_new_tokens=3, do_sample=False, use_cache=True)[0].tolist()
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.layers, [1, 2])
            self.assertEqual(trace.tokens.tolist(), expected[:-1])
            self.assertTrue(trace.text().startswith(wrapped))
            self.assertEqual([chunk.phase for chunk in trace.chunks][-2:], ["decode"] * 2)
        self.assertIn("sound", program("validate", path))
        size = f"{path.stat().st_size / 2**20:.1f} MiB"
        self.assertRegex(self.output, f"^{path}\n{len(expected) - 1} tokens in {len(trace.chunks)} chunks, 2 of 4 layers, {size}, "
                         "recorded in [0-9.]+ s\n$")

    def test_what_is_stored(self):
        for store, layer, tokens in (((), {"q", "k", "v", "lse", "key_mass"}, set()), (("--store", "qkv"), {"q", "k", "v"}, set()),
                                     (("--store", "qkv,mass"), {"q", "k", "v", "key_mass"}, set()),
                                     (("--store", "lse,probe,qkv"), {"q", "k", "v", "lse", "probe_q"}, {"nll"}),
                                     (("--store", "loss", "--max-new-tokens", 2), set(), {"nll"})):
            path = self.record(MODELS / "llama", "--prompt-file", "-", "--chunk-size", 4, *store, given="the cat sat")
            with h5py.File(path) as file:
                self.assertEqual(set(file["layers/2"]), layer, store)
                self.assertEqual(set(file["tokens"]) & {"nll"}, tokens, store)
            self.assertIn("sound", program("validate", path))

    def test_spans_by_their_text(self):
        """The same as those of the program's own capture."""
        text = scratch("spans.txt")
        text.write_text("one cat, two cats; caf\u00e9 cat \u4e16\u754c")
        named = ["--span", "animal=cat", "--span", "place=af\u00e9", "--span", "letter=\u754c"]
        path, own = self.record(MODELS / "llama", "--prompt-file", text, "--raw", *named), scratch("own-spans.h5")
        program("capture", "--model", MODELS / "llama", "--prompt-file", text, "--raw", *named, "-o", own)
        with kvloupe.open(path) as trace, kvloupe.open(own) as expected:
            self.assertEqual([tuple(span) for span in trace.spans], [tuple(span) for span in expected.spans])
            spans = {span.name: (span.begin, span.end) for span in trace.spans}
            self.assertEqual(set(spans), {"animal", "animal.2", "animal.3", "place", "letter"})
            for name, word in (("animal", "cat"), ("animal.3", "cat"), ("place", "af\u00e9")):
                self.assertIn(word, trace.text(*spans[name]))
        for given, sentence in ((["--span", "a=dog"], "--span a marks nothing; the prompt does not hold the text 'dog'; write"),
                                (["--span", "a=cat", "--span", "a.2=two"], "--span a.2 cannot be added; there is a span a.2 already")):
            self.assertIn(sentence, self.record(MODELS / "llama", "--prompt-file", text, "--raw", *given, expect=1))

    def test_a_file_that_exists_is_said_before_anything_is_loaded(self):
        path = scratch("mine.h5")
        path.write_bytes(b"mine")
        for given in ([], ["--prompt-file", scratch("absent.txt")]):
            code, errors, output = run("record", scratch("absent"), *(given or ["--prompt-file", "-"]), "-o", path)
            self.assertEqual((code, output), (1, ""))
            self.assertRegex(errors, f"^error: {path} exists; a recording would replace it; give force=True")
        self.assertEqual(path.read_bytes(), b"mine")
        left, nowhere = scratch("left.h5.part"), scratch("absent") / "t.h5"
        left.write_bytes(b"chunks")
        self.assertIn("was cut short", run("record", "m", "--prompt-file", "-", "-o", scratch("left.h5"))[1])
        text = scratch("prompt.txt")
        text.write_text("a prompt")
        self.assertIn("one of the files that are read", run("record", "m", "--prompt-file", text, "-o", text, "--force")[1])
        self.assertEqual(text.read_text(), "a prompt")
        self.assertIn("there is no folder", run("record", "m", "--prompt-file", "-", "-o", nowhere)[1])

    def test_control_c(self):
        path = scratch("stopped.h5")

        def stop(*_, **__):
            raise KeyboardInterrupt
        with mock.patch("transformers.LlamaForCausalLM.generate", stop):
            code, errors, _ = run("record", MODELS / "llama", "--prompt-file", "-", "--raw", "--chunk-size", 8, "--max-new-tokens", 2,
                                  "-o", path, given="a" * 20)
        self.assertEqual(code, 130)
        self.assertRegex(errors.splitlines()[-1], "error: the recording was stopped; .*; .*stopped.h5 holds 16 of 20 tokens: open it")
        with kvloupe.open(path) as trace:
            self.assertEqual((trace.num_tokens, trace.complete), (16, False))

    def test_threads_spin_briefly_unless_told_otherwise(self):
        text = scratch("waiting.txt")
        text.write_text("the cat sat")
        plain = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}

        def spins(**setting):
            done = subprocess.run([sys.executable, "-m", "kvloupe", "record", MODELS / "llama", "--prompt-file", text, "--raw", "--force",
                                   "-o", scratch("waiting.h5")], env={**plain, "OMP_DISPLAY_ENV": "verbose", **setting},
                                  capture_output=True, text=True, timeout=300, check=True)
            return re.findall("GOMP_SPINCOUNT = '([0-9]+)'", done.stderr)
        self.assertEqual(spins(), ["3000"])  # As the program's, in tests/cli/start_test.sh.
        self.assertEqual(spins(GOMP_SPINCOUNT="77"), ["77"])
        self.assertNotIn("3000", spins(OMP_WAIT_POLICY="active"))

    def test_messages_and_raw_text(self):
        messages = scratch("messages.json")
        messages.write_text(json.dumps([{"role": "system", "content": "short"}, {"role": "user", "content": "hi"}]))
        with kvloupe.open(self.record(MODELS / "llama", "--messages", messages)) as trace:
            self.assertEqual(trace.text(), "<|begin_of_text|><|system|>short<|end_of_text|><|user|>hi<|end_of_text|><|assistant|>")
        # A last chunk of one token is prefill all the same.
        text = "a" * 17
        with kvloupe.open(self.record(MODELS / "qwen3", "--prompt-file", "-", "--raw", "--chunk-size", 8, given=text)) as trace:
            self.assertEqual(trace.text(), text)
            self.assertEqual([tuple(chunk) for chunk in trace.chunks], [(0, 8, "prefill"), (8, 8, "prefill"), (16, 1, "prefill")])

    def test_what_goes_wrong(self):
        self.assertRegex(self.record(scratch("absent"), "--prompt-file", "-", expect=1, given="x"), "error: cannot load .*absent; ")
        self.assertRegex(self.record(MODELS / "llama", "--prompt-file", scratch("absent.txt"), expect=1), "error: cannot read .*; ")
        self.assertRegex(self.record(MODELS / "llama", "--prompt-file", "-", "--raw", expect=1, given=""), "the prompt has no tokens")
        self.assertRegex(self.record(MODELS / "llama", "--prompt-file", "-", "--layers", "2-9", expect=1, given="x"),
                         "the model has the layers 0 to 2")
        self.assertRegex(self.record(MODELS / "llama", "--prompt-file", "-", "--device", "cuda:77", expect=1, given="x"),
                         "error: --device cuda:77 cannot be used; .*; ")

    def test_values_that_mean_nothing(self):
        for given, sentence in ((("--chunk-size", 0), "--chunk-size cannot take '0'"), (("--chunk-size", "x"), "--chunk-size cannot take 'x'"),
                                (("--layers", "2-1"), "--layers cannot take '2-1'"), (("--layers", "0-99999999"), "--layers cannot"),
                                (("--layers", ","), "--layers cannot take ','"), (("--layers", "-1"), "--layers"),
                                (("--dtype", "bf16"), "invalid choice: 'bf16'"), (("--store", ""), "--store cannot take ''"),
                                (("--store", "qkv,nll"), "--store cannot take 'nll'"), (("--max-new-tokens", "-1"), "--max-new-tokens"),
                                (("--span", "a"), "--span cannot take 'a'"), (("--span", "=a: b"), "--span cannot take '=a: b'"),
                                (("--span", "a=b", "--span", "a=c"), "--span names a twice"), (("--what",), "--what"), ((), "-o")):
            code, errors, output = run("record", "absent", "--prompt-file", "absent", *(["-o", scratch("x.h5")] if given else []), *given)
            self.assertEqual((code, output), (2, ""), given)
            last = errors.splitlines()[-1]
            self.assertTrue(last.startswith("error: ") and sentence in last and last.count("; ") == 2, last)
        self.assertEqual(run()[0], 2)

    def test_lists_of_layers(self):
        for text, expected in (("all", None), ("3", [3]), ("3-5", [3, 4, 5]), ("7,3", [3, 7]), ("0-1,1-2", [0, 1, 2])):
            self.assertEqual(arguments.layers(text), expected)

    def test_the_lines_of_the_readme(self):
        blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.S)
        self.assertEqual(len(blocks), 7)
        names = {"model": load_model("llama"), "tokenizer": load_tokenizer("llama"), "kvloupe": kvloupe,
                 "inputs": load_tokenizer("llama")("the cat and the dog sat on the mat", return_tensors="pt", return_token_type_ids=False),
                 "layer": 0, "past": 0}
        draw = np.random.default_rng(0).standard_normal
        names |= {name: draw((heads, 32, 64), dtype=np.float32) for name, heads in (("q", 16), ("k", 4), ("v", 4))}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for block in blocks:
                    exec(block, names)  # What a user would paste.
                for name in "t.h5", "losses.h5", "sparse.h5":
                    self.assertIn("sound", program("validate", name))
            finally:
                os.chdir(before)
        self.assertEqual(names["run"].method, "custom:small_norm")
        self.assertEqual(len(names["worst"]), 5)
        self.assertIn("</svg>", names["figure"]._repr_svg_())
        self.assertEqual([len(row) for row in names["rows"]], [0, 0, 0, 0])  # nothing lies before the first chunk
        names["trace"].close()

    def test_the_versions_are_one(self):
        project = re.search(r"project\(kvloupe VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(kvloupe.version.__version__, project)
        schema = re.search(r"This page describes ([0-9]+\.[0-9]+)\.", (ROOT / "core" / "trace" / "FORMAT.md").read_text())[1]
        # The recorder may write an older minor version than the program: readers take both.
        written, described = (tuple(map(int, text.split("."))) for text in (kvloupe.layout.SCHEMA_VERSION, schema))
        self.assertEqual(written[0], described[0])
        self.assertLessEqual(written[1], described[1])


class Text(unittest.TestCase):
    def test_byte_level_tokens_are_their_bytes(self):
        text = "the cat \u00e9\u4e16\u754c \U0001f600\n\t42"
        tokenizer = load_tokenizer("llama")
        ids = tokenizer(text)["input_ids"]
        pieces = [TokenText(tokenizer).bytes_of(id) for id in ids]
        self.assertEqual(b"".join(pieces), text.encode())
        self.assertIn(b"the", [piece.strip() for piece in pieces])
        self.assertEqual(sorted(byte_table().values()), list(range(256)))
        special = tokenizer.convert_tokens_to_ids("<|end_of_text|>")
        self.assertEqual(TokenText(tokenizer).bytes_of(special), b"<|end_of_text|>")
        self.assertEqual(TokenText(tokenizer).bytes_of(9999), b"")

    def test_pieces_with_byte_fallback(self):
        """As Gemma's and Llama 2's: blanks are U+2581, and bytes without a piece of their own are spelled."""
        words = ["<unk>", "\u2581", "the", "\u2581cat", "\u00e9"] + [f"<0x{byte:02X}>" for byte in range(256)]
        model = tokenizers.models.BPE(vocab={word: id for id, word in enumerate(words)}, merges=[], unk_token="<unk>", byte_fallback=True)
        backend = tokenizers.Tokenizer(model)
        backend.decoder = tokenizers.decoders.Sequence([
            tokenizers.decoders.Replace("\u2581", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
        texts = TokenText(transformers.PreTrainedTokenizerFast(tokenizer_object=backend))
        self.assertEqual([texts.bytes_of(id) for id in (1, 2, 3, 4, 5 + 0xE4, 5 + 10)],
                         [b" ", b"the", b" cat", "\u00e9".encode(), b"\xe4", b"\n"])


    def test_added_words_have_blanks_as_others_do(self):
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"<unk>": 0, "a": 1}, merges=[], unk_token="<unk>"))
        backend.normalizer, backend.decoder = tokenizers.normalizers.Replace(" ", "\u2581"), tokenizers.decoders.Replace("\u2581", " ")
        backend.add_tokens([tokenizers.AddedToken("\u2581\u2581", normalized=True)])
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
        ids = tokenizer("a  a", add_special_tokens=False)["input_ids"]
        self.assertEqual(len(ids), 3)
        self.assertEqual(b"".join(TokenText(tokenizer).bytes_of(id) for id in ids), b"a  a")


class Weights(unittest.TestCase):
    def test_a_model_of_a_configuration_has_not_the_files_of_its_folder(self):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(MODELS / "llama"))
        model.config._name_or_path = str(MODELS / "llama")
        self.assertNotEqual(hash_of_model(model), hash_of_folder(MODELS / "llama"))
        half = transformers.AutoModelForCausalLM.from_pretrained(MODELS / "llama", dtype=torch.bfloat16)
        self.assertEqual(hash_of_model(half), hash_of_folder(MODELS / "llama"))

    def test_the_hash_is_that_of_the_files(self):
        for family in FAMILIES:
            files = sorted((MODELS / family).glob("model*.safetensors"))
            expected = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
            self.assertEqual(hash_of_folder(MODELS / family), expected)
            self.assertEqual(hash_of_model(load_model(family)), expected)
        self.assertEqual(len(sorted((MODELS / "olmoe").glob("model*.safetensors"))), 2)

    def test_a_model_without_files(self):
        config = load_model("llama").config
        models = [transformers.LlamaForCausalLM(config) for _ in range(2)]
        for model in models:
            model.config._name_or_path = ""
        hashes = [hash_of_model(model) for model in models]
        self.assertNotEqual(*hashes)
        self.assertEqual(hashes[0], hash_of_model(models[0]))
        load_model("llama").config._name_or_path = str(MODELS / "llama")


class Architectures(unittest.TestCase):
    """Models that no family covers, on the same interface."""

    def check(self, config, **expected):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        path = scratch("architecture.h5")
        outputs = []
        with kvloupe.record(model, path, chunk_size=8, dtype="float32", force=True), torch.no_grad():
            handles = [layer.self_attn.o_proj.register_forward_pre_hook(lambda _, given: outputs.append(given[0][0].numpy()))
                       for layer in model.model.layers]
            model(prompt("llama") % 50)
            [handle.remove() for handle in handles]
        self.assertIn("sound", program("validate", path))
        with kvloupe.open(path) as trace:
            for layer in trace.layers:
                heads = [trace.attention(layer, head, 0, trace.num_tokens) @ trace.v(layer)[head // trace.layer(layer).group_size]
                         for head in range(trace.model["num_q_heads"])]
                np.testing.assert_allclose(np.stack(heads, 1).reshape(trace.num_tokens, -1), outputs[layer], atol=1e-5)
            for name, value in expected.items():
                self.assertEqual([getattr(trace.layer(layer), name) for layer in trace.layers], value)
            return trace.model

    def test_gemma2_has_a_softcap(self):
        model = self.check(transformers.Gemma2Config(
            vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, sliding_window=12, attn_logit_softcapping=0.5, query_pre_attn_scalar=8), softcap=[0.5, 0.5], window=[12, 0])
        self.assertEqual(model["layer_types"], ["sliding", "full"])
        self.assertEqual(model["compute"], "fp32")

    def test_weights_of_another_type(self):
        for dtype, compute in ((torch.bfloat16, "bf16"), (torch.float16, "fp16"), (torch.float64, "")):
            model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / "llama", dtype=dtype).eval()
            path = scratch("type.h5")
            with kvloupe.record(model, path, chunk_size=8, force=True), torch.no_grad():
                model(prompt("llama"))
            self.assertIn("sound", program("validate", path))
            with kvloupe.open(path) as trace:
                self.assertEqual(trace.model["compute"], compute)

    def test_cohere2_turns_its_windows_alone(self):
        model = self.check(transformers.Cohere2Config(
            vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            sliding_window=9, layer_types=["sliding_attention"] * 3 + ["full_attention"]), window=[9, 9, 9, 0])
        self.assertEqual(model["layer_types"], ["sliding"] * 3 + ["nope"])

    def test_phi3_turns_a_part_of_its_channels(self):
        model = self.check(transformers.Phi3Config(
            vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            partial_rotary_factor=0.5, pad_token_id=0))
        self.assertEqual(json.loads(model["rope_scaling"]), {"partial_rotary_factor": 0.5})


if __name__ == "__main__":
    unittest.main()
