"""A command that is told to end leaves nothing half written."""
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

MOST_SECONDS_TO_END = 10
# prctl(2)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Seconds from an interrupt that was lost until it is raised again.
PAUSE = 0.02
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Not every system has all.

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

    for number in SIGNALS:
        signal.signal(number, end)


def end_with_input():
    """At once when nobody holds the other end of standard input any more, which is when the process that started this one is gone."""
    def wait():
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def end_with_parent():
    """As Ctrl+C, when the program that started this process ends or a terminal closes. What more is told in the seconds after that is the
    same wish, and would cut short what cleans up."""
    told = -MOST_SECONDS_TO_END

    def interrupt(*_):
        nonlocal told
        if time.monotonic() - told >= MOST_SECONDS_TO_END:
            told = time.monotonic()
            raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, interrupt)
    _raise_again_what_is_lost()
    die_with_parent()


def _raise_again_what_is_lost():
    """Python drops an exception in a callback, such as that of a weak reference. The hook is such a callback itself: what it raised would be
    dropped again. So a timer raises it a moment later."""
    def again(_, frame):
        if frame is not None and frame.f_code is hook.__code__:
            signal.setitimer(signal.ITIMER_REAL, PAUSE)
        else:
            raise KeyboardInterrupt

    def hook(lost, before=sys.unraisablehook):
        if lost.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, PAUSE)
        else:
            before(lost)

    signal.signal(signal.SIGALRM, again)
    sys.unraisablehook = hook


def die_with_parent(number=signal.SIGTERM):
    """That signal comes when the program that started this process ends."""
    prctl(PR_SET_PDEATHSIG, number)


def prctl(option, value):
    """Linux has it; elsewhere nothing is lost but this guard."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0)
    except (OSError, AttributeError):
        pass
