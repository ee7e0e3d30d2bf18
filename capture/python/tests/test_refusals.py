"""What cannot be recorded is said in one sentence, and the model serves on afterwards."""
import pathlib
import tomllib
import types
import unittest

import torch
import transformers

import kvloupe

from .support import generate, load_model, prompt, scratch


class OddAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_idx = 1

    def forward(self, hidden_states, **_):
        return hidden_states, None


class Refusals(unittest.TestCase):
    def setUp(self):
        self.path = scratch(f"{self.id()}.h5")
        self.model = load_model("llama")
        self.ids = prompt("llama")
        with torch.no_grad():
            self.before = self.model(self.ids).logits

    def tearDown(self):
        with torch.no_grad():
            self.assertTrue(torch.equal(self.before, self.model(self.ids).logits))

    def refuse(self, sentence, run, **options):
        with self.assertRaisesRegex(kvloupe.KvloupeError, sentence) as caught, torch.no_grad():
            with kvloupe.record(self.model, self.path, chunk_size=4, **options):
                run()
        self.assertEqual(str(caught.exception).count("; "), 2, "what; why; what to do")
        self.assertFalse(self.path.with_name(self.path.name + ".part").exists())

    def check_kept(self, tokens):
        with kvloupe.open(self.path) as trace:
            self.assertEqual((trace.num_tokens, trace.complete, trace.warnings), (tokens, False, []))

    def test_beam_search(self):
        torch.manual_seed(0)
        self.refuse("beam search", lambda: generate(self.model, self.ids, steps=12, num_beams=4))

    def test_a_beam_that_another_one_overtook(self):
        """Few steps, in which the cache of the row never changed places."""
        refused = 0
        for seed in range(12):
            torch.manual_seed(seed)
            ids = torch.randint(3, 50, (1, 6))
            path = scratch(f"beams{seed}.h5")
            with torch.no_grad():
                answer = None
                try:
                    with kvloupe.record(self.model, path, chunk_size=4):
                        answer = generate(self.model, ids, steps=3, num_beams=2)[0].tolist()
                except kvloupe.KvloupeError as refusal:
                    self.assertIn("beam search", str(refusal))
                    refused += 1
            if answer is not None and path.exists():
                with kvloupe.open(path) as trace:
                    if trace.complete:
                        self.assertEqual(trace.tokens.tolist(), answer[: trace.num_tokens])
        self.assertGreater(refused, 0)

    def test_a_recording_is_entered_once(self):
        recorder = kvloupe.record(self.model, self.path, chunk_size=4)
        with recorder, torch.no_grad():
            self.model(self.ids)
        whole = self.path.read_bytes()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "a recording is entered once"):
            recorder.__enter__()
        self.assertEqual(self.path.read_bytes(), whole)
        self.assertFalse(self.path.with_name(self.path.name + ".part").exists())

    def test_an_unknown_attention(self):
        model = transformers.AutoModelForCausalLM.from_config(self.model.config)
        model.model.layers[1].self_attn = OddAttention()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "layer 1 .* OddAttention does not use"):
            kvloupe.record(model, self.path)
        with kvloupe.record(model, self.path, layers=[0, 2], chunk_size=4), torch.no_grad():
            model(self.ids)
        with kvloupe.open(self.path) as trace:
            self.assertEqual(trace.layers, [0, 2])

    def test_an_attention_that_is_not_heard(self):
        attention = self.model.model.layers[2].self_attn
        attention.forward = types.MethodType(lambda self, hidden_states, **_: (hidden_states, None), attention)
        try:
            self.refuse("attention of layer 2 did not pass", lambda: self.model(self.ids))
        finally:
            del attention.forward

    def test_models_of_other_kinds(self):
        t5 = transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=50, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0))
        for model, sentence in ((torch.nn.Linear(2, 2), "Linear is no model of transformers"), (t5, "has an encoder")):
            with self.assertRaisesRegex(kvloupe.KvloupeError, sentence):
                kvloupe.record(model, self.path)

    def test_embeddings_in_place_of_ids(self):
        embeddings = self.model.get_input_embeddings()(self.ids)
        self.refuse("without input_ids", lambda: self.model(inputs_embeds=embeddings))

    def test_a_row_that_the_batch_lacks(self):
        self.refuse("batch_index is 1 and the batch has 1", lambda: self.model(self.ids), batch_index=1)

    def test_nothing_inside(self):
        self.refuse("nothing was recorded", lambda: None)
        self.assertFalse(self.path.exists())

    def test_options(self):
        for sentence, options in (("chunk_size=0", dict(chunk_size=0)), ("dtype='bf16'", dict(dtype="bf16")),
                                  ("store='qkv'", dict(store="qkv")), ("store=\\('nll',\\)", dict(store=("nll",))),
                                  ("layers=\\[0, 3\\] cannot .* layers 0 to 2", dict(layers=[0, 3])),
                                  ("batch_index=-1", dict(batch_index=-1)), ("span needle", dict(spans={"needle": (5, 2)}))):
            with self.assertRaisesRegex(kvloupe.KvloupeError, sentence):
                kvloupe.record(self.model, self.path, **options)

    def test_a_span_beyond_the_tokens(self):
        self.refuse("span needle does not fit; it ends at 60", lambda: self.model(self.ids), spans={"needle": (0, 60)})

    def test_files_that_exist(self):
        self.path.write_bytes(b"mine")
        self.refuse("exists; a recording would replace it", lambda: self.model(self.ids))
        self.assertEqual(self.path.read_bytes(), b"mine")
        with kvloupe.record(self.model, self.path, force=True), torch.no_grad():
            self.model(self.ids)
            with self.assertRaisesRegex(kvloupe.KvloupeError, "another recording is writing it"):
                kvloupe.record(self.model, self.path, force=True).__enter__()
        kvloupe.open(self.path).close()

    def test_chunks_that_a_killed_recording_left(self):
        part = self.path.with_name(self.path.name + ".part")
        part.write_bytes(b"chunks")
        with self.assertRaisesRegex(kvloupe.KvloupeError, "was cut short and left its chunks"):
            kvloupe.record(self.model, self.path).__enter__()
        self.assertEqual(part.read_bytes(), b"chunks")
        part.unlink()

    def test_what_is_to_be_installed_is_told_alike(self):
        root = pathlib.Path(__file__).resolve().parents[3]
        with open(root / "capture/python/pyproject.toml", "rb") as file:
            project = tomllib.load(file)["project"]
        for_eval = " ".join(name.split(">")[0] for name in project["optional-dependencies"]["eval"])
        for file, told in (("capture/python/kvloupe/eval_arguments.py", f'"pip install {for_eval}"'), ("docs/eval.md", "pip install -e './capture/python[eval]'\n"),
                           ("docs/eval.md", "pip install -e './capture/python[eval,ray]'`"), ("core/base/python_package.h", f'"numpy h5py {for_eval}"')):
            self.assertIn(told, (root / file).read_text(), file)


if __name__ == "__main__":
    unittest.main()
