#!/usr/bin/env python3
"""kill_captures.py KVLOUPE MAKE_TINY_MODEL [--captures 200] [--selects 100] [--resumes 20] [--folder DIR] [--seed 1]

Kills captures and `select --save` by SIGKILL at random moments, some captures by gentler signals, and looks at what is
left: a killed capture must be sound up to its last complete chunk, a killed save must leave the trace and its runs
sound, and a capture that goes on by --resume must end as the uninterrupted one (h5diff finds no difference in tokens,
chunks but for their times, layers and runs). Works in a folder of its own below DIR, on whose file system this is tried.
"""
import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

METHODS = ["h2o:budget_tokens=40", "quoka:budget_tokens=32", "snapkv:budget_tokens=48",
           "xattention:lowering=union,block_size=16,stride=4", "infinipot:budget_tokens=40"]
SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Failure(Exception):
    pass


def fail(message):
    raise Failure(message)


class Trial:
    def __init__(self, arguments, folder):
        self.kvloupe = arguments.kvloupe
        self.folder = folder
        self.model = os.path.join(folder, "tiny.gguf")
        subprocess.run([arguments.make_tiny_model, self.model], check=True)
        self.random = random.Random(arguments.seed)
        prompt = "".join(self.random.choice("abcdefgh ,.\n") for _ in range(440))
        self.whole = os.path.join(folder, "whole.h5")
        self.request = ["--model", self.model, "--raw", "--prompt", prompt, "--chunk-size", "8",
                        "--max-new-tokens", "12"]
        for method in METHODS:
            self.request += ["--method", method]

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        return subprocess.run([self.kvloupe, *words, "--threads", "1"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")

    def start(self, *words):
        with open(self.path("said"), "w") as said:
            return subprocess.Popen([self.kvloupe, *words, "--threads", "1"], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=said)

    def last_said(self):
        with open(self.path("said"), errors="replace") as said:
            return said.read().strip()[-2000:]

    def require(self, *words):
        result = self.run(*words)
        if result.returncode != 0:
            fail(f"{' '.join(words)[:200]}: exit {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def capture_whole(self):
        """Captures without interruption; returns for how long the file grows."""
        capture = self.start("capture", *self.request, "-o", self.whole)
        begin = self.wait_for(self.whole + ".part", capture)
        if capture.wait() != 0:
            fail("the capture itself does not work")
        return time.monotonic() - begin

    @staticmethod
    def wait_for(path, process):
        while not os.path.exists(path) and process.poll() is None:
            time.sleep(0.002)
        return time.monotonic()

    def cut_capture(self, name, seconds, number):
        """Ends a capture at a random moment; returns the file that it left and the chunks in it."""
        output = self.path(name)
        capture = self.start("capture", *self.request, "-o", output)
        self.wait_for(output + ".part", capture)
        time.sleep(self.random.uniform(0, seconds))
        capture.send_signal(number)
        code = capture.wait()
        left = output if os.path.exists(output) else output + ".part"
        if number != signal.SIGKILL and code not in (0, 130):
            fail(f"{signal.Signals(number).name} ends a capture with {code}: {self.last_said()}")
        if not os.path.exists(left):
            return None, 0
        with open(left, "rb") as file:
            if file.read(8) != SIGNATURE:
                return left, 0  # not even its structure was written
        self.require("validate", left)
        return left, json.loads(self.require("info", left, "--json"))["chunks_done"]

    def compare(self, other):
        for group in ("/tokens", "/chunks", "/layers", "/runs"):
            # Each capture has times of its own; the path is told from the group.
            result = subprocess.run(["h5diff", "-q", "--exclude-path", "/seconds", self.whole, other, group, group],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            if result.returncode != 0:
                fail(f"{group} of {other} is not that of an uninterrupted capture: {result.stdout}")

    def resume(self, part):
        output = part[:-len(".part")]
        self.require("capture", "--resume", part, "--model", self.model)
        self.require("validate", output)
        self.compare(output)

    def cut_select(self, seconds):
        runs = self.runs()
        save = self.start("select", self.whole, "--method", "tova:budget_tokens=24", "--save")
        time.sleep(self.random.uniform(0, seconds))
        save.kill()
        save.wait()
        self.require("validate", self.whole)
        if self.runs() not in (runs, runs + 1):
            fail(f"{runs} runs became {self.runs()}")
        # Stray temporary files are all that a kill may leave.
        for name in os.listdir(self.folder):
            if name.endswith(".tmp"):
                os.remove(self.path(name))
        if self.runs() > 12:
            os.remove(self.whole + ".runs.h5")

    def runs(self):
        return len(json.loads(self.require("info", self.whole, "--json"))["runs"])

    def remove(self, name):
        for suffix in ("", ".part", ".part.resumed"):
            if os.path.exists(self.path(name) + suffix):
                os.remove(self.path(name) + suffix)


def kill_captures(trial, count, resumes, seconds):
    """Kills until `count` captures were cut while the file grew; one that was done before its kill is no trial."""
    cut = tried = resumed = begun = 0
    while cut < count:
        if tried == 5 * count + 20:
            fail(f"of {tried} captures only {cut} were cut while they wrote")
        begin = time.monotonic()
        left, chunks = trial.cut_capture("cut.h5", seconds, signal.SIGKILL)
        tried += 1
        if left == trial.path("cut.h5"):
            seconds = min(seconds, time.monotonic() - begin)  # the first one was slowed down by others
        else:
            cut += 1
            begun += chunks > 0
            if left and chunks > 0 and resumed < resumes:
                trial.resume(left)
                resumed += 1
        trial.remove("cut.h5")
    print(f"{cut} of {tried} captures killed while they wrote: all readable, {begun} with chunks done; "
          f"{resumed} resumed to the same bytes")
    if resumed < min(resumes, count // 2):
        fail("too few could be resumed")


def end_gently(trial, count, seconds):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for _ in range(count):
            left, _ = trial.cut_capture("gentle.h5", seconds, number)
            if left and left.endswith(".part"):
                fail(f"{signal.Signals(number).name} leaves a .part")
            trial.remove("gentle.h5")
    print(f"{3 * count} captures ended by SIGINT, SIGTERM and SIGHUP: exit 130, a sound file")


def meet_size_limit(trial):
    whole = os.path.getsize(trial.whole)
    for limit in (4096, whole // 2, whole - 4096):
        result = subprocess.run(
            [trial.kvloupe, "capture", *trial.request, "--threads", "1", "-o", trial.path("limit.h5")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        said = result.stderr.strip().splitlines()[-1:]
        if result.returncode != 130 or not said or "File too large" not in said[0]:
            fail(f"a file size limit of {limit} ends with {result.returncode}: {said}")
        if os.path.exists(trial.path("limit.h5")):
            fail("a file that could not be finished has its final name")
        if os.path.exists(trial.path("limit.h5.part")):
            trial.require("validate", trial.path("limit.h5.part"))
        trial.remove("limit.h5")
    print("3 file size limits: exit 130 with the sentence")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvloupe")
    parser.add_argument("make_tiny_model")
    parser.add_argument("--captures", type=int, default=200)
    parser.add_argument("--selects", type=int, default=100)
    parser.add_argument("--resumes", type=int, default=20)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="kills-", dir=arguments.folder)
    try:
        trial = Trial(arguments, folder)
        seconds = trial.capture_whole()
        trial.require("validate", trial.whole)
        kill_captures(trial, arguments.captures, arguments.resumes, seconds)
        meet_size_limit(trial)
        end_gently(trial, max(1, arguments.captures // 50), seconds)
        begin = time.monotonic()
        trial.require("select", trial.whole, "--method", "tova:budget_tokens=24", "--save")
        seconds = time.monotonic() - begin
        for _ in range(arguments.selects):
            trial.cut_select(seconds)
        print(f"{arguments.selects} killed saves left the trace and its runs sound")
    except Failure as failure:
        print(f"FAILED: {failure}; the files are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
