"""Recordings and sparse runs that are open at once, and end in any order: each has its own, and what stood there before comes back."""
import unittest

import torch
import transformers

import kvloupe

from .support import generate, load_model, prompt, recorded, scratch


def another(attention):
    """A model of the class that load_model("llama", attention) has, whose attention is the same function."""
    torch.manual_seed(1)
    config = load_model("llama", attention).config
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return model.float().eval()


def functions_of(attention):
    """What the attention modules of that class find."""
    source = transformers.models.llama.modeling_llama
    return source.eager_attention_forward, source.ALL_ATTENTION_FUNCTIONS.get(attention), dict(source.ALL_ATTENTION_FUNCTIONS._local_mapping)


class Overlaps(unittest.TestCase):
    def test_recordings_of_two_models_end_in_any_order(self):
        for attention in ("eager", "sdpa"):
            models = [load_model("llama", attention), another(attention)]
            for last in (0, 1):
                before = functions_of(attention)
                paths = [scratch(f"overlap-{attention}-{last}-{i}.h5") for i in range(2)]
                open_ones = [kvloupe.record(model, path, chunk_size=16) for model, path in zip(models, paths)]
                for one in open_ones:
                    one.__enter__()
                generate(models[1 - last], prompt("llama"))
                open_ones[1 - last].__exit__(None, None, None)
                generate(models[last], prompt("llama"))
                open_ones[last].__exit__(None, None, None)
                self.assertEqual(functions_of(attention), before)
                for path in paths:
                    with kvloupe.open(path) as trace:
                        self.assertEqual((trace.num_tokens, trace.complete, trace.warnings), (prompt("llama").shape[1] + 3, True, []))

    def test_a_sparse_run_and_a_recording_end_in_any_order(self):
        models = [load_model("llama"), another("eager")]
        with torch.no_grad():
            dense = models[1](prompt("llama")).logits
        for order in ((0, 1), (1, 0)):
            before, path = functions_of("eager"), scratch(f"overlap-sparse-{order[0]}.h5")
            pair = [kvloupe.sparse(models[1], lambda layer, chunk, q, k, v: [[0]] * len(k), chunk_size=16),
                    kvloupe.record(models[0], path, chunk_size=16)]
            for i in order:
                pair[i].__enter__()
            with torch.no_grad():
                models[0](prompt("llama"))
                if order[0] == 1:  # The recording ends first, and the sparse run goes on.
                    pair[1].__exit__(None, None, None)
                self.assertFalse(torch.equal(models[1](prompt("llama")).logits, dense))
                pair[0].__exit__(None, None, None)
                self.assertTrue(torch.equal(models[1](prompt("llama")).logits, dense))
                if order[0] == 0:
                    pair[1].__exit__(None, None, None)
            with kvloupe.open(path) as trace:
                self.assertEqual((trace.num_tokens, trace.complete), (prompt("llama").shape[1], True))
            self.assertEqual(functions_of("eager"), before)

    def test_two_recordings_of_one_model_end_in_any_order(self):
        model = load_model("llama")
        for last in (0, 1):
            paths = [scratch(f"twice-{last}-{i}.h5") for i in range(2)]
            open_ones = [kvloupe.record(model, path, chunk_size=16, dtype="float32") for path in paths]
            for one in open_ones:
                one.__enter__()
            generate(model, prompt("llama"))
            open_ones[1 - last].__exit__(None, None, None)
            open_ones[last].__exit__(None, None, None)
            self.assertNotIn("generate", vars(model))
            with kvloupe.open(recorded("llama")) as whole:
                for path in paths:
                    with kvloupe.open(path) as trace:
                        self.assertEqual(trace.tokens.tolist(), whole.tokens.tolist())
                        self.assertEqual(trace._files[0]["tokens/generated"][:].tolist(), whole._files[0]["tokens/generated"][:].tolist())

    def test_a_model_keeps_a_generate_of_its_own(self):
        model = load_model("llama")
        self.addCleanup(vars(model).pop, "generate", None)
        class_s, calls = model.generate, []

        def own(*arguments, **options):
            calls.append("own")
            return class_s(*arguments, **options)

        def recording(path):
            return kvloupe.record(model, scratch(path), chunk_size=16)

        def sparse(path):
            return kvloupe.sparse(model, lambda layer, chunk, q, k, v: [[0]] * len(k), chunk_size=16, record=scratch(path))
        model.generate = own
        for make in (recording, sparse):
            with make(f"own-generate-{make.__name__}.h5"):
                generate(model, prompt("llama"))
            self.assertIs(vars(model)["generate"], own)
        with self.assertRaises(ZeroDivisionError), recording("own-generate-failed.h5"):
            generate(model, prompt("llama"))
            1 / 0
        self.assertIs(vars(model)["generate"], own)
        self.assertEqual(calls, ["own"] * 3)

    def test_what_is_put_over_generate_meanwhile_stays(self):
        model = load_model("llama")
        self.addCleanup(vars(model).pop, "generate", None)
        with kvloupe.record(model, scratch("put-over.h5"), chunk_size=16):
            ours = model.generate
            model.generate = lambda *arguments, **options: ours(*arguments, **options)
            over = model.generate
            generate(model, prompt("llama"))
        self.assertIs(model.generate, over)
        generate(model, prompt("llama"))
        with kvloupe.open(scratch("put-over.h5")) as trace:
            self.assertEqual(trace.num_tokens, prompt("llama").shape[1] + 3)


if __name__ == "__main__":
    unittest.main()
