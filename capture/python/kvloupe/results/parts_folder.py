"""RESULTS.h5.parts/: what workers write, each a part of one run. Whatever ends them, the samples that they finished are there."""
import fcntl
import json
import os
import pathlib
import shutil
import time

from ..errors import KvloupeError
from .journal import Journal
from .results_file import read_results
from .same_run import check_same

SECONDS_OF_A_LOCK = 30


class PartsFolder:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._finished = self.path / "finished.json"

    @classmethod
    def of(cls, output):
        return cls(f"{os.path.abspath(output)}.parts")

    def exists(self):
        return self.path.is_dir()

    def begin(self, finished, origins):
        """finished: ids of samples that no part has to run; origins: of these samples."""
        try:
            self.path.mkdir()
            write_whole(self._finished, {"ids": sorted(finished), "origins": [[*key, sorted(hashes)] for key, hashes in origins.items()]})
        except OSError as error:
            raise KvloupeError(f"{self.path} cannot be written", error.strerror or str(error), "name a file in a folder of yours by -o") from None

    def finished(self):
        """(ids, origins)"""
        finished = json.loads(self._finished.read_text())
        return set(finished["ids"]), {(kind, name): set(hashes) for kind, name, hashes in finished["origins"]}

    def results(self, number):
        return self.path / f"{number}.h5"

    def journal(self, number):
        return self.path / f"{number}.h5.journal"

    def planned(self, number):
        """Ids of the whole run, all parts together, as this part made them."""
        return self.path / f"{number}.planned.json"

    def log(self, number):
        return self.path / f"{number}.log"

    def remove(self):
        """What another machine's file system keeps open stays, and is taken in once more when the run goes on."""
        shutil.rmtree(self.path, ignore_errors=True)


def write_whole(path, value):
    """A reader sees all of it or nothing."""
    temporary = f"{path}.new"
    pathlib.Path(temporary).write_text(json.dumps(value))
    os.replace(temporary, path)


def take_in(output, run, journal, before, keep=False):
    """What workers finished goes to the journal of the results, and their folder goes then unless it is kept. Returns the plans of parts that
    came to their end."""
    folder, plans = PartsFolder.of(output), []
    if not folder.exists():
        return plans
    known = {record["id"] for record in [*before, *journal.records]}
    for records, plan in _of_parts(folder, run):
        plans.append(plan)
        for record in records:
            if record["id"] not in known:
                known.add(record["id"])
                journal.add(record)
    if not keep:
        folder.remove()
    return plans


def _of_parts(folder, run):
    """A worker that comes to its end meanwhile writes its results before its journal goes: these are looked for when all journals were read."""
    paths, of_journals = sorted(folder.path.glob("*.h5.journal")), []
    for path in paths:
        wait_until_free(path)
    for path in paths:
        with Journal(path, run) as part:
            of_journals += part.records
    for path in sorted(folder.path.glob("*.h5")):
        of_file, records, plan = read_results(path)
        check_same(path, of_file, run)
        yield records, plan
    yield of_journals, {}


def wait_until_free(path):
    """A worker that was killed just now may be on its way out, on another machine too."""
    end = time.monotonic() + SECONDS_OF_A_LOCK
    while _is_locked(path) and time.monotonic() < end:
        time.sleep(0.2)


def _is_locked(path):
    try:
        with open(path, "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
