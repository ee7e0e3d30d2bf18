"""The file that is written under another name until it is whole."""
import os
import pathlib

from .errors import KvloupeError

try:
    import fcntl
except ImportError:  # Windows: two recordings of one name are not told apart there.
    fcntl = None


class PartFile:
    """`path`.part, held by an exclusive lock, which readers do not take; renamed to `path` at the end."""

    def __init__(self, path, force):
        self.path = pathlib.Path(os.path.realpath(path))
        self.part = self.path.with_name(self.path.name + ".part")
        self.force = force
        self._refuse_existing()
        try:
            self._descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise KvloupeError(f"cannot write {self.part}", error.strerror, "give another path") from None
        try:
            self._lock()
            if os.fstat(self._descriptor).st_size and not force:
                raise KvloupeError(f"{self.part} exists", "a recording of that name was cut short and left its chunks there",
                                   "rename it, which makes it a trace, give force=True to drop it, or another path")
        except KvloupeError:
            os.close(self._descriptor)
            raise

    def _refuse_existing(self):
        if self.path.exists() and not self.force:
            raise KvloupeError(f"{self.path} exists", "a recording would replace it", "give force=True or another path")

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
        self._refuse_existing()
        os.replace(self.part, self.path)
        self.release()

    def drop(self):
        os.unlink(self.part)
        self.release()

    def release(self):
        """Leaves it under the other name."""
        os.close(self._descriptor)
