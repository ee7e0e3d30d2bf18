"""Traces of samples by kvloupe.record, with runs that the program selects on them."""
import contextlib
import os

from .program_traces import add_run
from .transformers_engine import TransformersEngine


class TransformersTraces:
    def __init__(self, options, model):
        self._engine = TransformersEngine(model, "dense", chunk_size=options.chunk_size, device=options.device, compute=options.compute,
                                          threads=options.threads)
        self._device, self._special = options.device, options.apply_chat_template

    def bytes_of(self, text, methods):
        return self._engine.bytes_of_trace(text, self._special)

    def record(self, path, text, methods, spans, alone):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.runs.h5")
        self._engine.record(path, text, spans, self._special, alone)
        for method in methods:
            self.add_run(path, method)

    def add_run(self, path, method):
        add_run(path, method, self._device)

    def close(self):
        self._engine.close()
