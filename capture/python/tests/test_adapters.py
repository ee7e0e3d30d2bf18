"""Adapters of peft: named in the trace, a part of the hash of the weights, and refused where they are no part of a sequence."""
import hashlib
import pathlib
import tempfile
import unittest
import unittest.mock

import peft
import torch

import kvloupe
from kvloupe.weights_hash import hash_of_folder

from .support import MODELS, load_model, program, prompt, scratch


def lora(rank=2, **more):
    torch.manual_seed(rank)
    return peft.LoraConfig(r=rank, target_modules=["q_proj", "v_proj"], init_lora_weights=False, **more)


class Adapters(unittest.TestCase):
    def setUp(self):
        self.path = scratch(f"{self.id()}.h5")
        load_model.cache_clear()
        self.base = load_model("llama")
        self.addCleanup(load_model.cache_clear)

    def recorded(self, model, **options):
        with kvloupe.record(model, self.path, force=True, chunk_size=16, **options), torch.no_grad():
            model(prompt("llama"))
        with kvloupe.open(self.path) as trace:
            return trace.model["adapter"], trace.model["file_hash"]

    def test_none(self):
        self.assertEqual(self.recorded(self.base), ("", hash_of_folder(MODELS / "llama")))

    def test_named_and_hashed(self):
        adapted = peft.get_peft_model(self.base, lora())
        name, digest = self.recorded(adapted)
        self.assertEqual(name, "default(LORA)")
        self.assertNotEqual(digest, hash_of_folder(MODELS / "llama"))
        self.assertEqual(len(digest), hashlib.sha256().digest_size * 2)
        self.assertEqual(self.recorded(adapted), (name, digest))
        self.assertEqual(self.recorded(adapted.get_base_model()), (name, digest))
        self.assertIn("sound", program("validate", self.path))

    def test_no_hash_is_wanted(self):
        adapted = peft.get_peft_model(self.base, lora())
        self.assertEqual(self.recorded(adapted, hash=False), ("default(LORA)", ""))

    def test_the_hash_that_is_kept_is_that_of_the_files(self):
        """Whichever comes first, the adapted model or the plain one."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        plain = hash_of_folder(MODELS / "llama")
        with unittest.mock.patch.dict("os.environ", XDG_CACHE_HOME=folder.name), \
                unittest.mock.patch("kvloupe.known_hashes.QUIET_SECONDS", -1):
            adapted = peft.get_peft_model(self.base, lora())
            first = self.recorded(adapted)[1]
            self.assertEqual(len(list(pathlib.Path(folder.name).rglob("*.json"))), 1)
            with adapted.disable_adapter():
                self.assertEqual(self.recorded(adapted)[1], plain)
            self.assertEqual(self.recorded(adapted)[1], first)
        self.assertNotEqual(first, plain)

    def test_another_weight_is_another_hash(self):
        adapted = peft.get_peft_model(self.base, lora())
        _, before = self.recorded(adapted)
        with torch.no_grad():
            next(parameter for name, parameter in adapted.named_parameters() if "lora_B" in name)[0, 0] += 1
        self.assertNotEqual(self.recorded(adapted)[1], before)

    def test_another_scaling_is_another_hash(self):
        _, first = self.recorded(peft.get_peft_model(self.base, lora(lora_alpha=8)))
        self.setUp()
        self.assertNotEqual(self.recorded(peft.get_peft_model(self.base, lora(lora_alpha=16)))[1], first)

    def test_two_at_work_and_one_at_rest(self):
        adapted = peft.get_peft_model(self.base, lora())
        adapted.add_adapter("style", lora(3))
        one = self.recorded(adapted)
        self.assertEqual(one[0], "default(LORA)")
        adapted.base_model.set_adapter(["default", "style"])
        both = self.recorded(adapted)
        self.assertEqual(both[0], "default(LORA), style(LORA)")
        self.assertNotEqual(one[1], both[1])

    def test_switched_off(self):
        adapted = peft.get_peft_model(self.base, lora())
        with adapted.disable_adapter():
            self.assertEqual(self.recorded(adapted), ("", hash_of_folder(MODELS / "llama")))

    def test_merged(self):
        adapted = peft.get_peft_model(self.base, lora())
        before = self.recorded(adapted)
        adapted.merge_adapter()
        self.assertEqual(self.recorded(adapted), before)

    def test_added_by_transformers(self):
        self.base.add_adapter(lora(), adapter_name="plain")
        name, digest = self.recorded(self.base)
        self.assertEqual(name, "plain(LORA)")
        self.assertNotEqual(digest, hash_of_folder(MODELS / "llama"))

    def test_a_module_that_is_trained_whole(self):
        adapted = peft.get_peft_model(self.base, lora(modules_to_save=["lm_head"]))
        _, before = self.recorded(adapted)
        with torch.no_grad():
            adapted.base_model.model.lm_head.modules_to_save["default"].weight[0, 0] += 1
        self.assertNotEqual(self.recorded(adapted)[1], before)

    def test_virtual_tokens(self):
        for kind in (peft.PrefixTuningConfig, peft.PromptTuningConfig):
            adapted = peft.get_peft_model(self.base, kind(task_type="CAUSAL_LM", num_virtual_tokens=3))
            with self.assertRaisesRegex(kvloupe.KvloupeError, "tokens without ids .*get_base_model"):
                kvloupe.record(adapted, self.path)
            self.assertEqual(self.recorded(adapted.get_base_model())[0], "")


if __name__ == "__main__":
    unittest.main()
