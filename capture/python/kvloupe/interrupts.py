"""A command that is told to end leaves nothing half written."""
import contextlib
import os
import signal
import threading

_begun = set()


@contextlib.contextmanager
def dropping(path):
    """While it lasts, the file goes when the command is ended by a signal."""
    _begun.add(path)
    try:
        yield
    finally:
        _begun.discard(path)


def end_at_signals():
    """At once: an exception could be lost in a callback, and a second signal would end what cleans up after the first."""
    def end(*_):
        for path in list(_begun):
            try:
                os.unlink(path)
            except OSError:
                pass  # it has its name already
        os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def end_with_input():
    """At once when nobody holds the other end of standard input any more, which is when the process that started this one is gone."""
    def wait():
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()
