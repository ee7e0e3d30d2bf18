"""Runs that are added beside a finished trace: FORMAT.md, section 9."""
import os
import shutil
import tempfile
import time

import h5py
import numpy as np

from . import header
from .errors import KvloupeError, one_line
from .file_image import image_of, write_image
from .interrupts import dropping
from .layout import PRODUCER, SCHEMA_VERSION, SIDECAR_FORMAT, describe, describe_plot
from .part_file import fcntl
from .runs import DENSE_FALLBACK, hash_of_trace
from .stored import BROKEN, Defect, member, numbered_members, text_attribute

MOST_RUNS = 1 << 20
MOST_WAIT = 10  # seconds for another program that saves a run
DATASETS = {"offsets": ("cell", "1", "where the positions of each cell begin"), "positions": ("position", "token", "keys that are kept"),
            "flags": ("cell", "1", "1: dense, nothing to choose"), "scores": ("score", "1", "what each candidate was given, cell after cell")}


def path_of(trace):
    return trace.absolute_path + ".runs.h5"


def check(trace, method):
    """Whether a run of that method can be added, before it is computed."""
    path = path_of(trace)
    if any(run.method == method and trace._is_own(run) for run in trace.runs):
        raise KvloupeError(f"cannot add a run {method} to {trace.path}", "the trace itself holds one of that name, which is not replaced",
                           "give another name")
    if not os.access(os.path.dirname(path), os.W_OK):
        raise KvloupeError(f"cannot save a run in {path}", "the folder cannot be written", "copy the trace to another folder")
    if os.path.exists(path):
        _check(path, trace)


def append(trace, method, row_axis, layers, note=""):
    """Adds a run of {layer: Cells}; one of the same method that stands there is replaced. A crash leaves the sidecar as it was."""
    path = os.path.realpath(path_of(trace))
    with _Alone(trace.absolute_path):
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
            os.close(handle)
            with dropping(temporary):
                _fill(temporary, path, trace, method, row_axis, layers, note)
        except (Defect, AttributeError, *BROKEN) as error:
            raise KvloupeError(f"cannot save the run in {path}", one_line(error), "free some space, or move the file away if it is damaged") from None
        finally:
            if temporary is not None and os.path.exists(temporary):
                os.unlink(temporary)


def _fill(temporary, path, trace, method, row_axis, layers, note):
    exists = os.path.exists(path)
    if exists:
        shutil.copyfile(path, temporary)
        _check(path, trace)
    write_image(temporary, image_of(lambda file: _write(file, trace, method, row_axis, layers, note), temporary if exists else None))
    shutil.copymode(trace.absolute_path, temporary)
    os.replace(temporary, path)


class _Alone:
    """The lock that the program holds while it appends: two that save at once must not drop each other's run."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        self._file = open(self._path, "rb")
        end = time.monotonic() + MOST_WAIT
        while not self._locked():
            if time.monotonic() > end:
                self._file.close()
                raise KvloupeError(f"cannot save a run beside {self._path}", "another program is writing the trace or its sidecar", "try again when it has ended")
            time.sleep(0.05)

    def _locked(self):
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # The file system has no locks.
        return True

    def __exit__(self, *_):
        self._file.close()


def _check(path, trace):
    try:
        with h5py.File(path, "r", locking=False) as file:
            header.check_format(file, path, SIDECAR_FORMAT, "a sidecar of runs")
            if text_attribute(file, "trace_hash") != hash_of_trace(trace):
                raise Defect("it holds the runs of another trace")
    except (Defect, AttributeError, *BROKEN) as defect:
        raise KvloupeError(f"cannot add a run to {path}", one_line(defect) if not isinstance(defect, Defect) else str(defect), "move it away and add the run again") from None


def _write(file, trace, method, row_axis, layers, note):
    runs = member(file, "runs")
    if runs is None and "runs" in file:
        raise Defect("its /runs is a link")
    if runs is None:
        file.attrs["format"], file.attrs["schema_version"], file.attrs["producer"] = SIDECAR_FORMAT, SCHEMA_VERSION, PRODUCER
        file.attrs["trace_hash"] = hash_of_trace(trace)
        file.attrs["NX_class"], file.attrs["default"] = "NXroot", "runs"
        runs = file.create_group("runs")
        runs.attrs["NX_class"], runs.attrs["default"] = "NXentry", "0"
    numbers = numbered_members(runs)
    taken = [int(name) for name in runs if name.isascii() and name.isdecimal()]  # by a link, too, or what is damaged
    number = next((n for n in numbers if _method_of(runs[str(n)]) == method), max(taken, default=-1) + 1)
    if number > MOST_RUNS:
        raise Defect(f"it has a run {number - 1}")
    if number in numbers:
        del runs[str(number)]
    run = runs.create_group(str(number))
    _describe_run(run, trace, method, row_axis, note)
    for number, cells in layers.items():
        _write_layer(run.create_group(f"layers/{number}"), cells)
    _write_plot(run, trace, layers)


def _method_of(run):
    try:
        return text_attribute(run, "method")
    except (Defect, AttributeError, *BROKEN):
        return None  # A damaged run is left where it is.


def _describe_run(run, trace, method, row_axis, note):
    model = trace.model
    run.attrs["method"], run.attrs["mode"] = method, "open_loop"
    run.attrs["row_axis"], run.attrs["granularity"], run.attrs["state_action"] = row_axis, "token", "visibility"
    run.attrs["budget_scope"] = "past"
    run.attrs["q_heads_per_row"] = np.int64(1 if row_axis == "q_head" else model["num_q_heads"] // model["num_kv_heads"])
    if note:
        run.attrs["note"] = note


def _write_layer(group, cells):
    arrays = cells.arrays()
    for name, values in arrays.items():
        axis, units, words = DATASETS[name]
        describe(_create(group, name, values), [axis], units, words)


def _create(group, name, values):
    """In pieces, as all arrays of a trace are: an empty one is stored so, too."""
    piece = tuple(max(1, min(length, 32768)) for length in values.shape)
    return group.create_dataset(name, data=values, chunks=piece, maxshape=(None,) * values.ndim)


def _write_plot(run, trace, layers):
    """Mean over the rows of what a cell keeps, for programs that plot HDF5 files."""
    kept = np.zeros((len(trace.chunks), len(layers)), "<f4")
    for column, (number, cells) in enumerate(layers.items()):
        counts = np.diff(cells.offsets).reshape(len(trace.chunks), -1).mean(axis=1)
        dense = np.array(cells.flags).reshape(len(trace.chunks), -1)[:, 0] == DENSE_FALLBACK
        first = [chunk.begin - trace.layer(number).first_visible(chunk.begin) for chunk in trace.chunks]
        kept[:, column] = np.where(dense, first, counts)
    describe(_create(run, "kept", kept), ["chunk", "layer"], "token", "keys kept, mean over the rows")
    _create(run, "layer", np.array(list(layers), "<i4"))
    describe_plot(run, "kept", [".", "layer"], "Keys kept by chunk and layer")
