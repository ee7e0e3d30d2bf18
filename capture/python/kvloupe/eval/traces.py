"""Traces of samples. --trace failing: what a method fails and dense answers is recorded beside the results, one trace a sample with these methods as its runs."""
import contextlib
import os
import re
import shutil
import sys

from .. import open as open_trace
from ..errors import KvloupeError
from .failing import failing
from .sample_prompt import is_alone, prompt_of, spans_of, tokens_of
from .scoring import target_of


def record_failing(options, model, samples, methods, records, write):
    """Records of these samples get their traces' paths. `write` is called after each trace, so that none is recorded again."""
    by_sample = {}
    for record in records:
        by_sample.setdefault(record["sample"], {})[record["method"]] = record
    found = failing(samples, methods, by_sample)
    chosen = found[: min(options.trace, len(found))]
    wanted = [each for sample, worse in chosen if (each := _Wanted(sample, worse, by_sample[sample.digest], options.output)).missing]
    print(f"samples that dense answers better than a method: {len(found):,}; traces there already: {len(chosen) - len(wanted):,} of {len(chosen):,}",
          file=sys.stderr)
    if wanted:
        _record(options, model, wanted, write)


def record_one(options, model, sample, methods, of_method, write):
    """As above, of one sample with these methods as runs. Returns the path of its trace."""
    wanted = _Wanted(sample, methods, of_method, options.output)
    if wanted.missing or not wanted.is_there:
        _record(options, model, [wanted], write)
    return wanted.path


def _record(options, model, wanted, write):
    recorder = _recorder(options, model)
    try:
        _say_bytes(recorder, [each for each in wanted if not each.is_there], options.output)
        for at, each in enumerate(wanted, 1):
            each.record(recorder)
            write()
            print(f"trace {at:,} of {len(wanted):,}: {each.path}", file=sys.stderr)
    except KeyboardInterrupt:
        print("error: recording was stopped; you pressed Ctrl+C; the results are whole, and the traces that were finished stay", file=sys.stderr)
        raise
    finally:
        recorder.close()
    without = sum("answer" not in each.spans for each in wanted)
    if without:
        print(f"{without:,} of these traces have no span answer: what is expected does not stand in the prompt, or too often", file=sys.stderr)


class _Wanted:
    """A sample whose trace, or a run of it, is missing."""

    def __init__(self, sample, worse, of_method, output):
        self._sample, self._folder = sample, os.path.dirname(os.path.abspath(output))
        target = target_of(sample)
        self.text, self._is_alone = prompt_of(sample, target), is_alone(sample, target)
        self.spans = spans_of(sample, target, self.text)
        self._records = of_method
        known = next((record["trace"] for record in of_method.values() if record["trace"] and self._exists(record["trace"])), None)
        self.is_there = known is not None
        self._name = known or os.path.join(os.path.basename(output) + ".traces", _file_name(sample))
        self.path = os.path.join(os.path.dirname(output), self._name)
        self.missing = [method for method in worse if not self.is_there or of_method[method]["trace"] != known]

    def _exists(self, name):
        return os.path.exists(os.path.join(self._folder, name))

    def record(self, recorder):
        if self.is_there:
            for method in self.missing:
                recorder.add_run(self.path, method)
        else:
            with _whole_or_none(self.path):
                recorder.record(self.path, self.text, self.missing, self.spans, self._is_alone)
                self._check_tokens()
        for method in ("dense", *self.missing):
            self._records[method]["trace"] = self._name

    def _check_tokens(self):
        expected = tokens_of(self._sample, self._records["dense"]["prompt_tokens"])
        with open_trace(self.path) as trace:
            recorded = trace.num_tokens
        if expected not in (None, recorded):
            raise KvloupeError("the trace would not be what the model read", f"it has {recorded:,} tokens, and the sample {expected:,}",
                               "report this with the model and the task")


@contextlib.contextmanager
def _whole_or_none(path):
    """What is interrupted, or fails, leaves nothing: no chunks done, no runs, no folder that was made for them."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    try:
        yield
    except BaseException:
        for left in (path, f"{path}.part", f"{path}.runs.h5"):
            with contextlib.suppress(OSError):
                os.unlink(left)
        with contextlib.suppress(OSError):  # It holds other traces.
            os.rmdir(folder)
        raise


def _file_name(sample):
    return f"{re.sub('[^A-Za-z0-9._-]+', '_', sample.name)[:80]}-{sample.number}-{sample.digest[:8]}.h5"


def _recorder(options, model):
    if options.engine == "program":
        from .program_traces import ProgramTraces
        return ProgramTraces(options, model)
    from .transformers_traces import TransformersTraces
    return TransformersTraces(options, model)


def _say_bytes(recorder, wanted, output):
    """By the longest text; the others are taken by their letters."""
    if not wanted:
        return
    longest = max(wanted, key=lambda each: len(each.text))
    share = sum(len(each.text) for each in wanted) / len(longest.text)
    size, free = recorder.bytes_of(longest.text, longest.missing) * share, shutil.disk_usage(os.path.dirname(os.path.abspath(output))).free
    if size > free:
        raise KvloupeError(f"{_traces(wanted)} cannot be recorded", f"that takes about {_megabytes(size)}, and {_megabytes(free)} are free",
                           "free some space" + (", or give --trace failing:N with --resume" if len(wanted) > 1 else ""))
    print(f"recording {_traces(wanted)} takes about {_megabytes(size)}, and {_megabytes(free)} are free", file=sys.stderr)


def _traces(wanted):
    return f"{len(wanted):,} trace{'s' if len(wanted) > 1 else ''}"


def _megabytes(size):
    return f"{max(1, round(size / 2**20)):,} MiB"
