"""A method in C: the page's example against numpy, and libraries that are none, lie, crash or hang."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np

import kvloupe

from .support import ROOT, program, program_json, scratch
from .test_own_method import copy_of, selected_by_program

os.environ.setdefault("KVLOUPE_PYTHON", sys.executable)

BROKEN = """
#include <kvloupe.h>
#include <string.h>
#include <stdlib.h>
KVLOUPE_PLUGIN;
static void fill(const kvloupe_cell *cell, float *scores, int64_t more) {
  for (int64_t i = 0; i < cell->num_rows * cell->past + more; i++) scores[i] = (float)i;
}
KVLOUPE_API int too_far(const kvloupe_cell *cell, float *scores) { fill(cell, scores, 1); return 0; }
KVLOUPE_API int before(const kvloupe_cell *cell, float *scores) { fill(cell, scores, 0); scores[-1] = 0; return 0; }
KVLOUPE_API int nothing(const kvloupe_cell *cell, float *scores) { (void)cell; (void)scores; return 0; }
KVLOUPE_API int fails(const kvloupe_cell *cell, float *scores) { fill(cell, scores, 0); return 7; }
KVLOUPE_API int crashes(const kvloupe_cell *cell, float *scores) { (void)cell; (void)scores; abort(); }
KVLOUPE_API int hangs(const kvloupe_cell *cell, float *scores) { (void)scores; for (volatile int i = 0; cell; i++) {} return 0; }
KVLOUPE_API int frees(const kvloupe_cell *cell, float *scores) { fill(cell, scores, 0); free((void *)scores); return 0; }
KVLOUPE_API int some_nan(const kvloupe_cell *cell, float *scores) { fill(cell, scores, 0); memset(scores, 0xff, sizeof *scores); return 0; }
"""


def built(name, text, *options):
    """The library of a text in C."""
    source, library = scratch(f"{name}.c"), scratch(f"{name}.so")
    source.write_text(text)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-I", ROOT / "core/c_api", *options, source, "-o", library], check=True)
    return library


def example():
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / "docs/selector.md").read_text(), re.S)
    return next(block for block in blocks if "KVLOUPE_PLUGIN" in block)


class Plugin(unittest.TestCase):
    def test_the_page_s_example_keeps_what_numpy_keeps(self):
        library, path = built("last_query", example()), copy_of("qwen3", "plugin")
        for rows in ("kv_head", "q_head"):
            program("select", path, "--plugin", f"{library}:last_query", "--budget", "5", "--rows", rows)
            trace = kvloupe.open(path)

            def expected(layer, chunk, q, k, v, rows=rows):
                last = q[:, -1].reshape(len(k), -1, 1, k.shape[2])
                products = (last * k[:, None]).sum(axis=3, dtype=np.float32)  # [KV heads, group, P]
                return products.max(axis=1) if rows == "kv_head" else products.reshape(len(q), -1)

            own = trace.add_run("expected", expected, budget=5, rows=rows)
            for layer in trace.layers:
                for chunk in range(len(trace.chunks)):
                    for row in range(trace.model["num_kv_heads" if rows == "kv_head" else "num_q_heads"]):
                        run = next(one for one in trace.runs if one.method == "custom:last_query")
                        np.testing.assert_array_equal(run.selected(layer, chunk, row), own.selected(layer, chunk, row))
            self.assertEqual(len(selected_by_program(path, "custom:last_query", trace, 1)), len(trace.chunks) * (2 if rows == "kv_head" else 4))
            trace.close()

    def test_a_name_alone_is_in_the_folder_of_plugins(self):
        path, settings = copy_of("qwen3", "plugin-named"), scratch("plugin-settings")
        folder = settings / "plugins"
        shutil.rmtree(settings, ignore_errors=True)
        folder.mkdir(parents=True)
        self.refused(path, "last_query", f"{folder} has none", "--budget", "5", "--config-dir", settings)
        shutil.copy(built("last_query", example()), folder / "last_query.so")
        program("select", path, "--plugin", "last_query", "--budget", "5", "--config-dir", settings)
        with kvloupe.open(path) as trace:
            self.assertEqual([run.method for run in trace.runs][-1], "custom:last_query")
        self.refused(path, "first_query", f"{folder} has last_query", "--budget", "5", "--config-dir", settings)

    def test_an_explanation_has_the_scores(self):
        library, path = built("last_query", example()), copy_of("qwen3", "plugin-explained")
        program("select", path, "--plugin", f"{library}:last_query", "--budget", "5", "--name", "mine")
        said = program_json("explain", path, "--method", "custom:mine", "--layer", "1", "--chunk", "2", "--kv-head", "0", "--key", "3")
        self.assertIsInstance(said["score"], float)

    def test_libraries_that_are_none(self):
        path = copy_of("qwen3", "plugin-none")
        plain = built("plain", "int mine(void) { return 0; }\n")
        old = built("old", "#include <stdint.h>\nconst uint32_t kvloupe_plugin_abi = 99;\nint mine(void) { return 0; }\n")
        broken = built("broken", BROKEN)
        text = scratch("text.so")
        text.write_text("no library")
        for named, words in ((f"{plain}:mine", "has no kvloupe_plugin_abi"), (f"{old}:mine", "version 99"), (f"{broken}:absent", "has no function absent"),
                             (f"{text}:mine", "cannot load"), (f"{scratch('none.so')}:mine", "no such file"), (f"{broken}:too_far", "outside of its"),
                             (f"{broken}:before", "outside of its"), (f"{broken}:nothing", "no score in row 0"), (f"{broken}:fails", f"; {broken}: RuntimeError: fails returned 7; "),
                             (f"{broken}:crashes", "signal 6"), (f"{broken}:frees", "signal 6")):
            with self.subTest(named=named):
                self.refused(path, named, words, "--budget", "5")
        self.refused(path, f"{scratch('methods.py')}:mine", "no such file", "--budget", "5")
        self.refused(path, f"{pathlib.Path(__file__)}:mine", "cannot load", "--budget", "5")
        self.refused(path, f"{broken}:hangs", "had not ended after 2 s", "--budget", "5", "--time-limit", "2")
        self.refused(path, f"{broken}:some_nan", "nothing says how many keys to keep")
        self.assertFalse(os.path.exists(f"{path}.runs.h5"))
        program("select", path, "--plugin", f"{broken}:some_nan", "--budget", "5")

    def test_the_command_line(self):
        path = copy_of("qwen3", "plugin-line")
        for arguments, words in ((("--plugin", "x.so"), "--plugin cannot take 'x.so'"), (("--plugin", "x.so:f", "--method", "quoka"), "several are named"),
                                 (("--plugin", "x.so:f", "--python", "x.py:f"), "several are named"), (("--plugin", "x.so:f", "--save"), "takes no")):
            self.refused(path, None, words, *arguments, code=2)

    def refused(self, path, named, words, *arguments, code=1):
        command = [os.environ["KVLOUPE_PROGRAM"], "select", path, *(["--plugin", named] if named else []), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        last = done.stderr.splitlines()[-1]
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(words, last)
        self.assertTrue(last.startswith("error: ") and last.count("; ") == 2, last)


@unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
class InCpp(unittest.TestCase):
    def test_extern_c(self):
        text = """#include <kvloupe.h>
extern "C" {
KVLOUPE_PLUGIN;
KVLOUPE_API int mine(const kvloupe_cell* cell, float* scores) {
  for (long i = 0; i < cell->num_rows * cell->past; ++i) scores[i] = static_cast<float>(i % cell->past);
  return 0;
}
}
"""
        library = built("in_cpp", text, "-x", "c++")
        path = copy_of("qwen3", "plugin-cpp")
        program("select", path, "--plugin", f"{library}:mine", "--budget", "3")
        with kvloupe.open(path) as trace:
            run = next(one for one in trace.runs if one.method == "custom:mine")
            begin = trace.chunks[2].begin
            self.assertEqual(list(run.selected(1, 2, 0)), [begin - 3, begin - 2, begin - 1])


if __name__ == "__main__":
    unittest.main()
