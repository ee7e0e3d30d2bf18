"""The file that is written under another name until it is whole."""
import os
import pathlib

from .errors import KvloupeError

try:
    import fcntl
except ImportError:  # Windows: two recordings of one name are not told apart there.
    fcntl = None


def names_of(path):
    """The file, and what it is called while it is written."""
    path = pathlib.Path(os.path.realpath(path))
    return path, path.with_name(path.name + ".part")


def refuse_existing(path, force):
    if path.exists() and not path.is_file():
        raise KvloupeError(f"cannot write {path}", "it is no regular file", "give another path")
    if path.exists() and not force:
        raise KvloupeError(f"{path} exists", "a recording would replace it", "give force=True (--force), or another path")


def check_output(path, force):
    """What can be said before anything is computed. Nothing is made or locked."""
    path, part = names_of(path)
    refuse_existing(path, force)
    if not path.parent.is_dir():
        raise KvloupeError(f"cannot write {part}", f"there is no folder {path.parent}", "give another path")
    if not force and part.exists() and part.stat().st_size:
        raise _left_behind(part)


def refuse_inputs(written, inputs):
    """An output is never an input of the same call, by whatever name."""
    for path in filter(os.path.exists, written):
        if any(file and os.path.exists(file) and os.path.samefile(file, path) for file in inputs):
            raise KvloupeError(f"cannot write {path}", "it is one of the files that are read", "give another path")


def _left_behind(part):
    return KvloupeError(f"{part} exists", "a recording of that name was cut short and left its chunks there",
                        "rename it, which makes it a trace, give force=True (--force) to drop it, or another path")


class PartFile:
    """`path`.part, held by an exclusive lock, which readers do not take; renamed to `path` at the end."""

    def __init__(self, path, force):
        self.path, self.part = names_of(path)
        self.force = force
        refuse_existing(self.path, force)
        try:
            self._descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise KvloupeError(f"cannot write {self.part}", error.strerror, "give another path") from None
        try:
            self._lock()
            if os.fstat(self._descriptor).st_size and not force:
                raise _left_behind(self.part)
        except KvloupeError:
            os.close(self._descriptor)
            raise

    def _lock(self):
        if fcntl is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KvloupeError(f"cannot write {self.path}", "another recording is writing it",
                               "wait for it or give another path") from None
        except OSError:
            pass  # The file system has no locks.

    def keep(self):
        """Gives the file its name."""
        refuse_existing(self.path, self.force)
        os.replace(self.part, self.path)
        self.release()

    def drop(self):
        os.unlink(self.part)
        self.release()

    def release(self):
        """Leaves it under the other name."""
        os.close(self._descriptor)
