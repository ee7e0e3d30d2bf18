"""A method in kvloupe.sparse that decides when all layers have seen a chunk: the model's forward is cut, and stays the model's own to its caller.
That its sets are the program's is in test_sparse."""
import contextlib
import copy
import functools
import unittest

import h5py
import peft
import torch

import kvloupe

from .sparse_cases import text
from .support import generate, load_model, load_tokenizer, scratch

CHUNK = 16
# More than the text has: nothing is left out, so the model's own logits are to come out.
ALL, SOME = "infinipot:budget_tokens=512", "infinipot:budget_tokens=8"


class OneChunkAfterTheOther(unittest.TestCase):
    def setUp(self):
        self.model, self.ids = load_model("qwen3"), text()[:, : 2 * CHUNK + 1]

    def sparse(self, method=ALL, **options):
        return kvloupe.sparse(self.model, method, chunk_size=CHUNK, tokenizer=load_tokenizer("qwen3"), **options)

    def same(self, run):
        """What the model gives whole, and cut."""
        with torch.no_grad():
            own = run(self.model)
            with self.sparse():
                cut = run(self.model)
        torch.testing.assert_close(cut, own, atol=1e-4, rtol=0)
        return cut

    def test_logits_are_those_of_one_forward(self):
        count = self.ids.shape[1]
        every = self.same(lambda model: model(self.ids).logits)
        self.assertEqual(every.shape[1], count)
        for keep, length in ((0, count), (1, 1), (5, 5), (count + 9, count), (torch.tensor([0, 7, count - 1]), 3)):
            self.assertEqual(self.same(lambda model: model(self.ids, logits_to_keep=keep).logits).shape[1], length)
        self.same(lambda model: model(self.ids, return_dict=False)[0])
        self.same(lambda model: model(input_ids=self.ids, attention_mask=torch.ones_like(self.ids), position_ids=torch.arange(count)[None]).logits)

    def test_a_text_in_two_forwards(self):
        def run(model):
            first = model(self.ids[:, :20])
            return model(self.ids[:, 20:], past_key_values=first.past_key_values, attention_mask=torch.ones_like(self.ids)).logits
        self.same(run)

    def test_generated_text(self):
        own = generate(self.model, self.ids, steps=4)
        with self.sparse():
            self.assertEqual(generate(self.model, self.ids, steps=4).tolist(), own.tolist())

    def test_the_last_token_of_a_prompt_is_not_a_decoded_one(self):
        path = scratch("late.h5")
        path.unlink(missing_ok=True)
        with self.sparse(SOME, record=path), torch.no_grad():
            self.model(self.ids)
        with h5py.File(path, "r") as file:
            self.assertEqual(file["chunks/length"][:].tolist(), [CHUNK, CHUNK, 1])
            self.assertEqual(file["chunks/phase"][:].tolist(), [0, 0, 0])

    def test_what_was_kept_in_every_chunk_of_a_forward(self):
        with self.sparse(SOME) as run, torch.no_grad():
            self.model(self.ids)
        for cells in run.cells.values():
            self.assertEqual([end for _, end in cells], [CHUNK, 2 * CHUNK, 2 * CHUNK + 1])
            self.assertEqual([{len(row) for row in kept.rows} for kept, _ in cells], [{0}, {8}, {8}])

    def test_a_second_text_begins_anew(self):
        with self.sparse(SOME), torch.no_grad():
            first = self.model(self.ids).logits
            self.model(self.ids.flip(1))
            again = self.model(self.ids).logits
        torch.testing.assert_close(again, first, atol=0, rtol=0)

    def test_what_cannot_be_cut(self):
        mask = torch.zeros(1, 1, self.ids.shape[1], self.ids.shape[1])
        padded = torch.ones_like(self.ids)
        padded[:, :3] = 0
        for sentence, options in (("labels belongs to one forward", dict(labels=self.ids)), ("output_hidden_states belongs", dict(output_hidden_states=True)),
                                  ("a mask with a row for each query cannot be cut", dict(attention_mask=mask)), ("padding stands before", dict(attention_mask=padded)),
                                  ("output_router_logits belongs", dict(output_router_logits=True)), ("no cache to go on from; allow it", dict(use_cache=False))):
            with self.subTest(sentence), self.assertRaisesRegex(kvloupe.KvloupeError, sentence), torch.no_grad():
                with self.sparse(SOME):
                    self.model(self.ids, **options)
        for options in (dict(inputs_embeds=self.model.get_input_embeddings()(self.ids).detach()), dict(input_ids=self.ids[:, :0])):
            with self.assertRaisesRegex(kvloupe.KvloupeError, "without input_ids .*; pass token ids"), torch.no_grad():
                with self.sparse(SOME):
                    self.model(**options)
        self.assertNotIn("forward", vars(self.model))

    def test_a_forward_past_ours(self):
        with self.assertRaisesRegex(kvloupe.KvloupeError, "feed no further than the next multiple of 16"), torch.no_grad():
            with self.sparse(SOME):
                type(self.model).forward(self.model, self.ids)  # as a compiled model may
        self.assertNotIn("forward", vars(self.model))

    def test_logits_are_needed(self):
        with self.assertRaisesRegex(kvloupe.KvloupeError, "has no logits") as caught, torch.no_grad():
            with self.sparse(SOME):
                self.model.get_decoder()(self.ids[:, :CHUNK])
        self.assertNotRegex(str(caught.exception), "record|store")

    def test_a_static_cache_where_nothing_is_cut(self):
        ids = self.ids[:, :CHUNK]
        with self.sparse(SOME):
            answers = [generate(self.model, ids, steps=4, **options).tolist() for options in ({}, {"cache_implementation": "static"})]
            with self.assertRaisesRegex(kvloupe.KvloupeError, "let the cache grow"):
                generate(self.model, self.ids, steps=4, cache_implementation="static")
        self.assertEqual(*answers)

    def test_an_own_forward_comes_back(self):
        model = copy.deepcopy(self.model)
        own = model.forward = functools.partial(type(model).forward, model)  # as accelerate gives a model that it spreads
        for method in (SOME, "quoka:budget_tokens=8"):
            with kvloupe.sparse(model, method, chunk_size=CHUNK, tokenizer=load_tokenizer("qwen3")), torch.no_grad():
                model(self.ids)
            self.assertIs(vars(model)["forward"], own)

    def test_wrapped_models(self):
        with self.sparse(SOME), torch.no_grad():
            want = self.model(self.ids).logits
        class Past(torch.nn.Module):
            """Calls what it holds past its hooks, as some adapters of peft do."""

            def __init__(self, base_model):
                super().__init__()
                self.base_model, self.peft_config = base_model, {}

            def get_base_model(self):
                return self.base_model

            def forward(self, *arguments, **options):
                return self.base_model.forward(*arguments, **options)

        compiled = torch.compile(self.model, backend="eager")
        adapted = peft.get_peft_model(copy.deepcopy(self.model), peft.LoraConfig(task_type="CAUSAL_LM"))
        for model in (compiled, adapted, Past(self.model)):
            with self.subTest(type(model).__name__), kvloupe.sparse(model, SOME, chunk_size=CHUNK, tokenizer=load_tokenizer("qwen3")), torch.no_grad():
                torch.testing.assert_close(model(self.ids).logits, want, atol=1e-4, rtol=0)

    def test_gradients(self):
        model, grads = copy.deepcopy(self.model), []
        for cut in (False, True):
            model.zero_grad()
            with kvloupe.sparse(model, ALL, chunk_size=CHUNK, tokenizer=load_tokenizer("qwen3")) if cut else contextlib.nullcontext():
                model(self.ids).logits.square().mean().backward()
            grads.append(model.get_input_embeddings().weight.grad.clone())
        torch.testing.assert_close(*grads, atol=1e-4, rtol=1e-3)


if __name__ == "__main__":
    unittest.main()
