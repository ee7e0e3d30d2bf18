#!/usr/bin/env python3
"""Damaged files against the program itself: damage_files.py N [KIND...] [--seed S] [--build build/release] [--keep out/damage]

N damaged inputs of each kind, all kinds unless some are named:
  structure, random   traces: object headers, attributes, trees, chunk indices and heaps; bytes anywhere
  sidecar, basis, gate, patterns, gguf, messages, spec   bytes, cuts, sizes at their limits, ranges doubled or gone, JSON
each given to the commands that read it. A child has 10 seconds of processor time, 900 seconds by the clock and 2 GiB of
memory. A finding is a signal, a time-out, more memory, an exit code other than 0, 1 and (for SPECs) 2, and a refusal that
prints a result or does not end with the one sentence "error: what; why; what to do". The files of findings are kept.
Prints counts and findings; fails when there is one. Needs the targets kvloupe, damage_trace and make_tiny_model.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading

import damages

SENTENCE = re.compile(r"error: .+; .+; .+")
BATCH = 200
PROCESSOR_SECONDS = 10
CLOCK_SECONDS = 900  # against a child that waits for ever; a busy machine is no finding
MEMORY_BYTES = 2 << 30
SELECT_EVERY = 10  # of the traces: it starts Torch


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))  # SIGXCPU
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program, arguments):
    """(exit code, or -signal; standard output; lines of standard error; resident bytes at most)"""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=limit,
                                 env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"})
        clock = threading.Timer(CLOCK_SECONDS, child.kill)
        clock.start()
        _, status, usage = os.wait4(child.pid, 0)
        clock.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return child.returncode, out.read(), err.read().decode(errors="replace").strip().splitlines(), usage.ru_maxrss * 1024


def outcome(program, arguments, codes):
    """Exit code and what is wrong with it, if anything."""
    code, out, said, memory = run(program, arguments)
    result = f"exit {code}" if code >= 0 else f"signal {-code}"
    if code not in codes:
        return result, f"{result}: {said[-1:]}"
    if memory > MEMORY_BYTES:
        return result, f"{memory >> 20} MiB of memory"
    if code != 0:
        sentences = [line for line in said if line.startswith("error: ")]
        if len(sentences) != 1 or said[-1] != sentences[0] or not SENTENCE.fullmatch(said[-1]):
            return result, f"not one sentence: {said[-3:]}"
        if out:
            return result, f"a result beside the sentence: {out[:80]}"
    return result, None


class Sound:
    """What damage is done to: small files that the program itself makes, in a folder."""

    def __init__(self, program, build, folder):
        self.folder = folder

        def make(*arguments):
            return subprocess.run([program, *arguments], check=True, capture_output=True).stdout

        model, trace, text = self.path("model.gguf"), self.path("t.h5"), "Hello world, hello world. " * 20
        subprocess.run([build / "tests/make_tiny_model", model], check=True)
        self.path("corpus.txt").write_text(text * 8)
        make("capture", "--model", model, "--raw", "--prompt", text, "--chunk-size", "128", "--method",
             "keydiff:budget_tokens=8", "-o", trace)
        make("select", trace, "--method", "oracle:budget_tokens=8", "--save")
        make("calibrate", "loki", "--model", model, "--corpus", self.path("corpus.txt"), "--sequences", "1", "--length", "64",
             "-o", self.path("basis.h5"))
        make("calibrate", "seer", trace, "-o", self.path("gate.safetensors"), "--block-size", "16", "--hidden", "8",
             "--steps", "10")
        make("calibrate", "minference", trace, "-o", self.path("patterns.json"))
        self.path("messages.json").write_text(
            '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello \\u00e9 world"}]')
        self.methods = json.loads(make("methods", "--json"))["methods"]

    def path(self, name):
        return self.folder / name

    def read(self, name):
        return self.path(name).read_bytes()

    def specs(self):
        for method in self.methods:
            given = [f"{p['name']}={self.path('none') if p['type'] == 'path' else p['default']}" for p in method["parameters"]]
            yield method["id"].encode()
            yield f"{method['id']}:{','.join(given)}".encode()

    def select(self, spec):
        return ["select", self.path("t.h5"), "--layer", "0", "--method", spec]


class File:
    """A kind whose file is damaged and given to one command or several by name."""

    def __init__(self, name, ways, *commands):
        self.name, self.ways, self.commands = name, ways, commands

    def make(self, sound, random, folder):
        """The file, what was done to it, and the commands that read it; without `random` it stays sound."""
        data, what = damages.damaged(sound.read(self.name), self.ways, random) if random else (sound.read(self.name), "nothing")
        path = folder / self.name
        path.write_bytes(data)
        return path, what, [command(sound, path) for command in self.commands]


class Sidecar(File):
    """Beside a copy of its trace."""

    def make(self, sound, random, folder):
        path, what, _ = super().make(sound, random, folder)
        trace = folder / "t.h5"
        trace.hardlink_to(sound.path("t.h5"))
        return path, what, [["info", trace], ["validate", trace]]


class Spec:
    """The text is an argument."""

    def make(self, sound, random, folder):
        specs = list(sound.specs())
        text, what = damages.damaged(random.choice(specs), damages.TEXT, random) if random else (specs[0], "nothing")
        text = text.replace(b"\0", b"")[:4096]
        path = folder / "spec"
        path.write_bytes(text)
        return path, what, [sound.select(text)]


KINDS = {
    "sidecar": Sidecar("t.h5.runs.h5", damages.BYTES),
    "basis": File("basis.h5", damages.BYTES, lambda sound, path: sound.select(f"loki:budget_tokens=8,basis={path}")),
    "gate": File("gate.safetensors", damages.BYTES + [damages.change_header] * 4,
                 lambda sound, path: sound.select(f"seer_attention:lowering=union,block_size=16,gate={path}")),
    "patterns": File("patterns.json", damages.JSON, lambda sound, path: sound.select(f"minference:lowering=union,config={path}")),
    "gguf": File("model.gguf", damages.BYTES,
                 lambda sound, path: ["capture", "--model", path, "--raw", "--prompt", "Hello", "-o", path.with_name("o.h5")]),
    "messages": File("messages.json", damages.JSON,
                     lambda sound, path: ["capture", "--model", sound.path("model.gguf"), "--messages", path, "-o",
                                          path.with_name("o.h5")]),
    "spec": Spec(),
}


def look_at(program, kind, sound, seed):
    """(what was done, command, result, trouble, bytes of the input where there is trouble) for each command."""
    with tempfile.TemporaryDirectory(dir=sound.folder) as folder:
        dice = random.Random(f"{kind} {seed}") if seed is not None else None
        path, what, commands = KINDS[kind].make(sound, dice, pathlib.Path(folder))
        for arguments in commands:
            result, trouble = outcome(program, arguments, (0, 1, 2) if kind == "spec" else (0, 1))
            if not trouble and not result.endswith(" 0") and (path.with_name("o.h5").exists()):
                trouble = "half a file under the final name"
            yield what, arguments[0], result, trouble, path.read_bytes() if trouble else b""


def look_at_trace(program, path, what, index):
    for command in ["info", "validate"] + (["select"] if index % SELECT_EVERY == 0 else []):
        arguments = [command, path] + (["--method", "keydiff:budget_tokens=8"] if command == "select" else [])
        result, trouble = outcome(program, arguments, (0, 1))
        yield what, command, result, trouble, path.read_bytes() if trouble else b""


def jobs_of(kind, program, build, count, seed, pool, sound):
    """Futures, batch by batch."""
    if kind in KINDS:
        for first in range(0, count, BATCH):
            yield [pool.submit(lambda s=s: list(look_at(program, kind, sound, s)))
                   for s in range(seed * 1_000_000 + first, seed * 1_000_000 + min(count, first + BATCH))]
        return
    for first in range(0, count, BATCH):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([build / "tests/damage_trace", kind, str(seed * 1_000_000 + first),
                                   str(min(BATCH, count - first)), folder],
                                  check=True, capture_output=True, text=True).stdout.splitlines()
            yield [pool.submit(lambda i=i, what=what: list(look_at_trace(program, pathlib.Path(folder) / f"{i}.h5", what, i)))
                   for i, what in enumerate(made)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, metavar="N")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("out/damage"))
    options = parser.parse_args()
    if unknown := set(options.kinds) - {"structure", "random", *KINDS}:
        parser.error(f"no such kind: {', '.join(unknown)}")
    program, findings = options.build.resolve() / "bin/kvloupe", 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sound = Sound(program, options.build.resolve(), pathlib.Path(folder))
        for kind in options.kinds or ["structure", "random", *KINDS]:
            counts, tried = collections.Counter(), 0
            for _, command, result, trouble, _ in look_at(program, kind, sound, None) if kind in KINDS else []:
                if result != "exit 0":
                    parser.exit(1, f"{command} of a sound {kind} ends with {result}: {trouble}\n")
            for jobs in jobs_of(kind, program, options.build, options.count, options.seed, pool, sound):
                for job in jobs:
                    for what, command, result, trouble, data in job.result():
                        counts[command, result] += 1
                        if trouble:
                            findings += 1
                            options.keep.mkdir(parents=True, exist_ok=True)
                            kept = options.keep / f"{kind}-{options.seed}-{tried}"
                            kept.write_bytes(data)
                            print(f"{kept}: {command}: {trouble} ({what})", flush=True)
                    tried += 1
                print(f"{kind}: {tried} of {options.count}", file=sys.stderr, flush=True)
            for (command, result), count in sorted(counts.items()):
                print(f"{kind:9} {command:8} {result:10} {count}", flush=True)
    print(f"{findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
