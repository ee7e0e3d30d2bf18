"""What one rank of a distributed model saw: a file like a trace that holds some heads or some layers alone."""
import os

import h5py
import numpy as np

from . import header
from .errors import KvloupeError, one_line
from .layout import PART_FORMAT
from .softmax_form import SoftmaxForm
from .stored import BROKEN, Defect, attribute, float_attribute, int_attribute, member, numbered_members, open_dataset, read, read_range, \
    text_attribute
from .writer import Heads


class Part:
    """What one rank saw: some heads or some layers of each chunk."""

    def __init__(self, path):
        self.path = os.fspath(path)
        try:
            self.file = h5py.File(self.path, "r", locking=False)
        except OSError as error:
            raise KvloupeError(f"cannot read {self.path}", str(error), "check the path") from None
        try:
            self._load()
        except BaseException as error:
            self.file.close()
            if isinstance(error, (Defect, AttributeError, *BROKEN)):
                why = str(error) if isinstance(error, Defect) else f"its structure is damaged: {one_line(error)}"
                raise KvloupeError(f"cannot read {self.path}", why, "record again") from None
            raise

    def _load(self):
        file = self.file
        header.check_format(file, self.path, PART_FORMAT, "a part of a trace, as kvloupe.record writes it on each rank")
        self.rank, self.count = int_attribute(file, "part_rank"), int_attribute(file, "part_count")
        self.complete = bool(int_attribute(file, "complete"))
        self.dtype = {"f16": "float16", "f32": "float32"}.get(text_attribute(file, "dtype"))
        warnings = []
        self.model = header.load_model(file, warnings)
        if warnings or None in (self.rank, self.count, self.dtype):
            raise Defect((warnings + ["what says which part it is is missing"])[0])
        self.heads = Heads(*(int_attribute(file, name) or 0 for name in ("q_begin", "q_end", "kv_begin", "kv_end")))
        self.chunks = header.load_chunks(file)
        self.num_tokens = self.chunks[-1].end if self.chunks else 0
        self.ids = header.load_ids(file, self.num_tokens)
        self.text = header.load_text(file, self.num_tokens)
        self.nll = header.load_nll(file, self.num_tokens)
        self.spans = header.load_spans(file)
        generated = member(file, "/tokens/generated")
        self.generated = read(generated).tolist() if generated is not None else []
        self.layers = numbered_members(member(file, "/layers"))
        offsets = member(file, "/chunks/mass_offsets")
        self.mass_offsets = read_range(offsets, 0, len(self.chunks) + 1) if offsets is not None else None

    def has(self, layer, name):
        return member(self.file, f"/layers/{layer}/{name}") is not None

    def rows(self, layer, name, begin, end):
        dataset = open_dataset(self.file, f"/layers/{layer}/{name}", "float", 2 if name == "lse" else 3)
        heads = self.heads.num_kv if name in "kv" else self.heads.num_q
        if dataset.shape[0] != heads or dataset.shape[1] < end:
            raise Defect(f"{dataset.name} has shape {dataset.shape} where {heads} heads and {end} tokens are needed")
        return read(dataset, (slice(None), slice(begin, end)))

    def mass(self, layer, chunk):
        dataset = open_dataset(self.file, f"/layers/{layer}/key_mass", "float", 1)
        begin, end = int(self.mass_offsets[chunk]), int(self.mass_offsets[chunk + 1])
        if end > dataset.shape[0]:
            raise Defect(f"{dataset.name} has {dataset.shape[0]} entries where {end} are needed")
        return read(dataset, slice(begin, end)).astype(np.float32).reshape(self.heads.num_kv, -1)

    def form(self, layer):
        group = member(self.file, f"/layers/{layer}")
        return SoftmaxForm(self.model["softmax_scale"], int_attribute(group, "window") or 0, float_attribute(group, "softcap") or 0.0,
                           attribute(group, "sink_logit"))
