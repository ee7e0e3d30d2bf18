"""Models that torch.compile has taken: what a recording leaves of them, and that it refuses in them as elsewhere."""
import unittest

import torch

import kvloupe

from .support import load_model, prompt, scratch


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        load_model.cache_clear()
        self.addCleanup(load_model.cache_clear)
        self.path = scratch(f"{self.id()}.h5")
        self.model, self.ids = load_model("llama", "sdpa"), prompt("llama")
        self.compiled = torch.compile(self.model, backend="eager")

    def logits(self, ids=None):
        with torch.no_grad():
            return self.compiled(self.ids if ids is None else ids).logits

    def record(self, run, **options):
        with kvloupe.record(self.compiled, self.path, chunk_size=16, force=True, **options):
            return run()

    def test_its_output_before_inside_and_after(self):
        for run_before in (False, True):
            self.setUp()
            before = self.logits() if run_before else None
            inside = self.record(self.logits)
            after = self.logits()
            torch.testing.assert_close(inside, after, atol=1e-5, rtol=1e-5)
            if run_before:
                self.assertTrue(torch.equal(before, after))
            with torch.no_grad():
                torch.testing.assert_close(self.model(self.ids).logits, after, atol=1e-5, rtol=1e-5)

    def test_one_recording_after_another(self):
        for count in (20, 31, 31):
            self.record(lambda: self.logits(self.ids[:, :count]))
            self.logits()  # Not recorded.
            with kvloupe.open(self.path) as trace:
                self.assertEqual((trace.num_tokens, trace.complete), (count, True))

    def test_a_refusal_and_what_follows(self):
        before = self.logits()

        def twice():
            self.logits(self.ids[:, :9])
            self.logits(self.ids[:, 9:])
        with self.assertRaisesRegex(kvloupe.KvloupeError, "a second sequence"):
            self.record(twice)
        self.assertTrue(torch.equal(before, self.logits()))
        self.record(self.logits)
        with kvloupe.open(self.path) as trace:
            self.assertTrue(trace.complete)

    def test_a_graph_that_nothing_may_leave(self):
        self.compiled = torch.compile(self.model, backend="eager", fullgraph=True)
        before = self.logits()
        with self.assertRaisesRegex(kvloupe.KvloupeError, "could not leave its graph .*force_eager"):
            self.record(self.logits)
        self.assertFalse(self.path.exists())
        with torch.compiler.set_stance("force_eager"):
            self.record(self.logits)
        with kvloupe.open(self.path) as trace:
            self.assertEqual(trace.num_tokens, self.ids.shape[1])
        self.assertTrue(torch.equal(before, self.logits()))


if __name__ == "__main__":
    unittest.main()
