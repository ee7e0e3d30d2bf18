"""Traces of samples by `kvloupe capture`."""
import contextlib
import json
import os
import subprocess

from ..errors import KvloupeError
from ..installed import program
from ..interrupts import die_with_parent
from .program_engine import in_parts, of_model


class ProgramTraces:
    def __init__(self, options, model):
        self._arguments = of_model(model, options.chunk_size, options.device, options.compute, options.threads)
        self._device, self._special = options.device, options.apply_chat_template

    def bytes_of(self, text, methods):
        return json.loads(self._capture(text, methods, "--estimate", "--json"))["bytes"]

    def record(self, path, text, methods, spans, alone):
        """What stands under that name is left of a recording that was stopped. alone: without context."""
        begun = ["--begin-token"] if alone else []  # as the engine reads it
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.runs.h5")
        named = [word for name, words in spans.items() for word in ("--span", f"{name}={words}")]
        self._capture(text, methods, *begun, *named, "--force", "-o", path)

    def add_run(self, path, method):
        add_run(path, method, self._device)

    def close(self):
        pass

    def _capture(self, text, methods, *arguments):
        """--raw, as the engine asks: the text as it stands, or one that the chat template made, whose special tokens are tokens."""
        chosen = [word for method in methods for word in ("--method", method)]
        special = ["--special"] if self._special else []
        return _said_by("capture", *self._arguments, "--raw", *special, "--prompt-file", "-", *chosen, *arguments, given=text)


def add_run(path, method, device):
    _said_by("select", path, "--method", method, "--device", device, "--save")


def _said_by(*arguments, given=""):
    try:
        done = subprocess.run([program(), *arguments, "--quiet"], input=given.encode(), capture_output=True, check=False,
                              preexec_fn=die_with_parent)
    except (OSError, ValueError) as error:
        raise KvloupeError(f"kvloupe {arguments[0]} cannot be started", str(error), "name the program's file in KVLOUPE_PROGRAM") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").splitlines() or ["it gave no reason"]
        raise in_parts(lines[-1].removeprefix("error: "))
    return done.stdout
