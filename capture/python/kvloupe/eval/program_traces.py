"""Traces of samples by `kvloupe capture`."""
import contextlib
import json
import os
import subprocess

from ..errors import KvloupeError
from ..installed import program
from ..interrupts import die_with_parent
from .begin_token import begin_token
from .program_engine import in_parts, of_model


class ProgramTraces:
    def __init__(self, options, model):
        self._arguments = of_model(model, options.chunk_size, options.device, options.compute, options.threads)
        self._model, self._device, self._special = model, options.device, options.apply_chat_template

    def bytes_of(self, text, methods):
        return self._estimate(text, self._special, methods)["bytes"]

    def record(self, path, text, methods, spans, alone):
        """What stands under that name is left of a recording that was stopped. alone: without context."""
        text, special = self._begun(text) if alone else (text, self._special)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.runs.h5")
        named = [word for name, words in spans.items() for word in ("--span", f"{name}={words}")]
        self._capture(text, special, methods, *named, "--force", "-o", path)

    def add_run(self, path, method):
        add_run(path, method, self._device)

    def close(self):
        pass

    def _begun(self, text):
        """(text, whether special tokens in it are tokens). `capture` puts the begin token there only if the tokenizer does it by itself."""
        begin = begin_token(self._model)
        if begin is None:
            raise _not_as_read("and the model's files do not say what it is called")
        plain, begun = (self._estimate(each, special)["tokens"] for each, special in ((text, False), (begin + text, True)))
        if begun not in (plain, plain + 1):
            raise _not_as_read("and with it the text's own words such as <s>, which were text, would be tokens")
        return (text, False) if begun == plain else (begin + text, True)

    def _estimate(self, text, special, methods=()):
        return json.loads(self._capture(text, special, methods, "--estimate", "--json", "-o", "estimate.h5"))

    def _capture(self, text, special, methods, *arguments):
        """--raw, as the engine asks: the text as it stands, or one that the chat template made, whose special tokens are tokens."""
        chosen = [word for method in methods for word in ("--method", method)]
        words = ["--special"] if special else []
        return _said_by("capture", *self._arguments, "--raw", *words, "--prompt-file", "-", *chosen, *arguments, given=text)


def _not_as_read(why):
    return KvloupeError("the trace would not be what the model read", f"before a text without context it read its begin token, {why}",
                        "record another sample")


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
