"""python -m kvloupe eval --workers: each sample is answered once whatever is killed, and as by one process."""
import os
import shutil
import signal
import sys
import tempfile
import unittest
from unittest import mock

import ray

from kvloupe.errors import KvloupeError
from kvloupe.eval.ray_workers import LEAST_STORE, places
from kvloupe.results.results_file import read_results

from .eval_cases import command, evaluate, without_times
from .support import scratch
from .worker_cases import Counted, begun, child_of, journal_lines, kill, parent_of, wait_for, workers_of

SPEC = "quoka:budget_tokens=8"
CORES = len(os.sched_getaffinity(0))


def left(output):
    """Files of a run beside its results."""
    return sorted(path.name for path in output.parent.glob(f"{output.name}?*"))


class Case(unittest.TestCase):
    def by_one(self, task, *arguments):
        output = task.folder / "one.h5"
        command(*task.arguments, "--threads", 1, "-o", output, *arguments)
        task.answers()
        return without_times(read_results(output)[1])

    def assert_whole(self, output, expected, answers=None, cut=0):
        """Answers that were cut short by a kill were not finished: they alone are given once more."""
        self.assertEqual(without_times(read_results(output)[1]), expected)
        self.assertEqual(left(output), [])
        if answers is not None:
            self.assertEqual(set(answers), {record["doc"] for record in expected})
            self.assertLessEqual(len(answers), len(expected) + cut)


class Processes(Case):
    def test_as_by_one(self):
        task, output = Counted("processes", 12), scratch("processes.h5")
        arguments = ["--method", "dense", "--method", SPEC]
        expected = self.by_one(task, *arguments)
        self.assertGreater(len({record["score"] for record in expected}), 2)
        command(*task.arguments, *arguments, "--workers", 2, "-o", output)
        self.assert_whole(output, expected, task.answers())
        command(*task.arguments, *arguments, "--method", "dense", "--limit", 1, "--workers", 3, "-o", scratch("few.h5"))
        self.assertEqual(len(read_results(scratch("few.h5"))[1]), 2)

    def test_shards_have_workers(self):
        task, parts = Counted("shards", 9), [scratch("shard1.h5"), scratch("shard2.h5")]
        expected = self.by_one(task)
        for at, part in enumerate(parts, 1):
            command(*task.arguments, "--workers", 2, "--shard", f"{at}/2", "-o", part)
        records = [record for part in parts for record in read_results(part)[1]]
        self.assertEqual(sorted(without_times(records), key=lambda record: record["doc"]), expected)
        self.assertEqual(sorted(task.answers()), list(range(9)))


class Killed(Case):
    def test_the_command(self):
        """Its workers end with it, and it goes on with another number of them, and with none."""
        task, output, said = Counted("killed", 60), scratch("killed.h5"), scratch("killed.txt")
        expected = self.by_one(task)
        task.flag("slow")
        for workers, lines in ((2, 10), (3, 15)):
            process = begun([*task.arguments, "--workers", workers, "--resume"], output, said)
            wait_for(lambda: journal_lines(output) >= lines, process)
            kill(process.pid)
            process.wait()
            wait_for(lambda: not workers_of(output))
        self.assertIn("was begun already", command(*task.arguments, "-o", output, expect=1))
        task.flag("slow", False)
        command(*task.arguments, "--threads", 1, "--resume", "-o", output)
        self.assert_whole(output, expected, task.answers(), cut=2 + 3)

    def under_way(self, name, workers):
        """A run that has answered its first samples, and what it is to answer."""
        task, output, said = Counted(name, 40), scratch(f"{name}.h5"), scratch(f"{name}.txt")
        expected = self.by_one(task)
        task.flag("slow")
        process = begun([*task.arguments, "--workers", workers], output, said)
        wait_for(lambda: journal_lines(output) >= 5, process)
        return task, output, said, expected, process

    def test_the_program_of_a_worker(self):
        task, output, said, expected, process = self.under_way("program", 1)
        kill(child_of(workers_of(output)[1]))
        task.flag("slow", False)
        self.assertEqual(process.wait(), 0)
        self.assertIn("part 1 of 1 was killed by signal 9 and goes on after ", said.read_text())
        self.assert_whole(output, expected, task.answers(), cut=1)

    def test_ctrl_c(self):
        task, output, said, expected, process = self.under_way("stopped", 2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertEqual(workers_of(output), {})
        self.assertEqual(left(output), ["stopped.h5.journal"])
        self.assertRegex(said.read_text(), r"you pressed Ctrl\+C; \d+ samples are in .*stopped.h5.journal: go on with --resume")
        task.flag("slow", False)
        command(*task.arguments, "--workers", 2, "--resume", "-o", output)
        self.assert_whole(output, expected, task.answers(), cut=2)

    def test_again_and_again(self):
        task, output = Counted("deadly", 4), scratch("deadly.h5")
        expected = self.by_one(task)
        task.flag("deadly")
        with mock.patch("kvloupe.eval.workers.MOST_KILLS", 2):
            said = command(*task.arguments, "--workers", 1, "-o", output, expect=1)
        self.assertEqual(said, "error: part 1 of 1 was killed 2 times and finished no sample between; the last time by signal 9; "
                               "give fewer workers or more memory, and go on with --resume")
        task.flag("deadly", False)
        command(*task.arguments, "--workers", 1, "-o", output)
        self.assert_whole(output, expected, task.answers())


class WithRay(Case):
    def test_a_worker_is_killed_twice(self):
        """First the process that answers, then the one of Ray that waits for it."""
        task, output, said = Counted("ray", 200), scratch("ray.h5"), scratch("ray.txt")
        expected = self.by_one(task)
        task.flag("slow")
        process = begun([*task.arguments, "--workers", "ray", "--threads", max(1, CORES // 2)], output, said)
        self.addCleanup(process.kill)
        wait_for(lambda: journal_lines(output, 1) >= 5, process)
        first = workers_of(output)[1]
        kill(first)
        wait_for(lambda: workers_of(output).get(1, first) != first and journal_lines(output, 1) >= 15, process)
        second = workers_of(output)[1]
        kill(parent_of(second))
        wait_for(lambda: workers_of(output).get(1) != second, process)
        task.flag("slow", False)
        self.assertEqual(process.wait(), 0, said.read_text())
        self.assert_whole(output, expected, task.answers(), cut=2)
        self.assertIn("part 1 of 2 was killed by signal 9 and goes on after ", said.read_text())
        self.assertIn("part 1 of 2 was killed by WorkerCrashedError and goes on after ", said.read_text())
        self.assertIn("\n200 samples, ", said.read_text())

    def test_a_cluster(self):
        task, output, said = Counted("cluster", 12), scratch("cluster.h5"), scratch("cluster.txt")
        expected = self.by_one(task)
        folder = tempfile.mkdtemp(prefix="kvloupe-ray-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with mock.patch.dict(os.environ, RAY_AUTH_TOKEN="0" * 64, RAY_USAGE_STATS_ENABLED="0"):
            ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=LEAST_STORE, _temp_dir=folder, log_to_driver=False)
            self.addCleanup(ray.shutdown)
            address = ray.get_runtime_context().gcs_address
            process = begun([*task.arguments, "--workers", f"ray:{address}", "--threads", 1], output, said)
            self.assertEqual(process.wait(), 0, said.read_text())
        self.assertIn(f"2 workers on the Ray cluster at {address}, 1 threads each; ", said.read_text())
        self.assert_whole(output, expected, task.answers())

    def test_how_many_fit(self):
        def node(**resources):
            return {"Alive": True, "Resources": resources}

        nodes = [node(CPU=8.0), node(CPU=16.0, GPU=2.0), node(memory=1.0), {"Alive": False, "Resources": {"CPU": 99.0}}]
        self.assertEqual(places(nodes, None, False), (6, 4))
        self.assertEqual(places(nodes, 6, False), (3, 6))
        self.assertEqual(places(nodes, None, True), (2, 4))
        self.assertEqual(places([node(CPU=2.0)], None, False), (1, 2))
        for found, threads, with_gpu in (([node(CPU=2.0)], 4, False), (nodes[:1], None, True), ([], None, False)):
            with self.assertRaisesRegex(KvloupeError, "^no worker can be started; .*; .*$"):
                places(found, threads, with_gpu)


class Refused(unittest.TestCase):
    def test_what_a_worker_refuses(self):
        output = scratch("refused.h5")
        said = evaluate(output, "--tasks", "tiny_texts", "--workers", 2, expect=1)
        self.assertIn("there is no task tiny_texts; ", said)
        self.assertEqual(left(output), [])

    def test_samples_that_are_refused(self):
        output = scratch("long.h5")
        said = evaluate(output, "--tasks", "tiny_text", "--gen-kwargs", "max_gen_toks=600", "--limit", 2, "--workers", 2, expect=1)
        self.assertIn(f"2 of 2 samples were refused, and {output} says so of each", said)
        self.assertEqual(left(output), [])

    def test_without_ray(self):
        with mock.patch.dict(sys.modules, ray=None):
            said = evaluate(scratch("none.h5"), "--tasks", "tiny_text", "--workers", "ray", expect=1)
        self.assertEqual(said, "error: nothing can be given to Ray; ray is not installed; pip install ray==2.60.0")
        said = evaluate(scratch("none.h5"), "--tasks", "tiny_text", "--workers", "ray:127.0.0.1:1", expect=1)
        self.assertIn("no Ray cluster answers at 127.0.0.1:1; ", said)
        self.assertEqual(left(scratch("none.h5")), [])

    def test_wrong_words(self):
        for word in ("0", "ray:", "rays", "2x", "-1"):
            said = evaluate(scratch("words.h5"), "--tasks", "tiny_text", f"--workers={word}", expect=2)
            self.assertIn(f"error: --workers cannot take '{word}'; ", said)


if __name__ == "__main__":
    unittest.main()
