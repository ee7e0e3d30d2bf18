"""The lines of docs/import.md and docs/sparse.md, as they stand there."""
import os
import re
import subprocess
import sys
import unittest

import numpy as np
import torch

import kvloupe

from .selector_cases import prompt
from .support import ROOT, load_model, load_tokenizer, program_json, scratch

# In the place of the script that builds the program first. A window would stay open: the trace is looked at instead.
SCRIPT = """#!/bin/sh
if [ $# = 1 ]; then set -- validate "$1"; fi
exec "$KVLOUPE_PROGRAM" "$@"
"""


def blocks_of(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


def inputs():
    return load_tokenizer("llama")(prompt().read_text(), return_tensors="pt", return_token_type_ids=False)


class Pages(unittest.TestCase):
    def test_import(self):
        folder = scratch("page-of-import")
        (folder / "out" / "demo").mkdir(parents=True)
        (folder / "kvloupe.sh").write_text(SCRIPT)
        (folder / "kvloupe.sh").chmod(0o755)
        demo, given = folder / "out" / "demo" / "demo.h5", inputs()
        with kvloupe.record(load_model("llama"), demo, tokenizer=load_tokenizer("llama"), spans={"question": (300, 310)}), torch.no_grad():
            load_model("llama")(**given)
        with kvloupe.open(demo) as trace:
            chunks, layers = len(trace.chunks), len(trace.layers)
            for name in "qkv":
                np.save(folder / f"{name}.npy", np.stack([np.asarray(getattr(trace, name)(layer)) for layer in trace.layers]))
            np.save(folder / "ids.npy", trace.tokens)
        selected = np.full((chunks, layers, 4), -1, np.int32)
        selected[1:] = [2, 0, 7, -1]
        np.save(folder / "selected.npy", selected)
        blocks = blocks_of("import.md", "sh")
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            done = subprocess.run(["bash", "-ec", block], cwd=folder, env={**os.environ, "KVLOUPE_PYTHON": sys.executable}, capture_output=True, text=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sound", done.stdout)
        with kvloupe.open(demo) as trace, kvloupe.open(folder / "mine.h5") as mine:
            self.assertEqual([run.method for run in trace.runs], ["custom:indexer"])
            self.assertEqual(trace.runs[0].selected(layers - 1, 1, 0).tolist(), [0, 2, 7])
            self.assertEqual(mine.tokens.tolist(), trace.tokens.tolist())
            for layer in trace.layers:
                for name in "qkv":
                    np.testing.assert_array_equal(np.asarray(getattr(mine, name)(layer)), np.asarray(getattr(trace, name)(layer)))
        methods = [row["method"] for row in program_json("compare", demo, "--method", "custom:indexer", "--method", "quoka:budget_tokens=8", "--from", "question")["rows"]]
        self.assertEqual(methods[0], "custom:indexer")

    def test_sparse(self):
        blocks = blocks_of("sparse.md", "python")
        self.assertEqual(len(blocks), 2)
        names, given = {"model": load_model("llama"), "inputs": inputs()}, inputs()
        own = load_model("llama").generate(**given, max_new_tokens=32, do_sample=False)
        for block in blocks:
            exec(block, names)
        self.assertGreater(names["answer"].shape[1], given["input_ids"].shape[1])
        self.assertEqual(names["newest"](0, 1, np.zeros((4, 8, 8)), np.zeros((2, 100, 8)), None), [range(36, 100)] * 2)
        self.assertTrue(torch.equal(own, load_model("llama").generate(**given, max_new_tokens=32, do_sample=False)))


if __name__ == "__main__":
    unittest.main()
