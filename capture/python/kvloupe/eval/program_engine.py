"""The program's own decoder: one `kvloupe run` process that answers lines of JSON as long as it is needed."""
import contextlib
import json
import subprocess
import tempfile

from ..errors import KvloupeError
from ..installed import program
from .refused import ProgramKilled, RequestRefused

# What the program says of a request that it would refuse again.
OF_THE_REQUEST = (" tokens does not fit", "the request is not usable", "has no tokens of its own")


def of_model(model, chunk_size, device, compute, threads):
    """Options of the program that say which model is run, and how."""
    compute = {"auto": "fp32", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(compute, compute)
    return ["--model", model, "--chunk-size", str(chunk_size), "--device", device, "--compute", compute,
            *(["--threads", str(threads)] if threads else [])]


class ProgramEngine:
    name = "program"

    def __init__(self, model, method, *, chunk_size=128, device="cpu", compute="auto", threads=None):
        self.spec = method
        arguments = [program(), "run", *of_model(model, chunk_size, device, compute, threads), "--requests", "-", "--quiet"]
        if method != "dense":
            arguments += ["--closed-loop", method]
        self._said, self._asked = tempfile.TemporaryFile(), 0
        try:
            # It ends by itself when this process, which holds the other end of its input, is gone.
            self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        except (OSError, ValueError) as error:
            raise KvloupeError("kvloupe run cannot be started", str(error), "name the program's file in KVLOUPE_PROGRAM") from None

    def generate(self, context, until, max_new_tokens, special=False):
        return self._ask(prompt=context, raw=True, special=special, until=until, max_new_tokens=max_new_tokens)

    def loglikelihood(self, context, continuation, special=False):
        return self._ask(context=context, continuation=continuation, special=special)

    def count(self, text):
        """Tokens of a text as a prompt has them."""
        return self._ask(prompt=text, raw=True, tokenize=True)["prompt_tokens"] if text else 0

    def render(self, messages, prefix):
        """The model's chat template, and the beginning of the answer."""
        return self._ask(messages=messages, tokenize=True)["text"] + prefix

    def close(self):
        with contextlib.suppress(OSError):  # It has ended, and a request is still in the pipe.
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._said.close()

    def _ask(self, **request):
        self._asked += 1
        line = json.dumps({"id": self._asked, **{name: value for name, value in request.items() if value is not False}}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise self._why_it_ended() from None
        if "error" in answer:
            raise in_parts(answer["error"], RequestRefused if any(words in answer["error"] for words in OF_THE_REQUEST) else KvloupeError)
        return answer

    def _why_it_ended(self):
        """Its last sentence; warnings and what libraries print are none."""
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").splitlines()
        self.close()
        sentences = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if not sentences:
            if code < 0:
                return ProgramKilled("kvloupe run was killed", f"it ended by signal {-code}", "give it more memory, and go on with --resume")
            return KvloupeError("kvloupe run failed", f"it ended with {code} and gave no reason", "report this with what you did")
        what, why, what_to_do = in_parts(sentences[-1]).parts
        return KvloupeError(f"{what} (kvloupe run ended with {code})", why, what_to_do)


def in_parts(sentence, kind=KvloupeError):
    parts = sentence.split("; ", 2)
    return kind(*parts) if len(parts) == 3 else kind("kvloupe run failed", sentence, "report this with what you did")
