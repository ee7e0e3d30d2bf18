"""One selection, as the model ran by it, as the program finds it again, and as arrays of another program: the same bytes."""
import os
import subprocess
import sys
import unittest

import h5py
import numpy as np

import kvloupe

from .sparse_cases import ClosedLoop, recorded
from .support import program, scratch

NAMES = ("offsets", "positions", "flags")
# With budgets below a chunk's length every cell chooses after the first chunk: cells in which all keys are kept by rule are marked, and
# say no positions.
METHODS = ("quoka:budget_tokens=8", "uniform_queries:budget_tokens=12", "oracle:budget_tokens=8", "sparq:budget_tokens=8", "sample_attention:budget_tokens=8")


def bytes_of(path, number):
    """{dataset: (type, bytes)} of a run."""
    with h5py.File(path, "r", locking=False) as file:
        layers = file[f"runs/{number}/layers"]
        return {f"{layer}/{name}": (layers[layer][name].dtype.str, layers[layer][name][:].tobytes()) for layer in layers for name in NAMES}


def cells_of(path, run):
    """offsets and positions of all cells [chunks, layers, rows], as another program would write them."""
    with kvloupe.open(path) as trace:
        kept = [trace.runs[run].selected(layer, chunk, row) for chunk in range(len(trace.chunks)) for layer in trace.layers for row in range(trace.runs[run].num_rows)]
    return {"offsets": np.cumsum([0] + [len(row) for row in kept]), "positions": np.concatenate(kept)}


class SameRuns(unittest.TestCase):
    def test_recorded_replayed_and_imported(self):
        for spec in METHODS:
            with self.subTest(spec=spec):
                theirs = ClosedLoop("qwen3", spec)
                by_program = scratch("closed-loop.h5")
                by_python, _ = recorded("qwen3", spec, theirs.ids, max(1, len(theirs.generated)))
                want = bytes_of(by_program, 0)
                self.assertGreater(sum(len(data) for name, (_, data) in want.items() if name.endswith("positions")), 1000)
                for path in by_program, by_python:
                    sidecar = scratch(f"{path.name}.runs.h5")
                    sidecar.unlink(missing_ok=True)
                    program("select", path, "--method", spec, "--save")
                    np.savez(scratch("cells.npz"), **cells_of(path, 0))
                    program_import(path, "again", scratch("cells.npz"))
                    self.assertEqual(bytes_of(path, 0), want, f"recorded, {path.name}")
                    with h5py.File(sidecar, "r", locking=False) as file:
                        methods = [file[f"runs/{number}"].attrs["method"] for number in "01"]
                    self.assertEqual(methods[1], "custom:again")
                    self.assertEqual(bytes_of(sidecar, 0), want, f"replayed, {path.name}")
                    self.assertEqual(bytes_of(sidecar, 1), want, f"imported, {path.name}")
                    self.assertIn("sound", program("validate", path))


def program_import(path, name, file):
    done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], "import", "--trace", path, "--name", name, file], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "KVLOUPE_PYTHON": sys.executable})
    if done.returncode:
        raise AssertionError(done.stderr)


if __name__ == "__main__":
    unittest.main()
