"""--workers: parts of a run at once, each `python -m kvloupe eval` in a process of its own. One that is killed is started again."""
import contextlib
import json
import sys
import time

from ..errors import KvloupeError
from ..printable import printable
from ..results.origin import origins
from ..results.parts_folder import PartsFolder, take_in
from .local_workers import LocalWorkers
from .progress import Progress, tell_stopped

LINES_TOLD = 20  # of a worker that failed without a sentence
MOST_KILLS = 5  # of a part that finishes no sample between
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_SEE_PLANS = 120  # A shared file system shows what another machine wrote after a while.


def run_parts(options, run, before, journal):
    """Ids of what this run was to make, whose samples are in the journal then, and plans of the whole run. The folder of the parts stays."""
    try:
        ids = _until_ended(options, [*before, *journal.records])
    except BaseException as why:
        with contextlib.suppress(KvloupeError):  # Those that cannot be had now wait for --resume in their folder.
            take_in(options.output, run, journal, before)
        if isinstance(why, KeyboardInterrupt):
            tell_stopped(journal)
        raise
    return ids, take_in(options.output, run, journal, before, keep=True)


def _until_ended(options, records):
    finished = {record["id"] for record in records}
    folder = PartsFolder.of(options.output)
    with _place(options) as place:
        folder.begin(finished, origins(records))
        return _Run(options, folder, finished, place).until_all_ended()


def _place(options):
    if isinstance(options.workers, int):
        return LocalWorkers(options.workers, options.threads)
    from .ray_workers import RayWorkers
    return RayWorkers(options.workers[1], options.threads, options.device)


class _Run:
    def __init__(self, options, folder, finished, place):
        self._options, self._folder, self._finished, self._place = options, folder, finished, place
        self._parts = {number: _Part(folder.journal(number)) for number in range(1, place.count + 1)}
        self._unplanned, self._running, self._ids, self._progress = set(self._parts), set(self._parts), None, None

    def until_all_ended(self):
        print(f"{self._place.count:,} workers {self._place.where}, {self._place.threads} threads each; what they say is in {self._folder.path}/*.log",
              file=sys.stderr)
        for number in self._parts:
            self._start(number)
        while self._running:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            ended = self._place.ended()
            self._look_at_plans()
            if self._progress:
                self._progress.reach(sum(part.finished() for part in self._parts.values()))
            for number, code, written in ended:
                self._end(number, code, written)
        self._wait_for_plans()
        self._progress.reach(len(self._ids) - self._progress.passed_over)
        self._progress.end()
        return set(self._ids)

    def _start(self, number):
        results = self._folder.results(number)
        arguments = ["-m", "kvloupe", *self._options.given, "--part", self._folder.path, f"{number}/{self._place.count}", "--resume",
                     "--threads", self._place.threads, "-o", results]
        if self._place.device:
            arguments += ["--device", self._place.device]
        self._place.start(number, list(map(str, arguments)), self._folder.log(number), results)

    def _end(self, number, code, written):
        """The code is a number, below 0 or above 128 of what was killed, or a text of what ended it otherwise."""
        if written:  # Those that refused samples end with 1.
            self._running.discard(number)
            return
        name, part = f"part {number} of {self._place.count}", self._parts[number]
        if isinstance(code, int) and 0 <= code <= 128:
            raise _said(self._folder.log(number), f"{name} ended with {code}")
        reason = code if isinstance(code, str) else f"signal {-code if code < 0 else code - 128}"
        if part.killed() >= MOST_KILLS:
            raise KvloupeError(f"{name} was killed {MOST_KILLS} times and finished no sample between", f"the last time by {reason}",
                               "give fewer workers or more memory, and go on with --resume")
        print(f"{name} was killed by {reason} and goes on after {part.finished():,} samples", file=sys.stderr)
        self._start(number)

    def _look_at_plans(self):
        for number in sorted(self._unplanned):
            try:
                ids = json.loads(self._folder.planned(number).read_text())
            except FileNotFoundError:
                continue
            self._unplanned.discard(number)
            if self._ids is None:
                self._ids, self._progress = ids, Progress(len(ids))
                self._progress.passed_over = sum(identity in self._finished for identity in ids)
            elif ids != self._ids:
                raise KvloupeError("the workers have different samples", "a task makes other texts each time that it is loaded",
                                   "leave it out, or run it without --workers")

    def _wait_for_plans(self):
        end = time.monotonic() + SECONDS_TO_SEE_PLANS
        while self._unplanned:
            if time.monotonic() > end:
                raise KvloupeError("what the workers did cannot be seen", f"their files are not in {self._folder.path}",
                                   "let all of them have this folder, and go on with --resume")
            time.sleep(SECONDS_BETWEEN_LOOKS)
            self._look_at_plans()


class _Part:
    """How far it is, by its journal, of which only new lines are read."""

    def __init__(self, journal):
        self._journal, self._lines, self._bytes, self._kills, self._at_kill = journal, 0, 0, 0, 0

    def finished(self):
        with contextlib.suppress(FileNotFoundError):  # It begins, or its samples are in its results.
            with open(self._journal, "rb") as file:
                file.seek(self._bytes)
                new = file.read()
            self._lines += new.count(b"\n")
            self._bytes += new.rfind(b"\n") + 1
        return max(0, self._lines - 1)  # The first line is of the run.

    def killed(self):
        """How many times in a row it was, without a sample between."""
        finished = self.finished()
        self._kills = 1 if finished > self._at_kill else self._kills + 1
        self._at_kill = finished
        return self._kills


def _said(log, what):
    """The last sentence of a worker."""
    lines = log.read_text(errors="replace").splitlines()
    sentences = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    parts = sentences[-1].split("; ", 2) if sentences else []
    if len(parts) == 3:
        return KvloupeError(*parts)
    print("\n".join(map(printable, lines[-LINES_TOLD:])), file=sys.stderr)
    return KvloupeError(what, "what it said last is above", "report this with what you did")
