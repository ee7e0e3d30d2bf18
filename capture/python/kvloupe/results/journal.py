"""RESULTS.h5.journal: a line of JSON for each finished sample, beside the file that is being made. It survives a kill at any time."""
import contextlib
import fcntl
import json
import os

from ..errors import KvloupeError
from .record import check_record, nan_as_unknown, unknown_as_nan
from .same_run import check_same

FORMAT = "kvloupe-results-journal/1"


class Journal:
    """Opened, it is locked; a line that a kill cut short is cut away. `records` are those of lines that are whole."""

    def __init__(self, path, run):
        self.path, self.records = path, []
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise _refused(path, "another process writes to it", "wait for it, or name another file") from None
        except OSError as error:
            raise _refused(path, error.strerror or str(error), "use a folder of yours") from None
        try:
            self._check_place()
            self._read(run)
        except BaseException:
            os.close(self._file)
            raise

    def _check_place(self):
        """A run that ended meanwhile has removed the file that was opened here."""
        try:
            same = os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            same = False
        if not same:
            raise _refused(self.path, "another process has just ended with it", "run this again (eval: with --resume)")

    def _read(self, run):
        with open(self.path, "rb") as file:
            content = file.read()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].split(b"\n")[:-1]
        head = _parsed(lines[0]) if lines else {"format": FORMAT} if _is_cut_head(content) else None
        if not isinstance(head, dict) or head.get("format") != FORMAT:  # Before anything is cut: it may be a file of someone's own.
            raise _refused(self.path, "it is no journal of results", "remove it, or write to another file")
        if lines:
            check_same(self.path, head.get("run"), run)
        for line in lines[1:]:
            record = _parsed(line)
            if not check_record(record):
                raise _refused(self.path, "it holds a line that is no sample", "remove it; what is in the results stays")
            self.records.append(unknown_as_nan(record))
        os.ftruncate(self._file, whole)
        if not lines:
            self._write({"format": FORMAT, "run": run})

    def add(self, record):
        self._write(nan_as_unknown(record))
        self.records.append(record)

    def _write(self, value):
        """One write: after a kill a line is there or not, or cut short at the end."""
        line = json.dumps(value, allow_nan=False).encode() + b"\n"
        try:
            while line:
                line = line[os.write(self._file, line):]
        except OSError as error:
            raise _refused(self.path, error.strerror or str(error), "free some space, and go on with --resume") from None

    def remove(self):
        """Its samples are elsewhere now."""
        self.records = []

    def close(self):
        """The lock ends last: nobody opens what is removed here."""
        if not self.records:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        os.close(self._file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _is_cut_head(content):
    begin = json.dumps({"format": FORMAT}).encode()[:-1]
    return content.startswith(begin) or begin.startswith(content)


def _refused(path, why, what_to_do):
    return KvloupeError(f"the journal {path} cannot be used", why, what_to_do)


def _parsed(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
