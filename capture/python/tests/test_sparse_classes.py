"""kvloupe.sparse in classes of models, of which the program knows few, and in models that torch.compile or peft has taken."""
import unittest

import peft
import torch

import kvloupe
from kvloupe.spec_facts import spec_facts

from .class_table_models import CONFIGS, build, tokens
from .class_table_rows import REFUSED
from .file_cases import specs_with_files
from .selector_cases import FREE, by_program
from .sparse_cases import attend_plainly, native_blocks
from .support import generate, program_json, scratch

# One that transformers runs by an attention of another file, which the plain mask does not reach.
ELSEWHERE = {"LlavaForConditionalGeneration"}


class Words:
    """A tokenizer for models of 64 tokens that have none: a word is its length."""

    def __call__(self, text, **_):
        return {"input_ids": [len(word) for word in text.split()]}

    def convert_ids_to_tokens(self, id):
        return f"{id} letters"

    def decode(self, ids):
        return " ".join(map(self.convert_ids_to_tokens, ids))


def logits_of(model, ids, spec=None, record=None, chunk_size=8):
    if spec is None:
        with torch.no_grad():
            return model(ids).logits[0]
    with kvloupe.sparse(model, spec, chunk_size=chunk_size, record=record, tokenizer=Words()):
        return logits_of(model, ids)


class Classes(unittest.TestCase):
    def test_each_runs_right_or_is_refused(self):
        path, ids = scratch("sparse-class.h5"), tokens()
        for name in CONFIGS:
            with self.subTest(name=name):
                model = build(name)
                if name in REFUSED:
                    with self.assertRaisesRegex(kvloupe.KvloupeError, "; run |; give "):
                        logits_of(model, ids, "dense")
                    continue
                own, dense = logits_of(model, ids), logits_of(model, ids, "dense")
                torch.testing.assert_close(dense, own, atol=1e-4, rtol=0)
                path.unlink(missing_ok=True)
                sparse = logits_of(model, ids, "tova:budget_tokens=5", record=path)
                self.assertGreater(float((sparse - own).abs().max()), 1e-2)
                if name not in ELSEWHERE:
                    torch.testing.assert_close(sparse, attend_plainly(path, model, ids), atol=1e-4, rtol=0)

    def test_every_method_in_one_that_the_program_does_not_know(self):
        model, ids = build("GraniteForCausalLM", changes=dict(num_hidden_layers=3, max_position_embeddings=256)), tokens(130)
        dense, path, own, ran, useful = scratch("granite-dense.h5"), scratch("granite.h5"), logits_of(model, ids), set(), set()
        with kvloupe.record(model, dense, chunk_size=16, dtype="float32"):
            logits_of(model, ids)
        for spec in FREE + specs_with_files(dense):
            with self.subTest(spec=spec):
                path.unlink(missing_ok=True)
                with kvloupe.sparse(model, spec, chunk_size=16, record=path, tokenizer=Words()):
                    generate(model, ids, steps=2)
                leaves_out = self.compare_with_replay(path, spec)
                sparse = logits_of(model, ids, spec, chunk_size=16)
                changes = float((sparse - own).abs().max()) > 1e-3
                if spec_facts(spec)["lanes"] or "reassigned" in spec:
                    self.assertTrue(changes)
                else:
                    torch.testing.assert_close(sparse, attend_plainly(path, model, ids), atol=1e-4, rtol=0)
                    self.assertEqual(changes, leaves_out)
                ran.add(spec.split(":")[0])
                useful |= {spec.split(":")[0]} if changes else set()
        self.assertEqual({method["id"] for method in program_json("methods")["methods"]}, ran)
        # Together the queries of a chunk read all blocks of so short a text.
        self.assertEqual(ran - useful, {"dense", "seer_attention"})

    def compare_with_replay(self, path, spec):
        """What the model attended to is what the program selects of the stored queries and keys. Returns whether a chunk of the prompt leaves keys out."""
        cells, chosen, leaves_out = by_program(path, spec)[0], 0, False
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.model["architecture"], "granite")
            for (layer, chunk), (rows, reason) in cells.items():
                chosen += reason is None
                for row, kept in enumerate(rows or []):
                    if reason is None:
                        self.assertEqual(trace.runs[0].selected(layer, chunk, row).tolist(), kept, (layer, chunk, row))
                        leaves_out |= trace.chunks[chunk].phase == "prefill" and len([key for key in kept if key < trace.chunks[chunk].begin]) < trace.chunks[chunk].begin
            for layer in trace.layers:
                for chunk, kept in native_blocks(path, layer).items():
                    leaves_out |= trace.chunks[chunk].phase == "prefill" and any(blocks != set(range(own + 1)) for (_, own), blocks in kept.items())
        self.assertEqual(chosen > 0, spec != "dense")
        return leaves_out

    def test_each_attention_of_transformers(self):
        ids = tokens()
        for spec in ("dense", "tova:budget_tokens=5"):
            want = logits_of(build("LlamaForCausalLM"), ids, spec)
            for attention in ("sdpa", "flex_attention"):
                torch.testing.assert_close(logits_of(build("LlamaForCausalLM", attention), ids, spec), want, atol=1e-4, rtol=0)

    def test_keys_that_are_turned_otherwise(self):
        # A part of the channels, positions that are learned.
        for name in ("GlmForCausalLM", "PhiForCausalLM", "GPT2LMHeadModel"):
            with self.subTest(name=name), self.assertRaisesRegex(kvloupe.KvloupeError, "how this model turns its keys"):
                logits_of(build(name), tokens(), "streaming_llm:budget_tokens=6,positions=reassigned")

    def test_neighbours_that_are_turned_as_pairs(self):
        """Keys moved on and back again are the keys: where all are kept, nothing changes; else it is another answer than without moving."""
        model, ids, spec = build("CohereForCausalLM"), tokens(), "streaming_llm:budget_tokens={},positions={}"
        torch.testing.assert_close(logits_of(model, ids, spec.format(1000, "reassigned")), logits_of(model, ids), atol=1e-4, rtol=0)
        path = scratch("cohere.h5")
        with kvloupe.sparse(model, spec.format(6, "reassigned"), record=path, chunk_size=8), torch.no_grad():
            model(ids)
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.model["rope_pairing"], "interleaved")
        rows = [program_json("compare", path, "--method", spec.format(6, how))["rows"][0]["output_error"] for how in ("reassigned", "original")]
        self.assertGreater(abs(rows[0] - rows[1]), 1e-3)

    def test_an_adapter(self):
        model, ids = peft.get_peft_model(build("LlamaForCausalLM"), peft.LoraConfig(task_type="CAUSAL_LM")), tokens()
        torch.testing.assert_close(logits_of(model, ids, "dense"), logits_of(model, ids), atol=1e-4, rtol=0)


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        self.model, self.ids = build("LlamaForCausalLM", "sdpa"), tokens()
        self.want = logits_of(self.model, self.ids, "tova:budget_tokens=5")

    def test_before_inside_and_after(self):
        compiled = torch.compile(self.model, backend="eager")
        before = logits_of(compiled, self.ids)
        for _ in range(2):
            torch.testing.assert_close(logits_of(compiled, self.ids, "tova:budget_tokens=5"), self.want, atol=1e-4, rtol=0)
            torch.testing.assert_close(logits_of(compiled, self.ids), before, atol=1e-4, rtol=0)

    def test_a_graph_that_nothing_may_leave(self):
        compiled = torch.compile(self.model, backend="eager", fullgraph=True)
        before = logits_of(compiled, self.ids)
        with self.assertRaisesRegex(kvloupe.KvloupeError, "could not leave its graph .*force_eager"):
            logits_of(compiled, self.ids, "tova:budget_tokens=5")
        self.assertTrue(torch.equal(logits_of(compiled, self.ids), before))


if __name__ == "__main__":
    unittest.main()
