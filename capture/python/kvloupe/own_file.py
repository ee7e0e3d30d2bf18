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

from . import own_method
from .errors import KvloupeError
from .reader import Trace

# Between two looks at whether the process has ended.
PAUSE = 0.02


def methods_from(path):
    """{name: function} of the functions that a file defines, but for those whose names begin with _."""
    module = _load(path)
    return {name: value for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")}


def _load(path):
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise KvloupeError(f"cannot read {path}", "there is no such file", "give FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location("kvloupe_own_method", path)
    if spec is None:
        raise KvloupeError(f"cannot read {path}", "its name does not end in .py", "rename it")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))  # what lies beside it can be imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = getattr(error, "lineno", None)
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == path:
                line = frame.tb_lineno
            frame = frame.tb_next
        raise KvloupeError(f"cannot run {path}", f"line {line}: {type(error).__name__}: {error}", "mend it") from error
    finally:
        sys.path.remove(os.path.dirname(path))
    return module


def function_of(text):
    """Of "FILE.py:FUNCTION"."""
    path, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise KvloupeError(f"{text} names no function", "it is FILE.py:FUNCTION", "write it as in my_methods.py:far_keys")
    methods = methods_from(path)
    if name not in methods:
        raise KvloupeError(f"{path} has no function {name}", f"it has {', '.join(methods) or 'none'}", "name one of them")
    return methods[name]


def select_apart(path, function, *, rows, budget, layers, seconds, bytes_of_memory):
    """{layer: Cells} of "FILE.py:FUNCTION" on the trace at `path`, computed in a process of its own that has so much time and
    memory. It ends with all that it started, and what it can spoil is its own answer."""
    def work(answer):
        with Trace(path) as trace:
            selected = own_method.select_layers(trace, function_of(function), rows, budget, layers)
        np.savez(answer, **{f"{layer} {name}": array for layer, cells in selected.items() for name, array in cells.arrays().items()})

    with tempfile.TemporaryDirectory(prefix="kvloupe-") as folder:
        answer = os.path.join(folder, "selected.npz")
        _run_apart(lambda: work(answer), seconds, bytes_of_memory)
        with np.load(answer, allow_pickle=False) as arrays:
            numbers = sorted({int(name.split()[0]) for name in arrays})
            return {layer: own_method.Cells.of(**{name: arrays[f"{layer} {name}"] for name in ("flags", "offsets", "positions")}) for layer in numbers}


def _run_apart(work, seconds, bytes_of_memory):
    sys.stdout.flush()
    sys.stderr.flush()
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
        raise KvloupeError(*told.split("\0"))
    if status is None:
        raise KvloupeError("the method was stopped", f"it had not ended after {seconds:g} s", "give it more by --time-limit, or fewer --layers")
    if status != 0:
        how = f"signal {os.WTERMSIG(status)} ended it" if os.WIFSIGNALED(status) else f"it left with exit code {os.WEXITSTATUS(status)}"
        raise KvloupeError("the method ended its process", how, "mend it, or give it more by --memory-limit")


def _work_and_exit(work, to_parent, bytes_of_memory):
    code = 1
    try:
        os.setpgid(0, 0)  # what it starts is ended with it
        resource.setrlimit(resource.RLIMIT_AS, (bytes_of_memory, bytes_of_memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work()
        code = 0
    except KvloupeError as error:
        _tell(to_parent, error.parts)
    except MemoryError:
        _tell(to_parent, ("the method ran out of memory", f"it may have {bytes_of_memory >> 20} MiB", "give it more by --memory-limit"))
    except BaseException as error:  # such as sys.exit() in the file
        _tell(to_parent, ("the method cannot be run", f"{type(error).__name__}: {error}", "mend it"))
    finally:
        os._exit(code)  # nothing of the parent's is done twice


def _tell(to_parent, parts):
    """Less than a pipe holds: nobody reads before the end."""
    os.write(to_parent, "\0".join(part.replace("\0", " ") for part in parts).encode("utf-8", "replace")[:4000])


def _what_is_there(from_child):
    """Not to its end: a process that got away may hold the other one open."""
    os.set_blocking(from_child, False)
    try:
        return os.read(from_child, 4000).decode("utf-8", "replace")
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
    """The process, where it still runs, and what it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if runs:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
