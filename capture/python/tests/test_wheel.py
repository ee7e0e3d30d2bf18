"""The wheel that pip makes of this folder: Python alone, which finds the program that is installed."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from .support import ROOT, recorded

FOLDER = ROOT / "capture" / "python"
COMPILED = (".so", ".pyd", ".dylib", ".dll", ".a", ".o", ".pyc", ".c", ".cpp", ".h")
USE = """
import sys, numpy as np, kvloupe
draw = np.random.default_rng(0).standard_normal
q, k = draw((4, 20, 8), dtype=np.float32), draw((2, 40, 8), dtype=np.float32)
with kvloupe.Selector("quoka:budget_tokens=8", layers=1, q_heads=4, kv_heads=2, head_dim=8) as selector:
    selector.select(0, q, k[:, :20], None, 0)
    print(kvloupe.__file__, [len(row) for row in selector.select(0, q, k, None, 20)])
with kvloupe.open(sys.argv[1]) as trace:
    print(len(kvloupe.worst(trace, "quoka:budget_tokens=8", 3)))
"""
MISSING = """
import kvloupe
try:
    kvloupe.Selector("dense", layers=1, q_heads=4, kv_heads=2, head_dim=8)
except kvloupe.KvloupeError as error:
    print(error)
"""


def can_build():
    """setuptools makes wheels by itself from 70.1 on, and with the package wheel before."""
    code = "import setuptools; v = tuple(map(int, setuptools.__version__.split('.')[:2])); assert v >= (68, 0); v >= (70, 1) or __import__('wheel')"
    return subprocess.run([sys.executable, "-c", f"{code}; import pip"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(can_build(), "pip, setuptools 68 or later, and wheel are not all here, and nothing is fetched for a test")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory(prefix="kvloupe-")
        cls.addClassCleanup(cls.held.cleanup)
        folder = pathlib.Path(cls.held.name)
        # setuptools leaves its own files in the folder that it builds.
        shutil.copytree(FOLDER, folder / "source", ignore=shutil.ignore_patterns("tests", "__pycache__", "build", "*.egg-info"))
        done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir",
                               "--disable-pip-version-check", "-w", folder / "wheels", folder / "source"], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        cls.wheels, cls.unpacked = list((folder / "wheels").iterdir()), folder / "unpacked"
        with zipfile.ZipFile(cls.wheels[0]) as wheel:
            cls.names = wheel.namelist()
            wheel.extractall(cls.unpacked)

    def run_in_it(self, code, *arguments, **changed):
        others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and pathlib.Path(path).resolve() != FOLDER]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.unpacked), *others]), **changed}
        environment = {name: value for name, value in environment.items() if value is not None}
        done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], cwd=self.held.name, env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_it_is_python_alone(self):
        self.assertEqual([wheel.name[wheel.name.index("-py") :] for wheel in self.wheels], ["-py3-none-any.whl"])
        self.assertEqual([name for name in self.names if name.endswith(COMPILED)], [])
        files = {str(path.relative_to(FOLDER)) for end in ("py", "yaml") for path in (FOLDER / "kvloupe").rglob(f"*.{end}")}
        self.assertEqual(files - set(self.names), set())

    def test_it_finds_the_program(self):
        where, rows = self.run_in_it(USE, recorded("llama"))[0].split(" ", 1)
        self.assertEqual(pathlib.Path(where), self.unpacked.resolve() / "kvloupe" / "__init__.py")
        self.assertEqual(rows, "[8, 8]")
        self.assertEqual(self.run_in_it(USE, recorded("llama"))[1], "3")

    def test_without_the_program_it_says_so(self):
        said = self.run_in_it(MISSING, KVLOUPE_PROGRAM=None, KVLOUPE_LIBRARY=None, PATH="/nowhere")
        self.assertEqual(len(said), 1)
        self.assertIn("libkvloupe.so was not found; build it (./kvloupe.sh) or install it", said[0])


if __name__ == "__main__":
    unittest.main()
