#!/usr/bin/env python3
"""fail_memory.py KVLOUPE FAILING_MEMORY MAKE_TINY_MODEL MAKE_WINDOW_TRACE [--from 262144] [--most 40] [--only NAME]...
    [--folder DIR]

Lets one large request for memory of a command fail, then the next one, until none does (failing_memory.cpp); where a
command makes more than --most requests, evenly spaced ones. Each time: it gives all that it gives otherwise, or says what
it left out, or exit 1 with one sentence that does not call it a bug and nothing on standard output; what it reads is
untouched, no part of an output stands under a final name, and what a capture leaves can be read.
"""
import argparse
import glob
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = 120


class Failure(Exception):
    pass


class Trial:
    def __init__(self, arguments, folder):
        self.kvloupe, self.library = arguments.kvloupe, arguments.failing_memory
        self.large, self.most = arguments.large, arguments.most
        self.folder = folder
        self.report = self.path("report")
        self.model = self.path("tiny.gguf")
        subprocess.run([arguments.make_tiny_model, self.model], check=True)
        prompt = "".join(random.Random(1).choice("abcdefgh ,.\n") for _ in range(480))
        self.request = ["--model", self.model, "--raw", "--prompt", prompt, "--chunk-size", "32"]
        self.trace = self.path("trace.h5")
        self.kept = [self.model, self.trace]
        # 1,024 tokens, 2 layers: q of a layer has 2.3 MB in fp32.
        subprocess.run([arguments.make_window_trace, self.trace, "1024", "2", "64"], check=True)
        self.hashes = self.hashes_now()

    def path(self, name):
        return os.path.join(self.folder, name)

    def hashes_now(self):
        return [hashlib.sha256(open(path, "rb").read()).hexdigest() for path in self.kept]

    def run(self, words, at=None):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        if at is not None:
            if os.path.exists(self.report):
                os.remove(self.report)
            environment |= {"LD_PRELOAD": self.library, "KVLOUPE_FAIL_FROM": str(self.large),
                            "KVLOUPE_FAIL_AT": at, "KVLOUPE_FAIL_REPORT": self.report}
        return subprocess.run([self.kvloupe, *words, "--threads", "1"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=SECONDS, env=environment)

    def reported(self, word):
        try:
            lines = [line.split() for line in open(self.report)]
        except FileNotFoundError:
            return None
        return next((int(line[1]) for line in lines if line[0] == word), None)

    def clear(self, outputs):
        for name in outputs:
            for path in glob.glob(glob.escape(self.path(name)) + "*"):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def given(self, result, outputs):
        """What a command gave: its standard output and its outputs, but those in HDF5, which say when they were made, and
        how long it took. The matrix library adds up in another order when it lacks room: the last digits are left out."""
        files = [self.path(name) for name in outputs if not name.endswith(".h5")]
        texts = [result.stdout] + [open(path).read() for path in files if os.path.exists(path)]
        number_form = r"\d+(?:\.\d+)?(?:e-\d+)?"
        return [re.sub(number_form, lambda number: f"{float(number[0]):.4f}", text.split(", recorded in ")[0])
                for text in texts]

    def check(self, result, outputs, whole):
        """What the failure may not do."""
        if result.returncode not in (0, 1):
            raise Failure(f"exit {result.returncode}: {result.stderr.strip()[-400:]}")
        if self.hashes_now() != self.hashes:
            raise Failure("an input was changed")
        if result.returncode == 0:
            for name in outputs:
                self.require_sound(self.path(name))
            if self.given(result, outputs) != whole and "warning: " not in result.stderr:
                raise Failure("less came out, and nobody said so")
            return
        last = (result.stderr.strip().splitlines() or [""])[-1]
        if not last.startswith("error: ") or last.count(";") < 2 or "report this" in last:
            raise Failure(f"no sentence, but: {last}")
        if result.stdout:
            raise Failure(f"on standard output: {result.stdout[:100]}")
        if self.given(result, outputs)[1:] not in ([], whole[1:]):
            raise Failure("part of an output stands under its name")
        for name in outputs:
            if os.path.exists(self.path(name)):
                self.require_sound(self.path(name))
            for part in glob.glob(glob.escape(self.path(name)) + "*.part"):
                if self.run(["info", part]).returncode != 0 and os.path.getsize(part) > 0:
                    raise Failure(f"{part} cannot be read")

    def require_sound(self, path):
        """Whole, whatever became of the command: a sidecar or a trace that was done before it failed."""
        if not os.path.exists(path):
            raise Failure(f"{path} was not written")
        if path.endswith(".runs.h5"):
            path = path[:-len(".runs.h5")]
        if path.endswith(".h5"):
            result = self.run(["validate", path])
            if result.returncode != 0:
                raise Failure(f"{path} is not sound: {result.stdout}{result.stderr}")
        elif os.path.getsize(path) == 0:
            raise Failure(f"{path} is empty")

    def command(self, name, words, outputs=()):
        self.clear(outputs)
        whole = self.run(words, at="0")
        count = self.reported("requests")
        if whole.returncode != 0 or count is None:
            raise Failure(f"{name} fails by itself: {whole.stderr.strip()[-400:]}")
        given = self.given(whole, outputs)
        step = max(1, -(-count // self.most))
        failed = told = 0
        for at in range(1, count + 1, step):
            self.clear(outputs)
            try:
                result = self.run(words, at=f"{at}")
                if self.reported("failed") is None:
                    continue  # fewer this time: threads share out work anew
                failed += 1
                told += result.returncode == 1
                self.check(result, outputs, given)
            except (Failure, subprocess.TimeoutExpired) as problem:
                raise Failure(f"{name}, request {at} of {count}: {problem}") from problem
        if failed == 0:
            raise Failure(f"{name} makes no request of {self.large} bytes or more")
        print(f"{name}: {count} requests, every {step}th: {failed} failures, {told} told, "
              f"{failed - told} made good", flush=True)


def commands(trial):
    trace, path = trial.trace, trial.path
    methods = ["--method", "quoka:budget_tokens=64", "--method", "xattention:lowering=union,block_size=32"]
    return {
        "info": (["info", trace], ()),
        "validate": (["validate", trace], ()),
        "select": (["select", trace, "--method", "h2o:budget_tokens=64", "--json"], ()),
        "select --save": (["select", trace, "--method", "quoka:budget_tokens=64", "--save"],
                          ("trace.h5.runs.h5",)),
        "compare": (["compare", trace, *methods, "--csv", path("out.csv")], ("out.csv",)),
        "export csv": (["export", trace, "--view", "kv_map", *methods[:2], "--csv", path("map.csv")], ("map.csv",)),
        "calibrate": (["calibrate", "minference", trace, "-o", path("patterns.json")], ("patterns.json",)),
        "capture": (["capture", *trial.request, *methods, "-o", path("again.h5")], ("again.h5",)),
        "synthesize": (["synthesize", "--length", "4096", "--many", "4", "--few", "2", "--method", "quoka",
                        "-o", path("synthetic.h5")],
                       ("synthetic.h5",)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvloupe")
    parser.add_argument("failing_memory")
    parser.add_argument("make_tiny_model")
    parser.add_argument("make_window_trace")
    parser.add_argument("--from", dest="large", type=int, default=262144)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--only", action="append")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    problems = 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        trial = Trial(arguments, folder)
        for name, (words, outputs) in commands(trial).items():
            if arguments.only and name not in arguments.only:
                continue
            try:
                trial.command(name, words, outputs)
            except Failure as problem:
                problems += 1
                print(f"FAILED {problem}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
