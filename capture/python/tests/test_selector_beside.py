"""kvloupe.Selector beside others: threads, forked children, the process's own Torch."""
import os
import subprocess
import sys
import threading
import unittest

import kvloupe

from .selector_cases import Stored, arrays, by_program, captured, plain
from .support import ROOT


class BesideOthers(unittest.TestCase):
    def test_threads_with_selectors_of_their_own(self):
        path = captured("qwen3", "f32")
        stored, found, failed = Stored(path), {}, []

        def run(number, spec):
            try:
                with stored.selector(spec) as selector:
                    found[number] = [[row.tolist() for row in selector.select(layer, **stored.inputs(layer, index))] for layer, index in stored.live_order()]
            except Exception as error:  # handed to the thread that asserts
                failed.append(error)

        specs = ["quoka:budget_tokens=24", "h2o:budget_tokens=24"] * 2
        threads = [threading.Thread(target=run, args=given) for given in enumerate(specs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        for number, spec in enumerate(specs):
            cells = by_program(path, spec)[0]
            self.assertEqual(found[number], [cells[at][0] for at in stored.live_order()])

    def test_many_selectors_one_after_the_other(self):
        """Threads of the host and of the engine come and go, and take each other's stacks; the memory does not grow with them."""
        code = """import threading, numpy as np, kvloupe
draw = np.random.default_rng(0).standard_normal
q, k = draw((4, 96, 8), dtype=np.float32), draw((2, 96, 8), dtype=np.float32)
def once(number):
    with kvloupe.Selector(("quoka:budget_tokens=8", "h2o:budget_tokens=8")[number % 2], layers=1, q_heads=4, kv_heads=2, head_dim=8, threads=2) as selector:
        for past in range(0, 96, 32):
            rows = selector.select(0, q[:, past : past + 32], k[:, : past + 32], None, past)
        selector.fork().close()
    assert [len(row) for row in rows] == [8, 8]
def many(count):
    for number in range(count):
        threads = [threading.Thread(target=once, args=(i,)) for i in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
before = many(100)
print(many(100) - before < 24)
"""
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    @unittest.skipUnless(hasattr(os, "fork"), "processes cannot be forked here")
    def test_a_forked_child_makes_its_own(self):
        code = """import os, numpy as np, kvloupe
q, k = np.ones((4, 8, 8), np.float32), np.ones((2, 8, 8), np.float32)
make = lambda: kvloupe.Selector("quoka:budget_tokens=2", layers=1, q_heads=4, kv_heads=2, head_dim=8, threads=2)
make().close()
held = make()
child = os.fork()
with make() as selector:
    rows = selector.select(0, q, k, None, 0)
    rows = selector.select(0, q[:, :1], np.ones((2, 9, 8), np.float32), None, 8)
held.close()
if child == 0:
    os._exit(0 if [row.tolist() for row in rows] == [[0, 1]] * 2 else 3)
print(os.waitpid(child, 0)[1])
"""
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)

    def test_two_threads_on_one_selector_wait_for_each_other(self):
        q, k, v = arrays(6, 594)
        taken, refused = [], []
        with plain() as selector:
            def run():
                for past in range(0, 600, 6):
                    try:
                        taken.append((past, [len(row) for row in selector.select(0, q, k[:, : past + 6], v[:, : past + 6], past)]))
                    except kvloupe.KvloupeError as error:
                        refused.append(str(error))
            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(past for past, _ in taken), sorted({past for past, _ in taken}))
        self.assertTrue(all(count == [min(4, past)] * 2 for past, count in taken))
        self.assertTrue(all("cannot take the chunk" in said for said in refused))

    def test_the_example_of_the_page(self):
        page = (ROOT / "docs" / "selector.md").read_text()
        code = page.split("```python\n", 1)[1].split("```", 1)[0]
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "kv_head [256, 256, 256, 256]\n"), done.stderr)

    def test_torch_before_and_after(self):
        """The engine's Torch and that of the process stay apart, whichever comes first."""
        code = """if {before}: import torch
import numpy as np, kvloupe
draw = np.random.default_rng(0).standard_normal
q, k = draw((4, 40, 8), dtype=np.float32), draw((2, 40, 8), dtype=np.float32)
with kvloupe.Selector("quoka:budget_tokens=8", layers=1, q_heads=4, kv_heads=2, head_dim=8) as selector:
    rows = [selector.select(0, q[:, at : at + 20], k[:, : at + 20], None, at) for at in (0, 20)][1]
    import torch
    assert torch.allclose(torch.ones(300, 300) @ torch.ones(300, 300), torch.full((300, 300), 300.0))
    selector.reset()
    print([row.tolist() for row in rows] == [row.tolist() for row in [selector.select(0, torch.from_numpy(q)[:, at : at + 20], torch.from_numpy(k)[:, : at + 20], None, at)
                                                                     for at in (0, 20)][1]], len(rows[0]))
"""
        for before in (True, False):
            done = subprocess.run([sys.executable, "-c", code.format(before=before)], capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, "True 8\n"), done.stderr)

if __name__ == "__main__":
    unittest.main()
