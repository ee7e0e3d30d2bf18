"""kvloupe.open: a trace and the runs beside it, read as the program reads them."""
import os
import re

import h5py

from . import header
from .errors import KvloupeError
from .layer import Layer
from .layout import SIDECAR_FORMAT, TRACE_FORMAT
from .runs import Run, hash_of_trace
from . import ask, own_arrays, own_method, sidecar
from .stored import BROKEN, Defect, int_attribute, member, numbered_members, text_attribute


def open_trace(path):
    return Trace(path)


# A path of pathlib has one slash of two left. One letter is a drive.
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Attributes of /model that a trace may lack.
OPTIONAL = ("adapter", "v_head_dim", "kv_heads")


class Trace:
    """info: what the file says of itself, as `kvloupe info --json` has it; warnings: what could not be read.
    tokens: ids [T]; chunks; spans; layers: the numbers of those captured; runs: the trace's own, then those saved beside it."""

    def __init__(self, path):
        self.path = os.fsdecode(path)
        self.absolute_path = os.path.abspath(self.path)  # wherever this process goes
        self.warnings = []
        self._files = []
        try:
            self._load(self._open(self.path))
        except Defect as defect:
            self.close()
            raise KvloupeError(f"cannot read {self.path}", str(defect), "the file is damaged; record it again") from None
        except KvloupeError:
            self.close()
            raise
        except BROKEN as error:
            self.close()
            raise KvloupeError(f"cannot read {self.path}", f"its structure is damaged: {error}", "record it again") from None

    def _open(self, path):
        if not os.path.isfile(path):
            if ADDRESS.match(path):
                raise KvloupeError(f"cannot open {path}", "traces are read from the disk, and this is an address",
                                   "copy it here; of a large one copy a part, which kvloupe slice T.h5 --layers 0-3 -o S.h5 makes where it lies")
            raise KvloupeError(f"cannot open {path}", "there is no such file", "check the path")
        try:
            file = h5py.File(path, "r", locking=False)
        except OSError as error:
            raise KvloupeError(f"cannot read {path}", f"it is no HDF5 file or it is damaged: {error}", "record it again") from None
        self._files.append(file)
        return file

    def _load(self, file):
        self.schema_version = header.check_format(file, self.path, TRACE_FORMAT, "a KVLoupe trace")
        self.mode = header.tolerate(self.warnings, lambda: text_attribute(file, "mode")) or "open_loop"
        self.complete = bool(header.tolerate(self.warnings, lambda: int_attribute(file, "complete")))
        self.model = header.load_model(file, self.warnings)
        self.chunks = header.load_chunks(file)
        self.num_tokens = self.chunks[-1].end if self.chunks else 0
        self.query_offsets = header.load_query_offsets(file, self.chunks)
        self.tokens = header.load_ids(file, self.num_tokens)
        self._text = header.tolerate(self.warnings, lambda: header.load_text(file, self.num_tokens))
        self.spans = header.tolerate(self.warnings, lambda: header.load_spans(file), [])
        self._layers = {}
        for number in numbered_members(member(file, "/layers")):
            if number < self.model["num_layers"]:
                layer = header.tolerate(self.warnings, lambda: Layer(file, number, self.model, self.chunks, self.query_offsets))
                if layer is not None:
                    self._layers[number] = layer
        self.layers = sorted(self._layers)
        types = [array.dtype.name for number in self.layers for name in "qkv" if (array := self._layers[number].arrays.get(name)) is not None]
        if len(set(types)) > 1:
            self.warnings.append("q, k and v are not all of one type")
        said = header.tolerate(self.warnings, lambda: text_attribute(file, "dtype"))
        self.dtype = {"float32": "f32", "float16": "f16"}[types[0]] if types else said if said in ("f32", "f16") else "f16"
        self.runs = self._load_runs(file, 0)
        self._first_saved = max((run.id + 1 for run in self.runs), default=0)
        self._load_sidecar()

    def _load_runs(self, file, first_id):
        runs = []
        for number in numbered_members(member(file, "/runs")):
            try:
                runs.append(Run(member(file, f"/runs/{number}"), first_id + number, self, file))
            except Defect as defect:
                self.warnings.append(f"run {first_id + number} cannot be read: {defect}")
        return runs

    def _load_sidecar(self):
        self._sidecar, path = None, self.absolute_path + ".runs.h5"
        if not os.path.exists(path):
            return
        try:
            file = self._sidecar = self._open(path)
            header.check_format(file, path, SIDECAR_FORMAT, "a sidecar of runs")
            if text_attribute(file, "trace_hash") != hash_of_trace(self):
                raise Defect("it holds the runs of another trace")
            self.runs += self._load_runs(file, self._first_saved)
        except (Defect, KvloupeError, *BROKEN) as problem:
            self.warnings.append(f"{path} is left out: {problem}")

    def add_run(self, name, select=None, *, positions=None, rows=None, budget=None, layers=None, note="", scores=True, arrays="numpy"):
        """Saves what a method of your own keeps beside the trace, where the program reads it as the run custom:<name>. A run of
        that name is replaced. Returns the run.

        select     a function select(layer, chunk, q, k, v), called for each layer and chunk with float32 arrays: q [q_heads, m, d]
                   of the chunk, k and v [kv_heads, P, d] of all keys before it, by position. It returns for each row ascending
                   positions below P, or a boolean mask [rows, P], or with `budget` scores [rows, P], of which the best are kept
        positions  in place of a function: integers [chunks, layers, k] or [chunks, layers, rows, k] with -1 for nothing, a
                   boolean mask [chunks, layers, T] or [chunks, layers, rows, T], or CSR, {"offsets": .., "positions": ..} of the
                   cells in that order. Tokens may stand in the place of chunks: then a chunk keeps what any of its tokens named
        rows       whether a set is chosen for each "kv_head" or each "q_head"; by default for each KV head, or as long as the axis
                   of rows of an array is
        budget     how many keys of each row's scores are kept; where there are no more, all are, and nothing is asked
        layers     the layers to select in; all by default
        note       a text that is stored with the run
        scores     False: what a function returns as scores is not stored, only what is kept by them (4 bytes a score)
        arrays     "torch": a function gets tensors of torch on the CPU in place of arrays of numpy. It may return either

        The chunk's own keys are always visible and no part of a selection. Raises KvloupeError for what is no selection."""
        sidecar.check(self, own_method.check_name(name))
        if (select is None) == (positions is None):
            raise KvloupeError("a run needs a function or positions", "one of them, not both", "pass select or positions=")
        own_method.check_arrays(arrays)
        if select is not None:
            rows = rows or "kv_head"
            selected = own_method.select_layers(self, select, rows, budget, layers, arrays)
        else:
            if budget is not None:
                own_method.check_budget(budget)
                raise KvloupeError(f"budget={budget} cannot be taken", "positions say themselves what is kept",
                                   "leave it out, or pass a function that returns scores")
            rows, selected = own_arrays.layers_from_arrays(self, positions, rows, layers)
        if not scores:
            for cells in selected.values():
                cells.scores = None
        return self._add_cells(name, rows, selected, note)

    def _add_cells(self, name, rows, selected, note):
        """The run of {layer: Cells}."""
        method = own_method.check_name(name)
        sidecar.append(self, method, rows, selected, note)
        self._load_again()
        return next(run for run in self.runs if run.method == method and not self._is_own(run))

    def _is_own(self, run):
        """Whether the trace holds it itself; others are in its sidecar."""
        return run.id < self._first_saved

    def _load_again(self):
        """The sidecar was replaced by a new file, which the runs are read from. The old one is open as long as somebody holds a run of it."""
        self.runs = [run for run in self.runs if self._is_own(run)]
        if self._sidecar is not None:
            self._files.remove(self._sidecar)
        self._load_sidecar()

    def figure(self, view, *, method=None, goto=None, form="svg", **options):
        """What `kvloupe export` draws of this trace, for a notebook to show.

        view       its id; `kvloupe views` lists them
        method     a SPEC, a run of the trace, or a list: A, then B
        goto       a place, {"layer": 3, "kv_head": 1, "chunk": 12, "span": "needle"}
        form       "svg" or "png"
        options    those of the command by their names, as theme="dark", size="1200x675", and those of the view, as show="both"
        """
        return ask.figure(self, view, method=method, goto=goto, form=form, **options)

    def close(self):
        for file in self._files:
            file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def info(self):
        return {"path": self.path, "schema_version": self.schema_version, "complete": self.complete, "mode": self.mode,
                "model": {name: value for name, value in self.model.items() if value or name not in OPTIONAL},
                "tokens": self.num_tokens, "chunks_done": len(self.chunks), "layers": list(self.layers),
                "dtype": self.dtype, "runs": [{"id": run.id, "method": run.method, "mode": run.mode} for run in self.runs],
                "bytes": os.path.getsize(self.path)}

    def text(self, begin=0, end=None):
        """Of the tokens [begin, end); characters that they hold only a part of are replaced."""
        if self._text is None:
            raise KvloupeError(f"{self.path} has no text", "it was recorded without a tokenizer", "record with tokenizer=")
        raw, offsets = self._text
        begin, end, _ = slice(begin, end).indices(self.num_tokens)
        return raw[offsets[begin] : offsets[max(begin, end)]].decode("utf-8", "replace")

    def layer(self, number):
        if number not in self._layers:
            raise KvloupeError(f"layer {number} is not in {self.path}", f"it has the layers {self.layers}", "name one of them")
        return self._layers[number]

    def q(self, layer):
        """[q heads, T, head_dim], read where it is indexed. Refused where the queries of some chunks are not stored."""
        return self.layer(layer).array("q")

    def queries(self, layer, chunk):
        """Of one chunk, [q heads, length, head_dim]."""
        if not 0 <= chunk < len(self.chunks):
            raise KvloupeError(f"chunk {chunk} is not in {self.path}", f"it has {len(self.chunks)} chunks, numbered from 0", "name one of them")
        return self.layer(layer).queries(self.chunks[chunk].begin, self.chunks[chunk].end)

    def k(self, layer):
        """[kv heads, T, head_dim], read where it is indexed."""
        return self.layer(layer).array("k")

    def v(self, layer):
        """[kv heads, T, head_dim], read where it is indexed."""
        return self.layer(layer).array("v")

    def lse(self, layer):
        """Row log-sum-exp [q heads, T]."""
        return self.layer(layer).lse()

    def attention(self, layer, q_head, begin, end):
        """Exact probabilities [end - begin, end] of rows begin to end, computed from what is stored."""
        if not (0 <= q_head < self.model["num_q_heads"] and 0 <= begin <= end <= self.num_tokens):
            raise KvloupeError(f"there are no rows [{begin}, {end}) of query head {q_head}",
                               f"the trace has {self.num_tokens} tokens and {self.model['num_q_heads']} query heads", "name rows inside it")
        return self.layer(layer).attention(q_head, begin, end)
