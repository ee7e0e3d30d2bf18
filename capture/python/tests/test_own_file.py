"""A method in a file: from the command line, in a process of its own that may hang, fork, crash or ask for all memory."""
import os
import resource
import subprocess
import sys
import textwrap
import time
import unittest

import kvloupe

from .support import ROOT, program, program_json, scratch
from .test_own_method import copy_of

os.environ.setdefault("KVLOUPE_PYTHON", sys.executable)

METHODS = """
    import os, sys, time
    import numpy as np
    from beside import COUNT

    def newest(layer, chunk, q, k, v):
        return [np.arange(max(0, k.shape[1] - COUNT), k.shape[1])] * len(k)

    def first_scored(layer, chunk, q, k, v):
        return -np.arange(k.shape[1], dtype=float) * np.ones((len(k), 1))

    def hangs(layer, chunk, q, k, v):
        while True: pass

    def forks(layer, chunk, q, k, v):
        if os.fork() == 0:
            open(os.environ["PIDS"], "a").write(f"{os.getpid()}\\n")
            time.sleep(600)
        return newest(layer, chunk, q, k, v)

    def forks_and_raises(layer, chunk, q, k, v):
        child = os.fork()
        if child == 0:
            raise ValueError("in what was forked")
        os.waitpid(child, 0)
        raise ValueError("in the method")

    def forks_and_both_return(layer, chunk, q, k, v):
        child = os.fork()
        if child == 0:
            return [[0]] * len(k)
        os.waitpid(child, 0)
        return newest(layer, chunk, q, k, v)

    def forks_and_one_raises(layer, chunk, q, k, v):
        child = os.fork()
        if child == 0:
            raise ValueError("in what was forked")
        os.waitpid(child, 0)
        return newest(layer, chunk, q, k, v)

    def greedy(layer, chunk, q, k, v):
        return np.ones(2**60, np.uint8)

    def large(layer, chunk, q, k, v):
        return np.zeros(4 * 2**30, np.uint8)

    def leaves(layer, chunk, q, k, v):
        os._exit(7)

    def exits(layer, chunk, q, k, v):
        sys.exit(3)

    def crashes(layer, chunk, q, k, v):
        import ctypes
        ctypes.string_at(0)

    def wrong(layer, chunk, q, k, v):
        return k.no_such_thing

    def _helper(): pass
"""


def write_methods():
    scratch("beside.py").write_text("COUNT = 3\n")
    path = scratch("methods.py")
    path.write_text(textwrap.dedent(METHODS))
    return path


def refusal(*arguments, environment=None):
    """Exit code and the last line of standard error; nothing may be on standard output."""
    done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **(environment or {})})
    assert done.stdout == "", done.stdout
    return done.returncode, done.stderr.strip().splitlines()[-1]


class OwnFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.methods = write_methods()

    def test_functions_of_a_file(self):
        self.assertEqual(list(kvloupe.methods_from(self.methods)), [
            "newest", "first_scored", "hangs", "forks", "forks_and_raises", "forks_and_both_return", "forks_and_one_raises", "greedy", "large",
            "leaves", "exits", "crashes", "wrong"])
        broken = scratch("broken.py")
        broken.write_text("x = 1\ny = 1 / 0\n")
        for path, why in ((scratch("none.py"), "no such file"), (broken, "line 2: ZeroDivisionError")):
            with self.assertRaisesRegex(kvloupe.KvloupeError, why):
                kvloupe.methods_from(path)
        broken.write_text("def f(:\n")
        with self.assertRaisesRegex(kvloupe.KvloupeError, "line 1: SyntaxError"):
            kvloupe.methods_from(broken)

    def test_the_program_runs_it_and_shows_it_beside_its_own(self):
        path = copy_of("llama", "by-program")
        shown = program_json("select", path, "--python", f"{self.methods}:newest", "--layer", "1")
        self.assertEqual(shown["method"], "custom:newest")
        for chunk in shown["layers"][0]["chunks"]:
            for row in chunk["kv_heads"]:
                self.assertEqual(row["selected"], list(range(max(0, chunk["begin"] - 3), chunk["begin"])))
        program("select", path, "--python", f"{self.methods}:first_scored", "--budget", "4", "--name", "mine")
        with kvloupe.open(path) as trace:
            runs = {run.method: run for run in trace.runs}
            self.assertEqual(runs["custom:newest"].layers, [1])
            self.assertEqual(runs["custom:mine"].layers, trace.layers)
            self.assertEqual(runs["custom:mine"].selected(0, 2, 0).tolist(), [0, 1, 2, 3])
        rows = program_json("compare", path, "--method", "custom:mine", "--method", "quoka:budget_tokens=4", "--method", "custom:newest")["rows"]
        self.assertLess({"custom:mine", "custom:newest"}, {row["method"] for row in rows})

    def test_one_sentence_for_what_a_method_does_wrong(self):
        path = copy_of("llama", "hostile")
        for name, why in (("hangs", "it had not ended after 2 s"), ("greedy", r"out of memory in layer 0, chunk 1; line \d+ of .*methods.py: .*MemoryError.*; let it take less, or give it more by --memory-limit$"),
                          ("leaves", "exit code 7"), ("exits", "SystemExit: 3"), ("crashes", "signal 11"),
                          ("wrong", r"methods.py: AttributeError"), ("missing", "has no function missing")):
            code, said = refusal("select", path, "--python", f"{self.methods}:{name}", "--time-limit", "2")
            self.assertEqual(code, 1, said)
            self.assertRegex(said, why)
            self.assertRegex(said, "^error: [^;]+; .+; [^;]+$")
        code, said = refusal("select", path, "--python", f"{self.methods}:large", "--memory-limit", "3GiB")
        self.assertEqual(code, 1, said)
        self.assertIn("MemoryError", said)
        large = scratch("large.py")
        large.write_text("import numpy as np\nTABLE = np.ones(2**60, np.uint8)\n")
        code, said = refusal("select", path, "--python", f"{large}:newest")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"large.py ran out of memory before its methods; line 2: .*MemoryError.*; let it take less, or give it more by --memory-limit$")
        self.assertFalse(os.path.exists(f"{path}.runs.h5"))

    def test_what_it_started_ends_with_it(self):
        path, pids = copy_of("llama", "forks"), scratch("pids")
        os.environ["PIDS"] = str(pids)
        program("select", path, "--python", f"{self.methods}:forks", "--layer", "0")
        started = [int(pid) for pid in pids.read_text().split()]
        self.assertTrue(started)
        end = time.monotonic() + 10
        while any(_lives(pid) for pid in started) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual([pid for pid in started if _lives(pid)], [])

    def test_what_it_forked_neither_answers_nor_tells(self):
        path = copy_of("llama", "forked")
        code, said = refusal("select", path, "--python", f"{self.methods}:forks_and_raises", "--layer", "0")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, "^error: the method failed in layer 0, chunk 1; line .*ValueError: in the method; mend it and run it again$")
        for name in ("forks_and_both_return", "forks_and_one_raises"):
            program("select", path, "--python", f"{self.methods}:{name}", "--layer", "0")
            with kvloupe.open(path) as trace:
                run = next(run for run in trace.runs if run.method == f"custom:{name}")
                begin = trace.chunks[2].begin
                self.assertEqual(run.selected(0, 2, 0).tolist(), [begin - 3, begin - 2, begin - 1])

    def test_under_a_hard_limit_of_memory(self):
        """As after ulimit -v."""
        path, most = copy_of("llama", "limited"), 8 << 30
        for name, code, words in (("newest", 0, "saved as run 0, custom:newest"), ("greedy", 1, "MemoryError")):
            command = [sys.executable, "-m", "kvloupe", "select", path, f"{self.methods}:{name}"]
            done = subprocess.run(command, cwd=ROOT / "capture" / "python", capture_output=True, text=True, timeout=120, check=False,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)

    def test_arguments_that_are_wrong(self):
        path = copy_of("llama", "arguments")
        own = f"{self.methods}:newest"
        for options in ([], ["--method", "dense", "--python", own], ["--method", "dense", "--name", "x"], ["--method", "dense", "--rows", "q_head"], ["--method", "dense", "--time-limit", "5"], ["--python", own, "--save"], ["--python", own, "--chunk-size", "8"],
                        ["--python", "methods.py"], ["--python", own, "--budget", "0"], ["--python", own, "--rows", "layer"]):
            code, said = refusal("select", path, *options)
            self.assertEqual(code, 2, said)
            self.assertRegex(said, "^error: [^;]+; .+; .+$")
        code, said = refusal("select", path, "--python", own, environment={"KVLOUPE_PYTHON": "/no/python"})
        self.assertEqual(code, 1)
        self.assertIn("name another Python by KVLOUPE_PYTHON", said)
        self.assertIn("is no name for a method", refusal("select", path, "--python", own, "--name", "a b")[1])


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    unittest.main()
