"""Kills at random moments: of a run that goes on, of the joining of what workers finished, and of the merge of results.

KVLOUPE_KILLS says how many of each (8)."""
import contextlib
import io
import os
import random
import shutil
import signal
import time
import types
import unittest
from unittest import mock

from kvloupe.results import planned
from kvloupe.results.command import run_merge
from kvloupe.results.journal import Journal
from kvloupe.results.parts_folder import PartsFolder, take_in
from kvloupe.results.record import unknown_as_nan
from kvloupe.results.results_file import read_results, write_results

from .eval_cases import command, without_times
from .support import scratch
from .worker_cases import Counted

KILLS = int(os.environ.get("KVLOUPE_KILLS", "8"))
RUN = {"model": "m"}
RECORD = {"sample": "", "task": "t", "doc": 0, "method": "dense", "length": -1, "depth": 0.0, "seed": 1, "budget": -1, "answer": "a" * 400,
          "expected": "b", "refused": "", "metrics": {}, "direction": 1, "score": 0.5, "kept": 0.0, "prompt_tokens": 3, "prefill_s": 0.0, "decode_s": 0.0}


def records(numbers):
    return [{**unknown_as_nan(RECORD), "id": f"{number:032x}", "sample": f"{number:032x}", "doc": number} for number in numbers]


def killed(what, seconds):
    """Runs it in a process that is killed after at most that time. Returns whether it was, and the time for the next one: of a
    process that ended before, its own, since what was measured on a busy machine may be far too long."""
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            what()
        finally:
            os._exit(0)
    begin = time.monotonic()
    until = begin + random.uniform(0, seconds)
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0] == child:
            return False, time.monotonic() - begin
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, seconds


def seconds_of(what):
    begin = time.monotonic()
    what()
    return time.monotonic() - begin


class Kills(unittest.TestCase):
    def test_of_a_run_that_goes_on(self):
        task, whole, output = Counted("goes-on", 60), scratch("goes-on-whole.h5"), scratch("goes-on.h5")
        arguments = [*task.arguments, "--threads", 1, "--resume", "-o"]
        command(*arguments, scratch("goes-on-first.h5"))  # What it imports is there now.
        seconds = seconds_of(lambda: command(*arguments, whole))
        expected, kills, whole_runs = without_times(read_results(whole)[1]), 0, 1
        task.answers()
        while kills < KILLS:
            if output.exists():
                self.assertEqual(without_times(read_results(output)[1]), expected)
                output.unlink()
                whole_runs += 1
            was_killed, seconds = killed(lambda: command(*arguments, output), seconds)
            kills += was_killed
        command(*arguments, output)
        self.assertEqual(without_times(read_results(output)[1]), expected)
        # A kill cuts one answer at most: all others stand in the journal.
        self.assertLessEqual(len(task.answers()), 60 * whole_runs + kills)
        self.assertFalse(scratch("goes-on.h5.journal").exists())

    def test_of_the_joining(self):
        output = scratch("joined.h5")

        def join():
            with Journal(f"{output}.journal", RUN) as journal:
                return take_in(output, RUN, journal, [])

        def prepare():
            scratch("joined.h5.journal").unlink(missing_ok=True)
            folder = PartsFolder.of(output)
            shutil.rmtree(folder.path, ignore_errors=True)
            folder.begin([], {})
            with Journal(f"{output}.journal", RUN) as journal:
                for record in records(range(100)):
                    journal.add(record)
            write_results(folder.results(1), RUN, records(range(50, 200)), planned.joined([], records(range(500))))
            with Journal(folder.journal(2), RUN) as journal:
                for record in records(range(150, 500)):
                    journal.add(record)

        prepare()
        seconds = seconds_of(join)
        kills = 0
        while kills < KILLS:
            prepare()
            was_killed, seconds = killed(join, seconds)
            kills += was_killed
            join()
            with Journal(f"{output}.journal", RUN) as journal:
                self.assertEqual([record["doc"] for record in journal.records], list(range(500)))
            self.assertFalse(PartsFolder.of(output).exists())

    def test_a_worker_ends_while_its_samples_are_joined(self):
        output, folder = scratch("late.h5"), PartsFolder.of(scratch("late.h5"))
        folder.begin([], {})
        with Journal(folder.journal(1), RUN) as journal:
            journal.add(records([1])[0])

        def ends(path):
            write_results(folder.results(1), RUN, records([1, 2]), planned.joined([], records([1, 2])))
            path.unlink()

        with mock.patch("kvloupe.results.parts_folder.wait_until_free", ends), Journal(f"{output}.journal", RUN) as journal:
            take_in(output, RUN, journal, [])
            self.assertEqual([record["doc"] for record in journal.records], [1, 2])

    def test_the_folder_stays_while_samples_are_missing(self):
        task, output = Counted("missing", 2), scratch("missing.h5")

        def until_ended(options, _):
            PartsFolder.of(options.output).begin([], {})
            return {"a" * 32}

        with mock.patch("kvloupe.eval.workers._until_ended", until_ended):
            said = command(*task.arguments, "--workers", 1, "-o", output, expect=1)
        self.assertIn("1 of 1 samples are missing; ", said)
        self.assertTrue(PartsFolder.of(output).exists())

    def test_of_the_merge(self):
        parts, output = [scratch(f"merged{at}.h5") for at in range(2)], scratch("merged.h5")
        plan = planned.joined([], records(range(500)))
        write_results(parts[0], RUN, records(range(0, 300)), plan)
        write_results(parts[1], RUN, records(range(200, 500)), plan)

        def merge():
            with contextlib.redirect_stdout(io.StringIO()):
                run_merge(types.SimpleNamespace(parts=list(map(str, parts)), output=str(output), force=True))

        seconds = seconds_of(merge)
        kills = 0
        while kills < KILLS:
            write_results(output, RUN, records(range(7)), plan)
            was_killed, seconds = killed(merge, seconds)
            kills += was_killed
            found = [record["doc"] for record in read_results(output)[1]]
            self.assertIn(found, (list(range(7)), list(range(500))))
        merge()
        self.assertEqual([record["doc"] for record in read_results(output)[1]], list(range(500)))


if __name__ == "__main__":
    unittest.main()
