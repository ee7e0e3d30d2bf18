"""Methods in a file of Python, and one of them run on a trace in a process of its own."""
import importlib.util
import inspect
import os
import resource
import signal
import sys
import tempfile
import time

import numpy as np

from . import own_method, plugin
from .errors import MOST_TOLD, KvloupeError, one_line
from .interrupts import MOST_SECONDS_TO_END, PR_SET_CHILD_SUBREAPER, die_with_parent, prctl
from .reader import Trace

# Between two looks at whether the process has ended.
PAUSE = 0.02
MODULE = "kvloupe_own_method"


def methods_from(path):
    """{name: function} of the functions that a file defines, but for those whose names begin with _."""
    return _functions_of(_load(path))


def _functions_of(module):
    return {name: value for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")}


def _load(path):
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise KvloupeError(f"cannot read {path}", "there is no such file", "give FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None:
        raise KvloupeError(f"cannot read {path}", "its name does not end in .py", "rename it")
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))  # what lies beside it can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = getattr(error, "lineno", 0)
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == path:
                line = frame.tb_lineno
            frame = frame.tb_next
        why = (f"line {line}: " if line else "") + one_line(error)
        if own_method.lacks_memory(error):
            raise own_method.OutOfMemory(f"{path} ran out of memory before its methods", why, "let it take less") from error
        raise KvloupeError(f"cannot run {path}", why, "mend it") from error
    finally:
        sys.path.remove(os.path.dirname(path))
    return module


def function_of(text, rows, in_c):
    """Of "FILE.py:FUNCTION", or in C of "LIBRARY.so:FUNCTION"."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise KvloupeError(f"{text} names no function", "it is a file and a function in it", "write it as in my_methods.py:far_keys")
    if in_c:
        return plugin.Method(path, name, rows)
    module = _load(path)
    function = getattr(module, name, None)
    if not callable(function):
        raise KvloupeError(f"{path} has no function {name}", f"it has {', '.join(_functions_of(module)) or 'none'}", "name one of them")
    return function


def select_apart(path, function, *, rows, budget, layers, seconds, bytes_of_memory, in_c=False):
    """{layer: Cells} of "FILE.py:FUNCTION" or "LIBRARY.so:FUNCTION" on the trace at `path`, computed in a process of its own that has so much time and
    memory. It ends with all that it started, and what it can spoil is its own answer. For a process without other children: they
    would be taken for what the method left behind, and ended."""
    def work(answer):
        own_pid = os.getpid()
        with Trace(path) as trace:
            selected = own_method.select_layers(trace, function_of(function, rows, in_c), rows, budget, layers)
        if os.getpid() != own_pid:
            return  # A process that the method forked came back from it, too.
        np.savez(answer, **{f"{layer} {name}": array for layer, cells in selected.items() for name, array in cells.arrays().items()})

    with tempfile.TemporaryDirectory(prefix="kvloupe-") as folder:
        answer = os.path.join(folder, "selected.npz")
        _run_apart(lambda: work(answer), seconds, bytes_of_memory)
        if not os.path.exists(answer):
            raise KvloupeError("the method ended its process", "it left before it had answered", "mend it")
        with np.load(answer, allow_pickle=False) as arrays:
            numbers = sorted({int(name.split()[0]) for name in arrays})
            return {layer: own_method.Cells.of(**{name.split()[1]: arrays[name] for name in arrays if name.split()[0] == str(layer)}) for layer in numbers}


def _run_apart(work, seconds, bytes_of_memory):
    sys.stdout.flush()
    sys.stderr.flush()
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the method starts and leaves behind becomes a child of this process
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(from_child)
        _work_and_exit(work, to_parent, bytes_of_memory)
    os.close(to_parent)
    status = None
    try:
        status = _wait(child, seconds)
    finally:
        _end(child, status is None)
    told = _what_is_there(from_child)
    if told:
        raise KvloupeError(*told.split("\0")[:3])
    if status is None:
        raise KvloupeError("the method was stopped", f"it had not ended after {seconds:g} s", "give it more by --time-limit, or fewer --layers")
    if status != 0:
        how = f"signal {os.WTERMSIG(status)} ended it" if os.WIFSIGNALED(status) else f"it left with exit code {os.WEXITSTATUS(status)}"
        raise KvloupeError("the method ended its process", how, "mend it, or give it more memory, whose lack ends a process like this, too")


def _work_and_exit(work, to_parent, bytes_of_memory):
    code, own_pid = 1, os.getpid()
    less_memory = "let it take less, or give it more by --memory-limit"

    def tell(*parts):
        if os.getpid() == own_pid:  # and not what the method forked
            _tell(to_parent, parts)
    try:
        os.setpgid(0, 0)  # what it starts is ended with it
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        bytes_of_memory = _within_hard_limit(bytes_of_memory)
        resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work()
        code = 0
    except own_method.OutOfMemory as error:
        tell(*error.parts[:2], less_memory)
    except KvloupeError as error:
        tell(*error.parts)
    except MemoryError:
        tell("the method ran out of memory", f"it may have {bytes_of_memory >> 20} MiB", less_memory)
    except BaseException as error:  # such as sys.exit() in the file
        tell("the method cannot be run", one_line(error), "mend it")
    finally:
        os._exit(code)  # nothing of the parent's is done twice


def _within_hard_limit(wanted):
    """No process gets more than that, as after ulimit -v."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def _tell(to_parent, parts):
    """Less than a pipe holds: nobody reads before the end."""
    os.write(to_parent, "\0".join(part.replace("\0", " ")[:MOST_TOLD] for part in parts).encode("utf-8", "replace"))


def _what_is_there(from_child):
    """Not to its end: a process that got away may hold the other one open."""
    os.set_blocking(from_child, False)
    try:
        return os.read(from_child, 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(from_child)


def _wait(child, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(PAUSE)
    return None


def _end(child, runs):
    """The process, where it still runs, and what it started, also in sessions of their own."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if runs:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    end = time.monotonic() + MOST_SECONDS_TO_END
    while time.monotonic() < end:
        orphans = _children()
        if not orphans:
            return
        for orphan in orphans:
            try:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def _children():
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                        found.append(int(name))
            except OSError:
                pass
    return found
