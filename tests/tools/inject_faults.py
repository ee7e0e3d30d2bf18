#!/usr/bin/env python3
"""inject_faults.py KVLOUPE MAKE_TINY_MODEL FAULT_SHIM [--kinds write,...] [--commands capture,...] [--stride N] [--folder DIR]

Runs each command that writes, and lets its n-th write, sync or rename fail, for n = 1, 1+N, ... until none is left to
fail (tests/tools/fault_shim.c). After each run: no signal; exit code 1 with one sentence, or 0 with the output sound; what
was there before is as it was, inputs and an output that was to be replaced included; nothing under a final name after a
failure; no file left over but a capture's .part, and that one sound, or what the sentence names.
"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

KINDS = ["write", "sync", "rename"]
SIGNATURE = b"\x89HDF\r\n\x1a\n"
PROMPT = "It was a bright cold day, and the clocks were striking; nobody said why."


class Failure(Exception):
    pass


class Command:
    """What is run, the output it is to make, and the inputs that it needs in its folder."""

    def __init__(self, name, words, output, inputs, sound=None):
        self.name, self.words, self.output, self.inputs, self.sound = name, words, output, inputs, sound


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def state_of(folder):
    return {name: digest(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if os.path.isfile(os.path.join(folder, name))}


class Trial:
    def __init__(self, arguments, folder):
        self.kvloupe, self.shim = arguments.kvloupe, arguments.fault_shim
        self.folder, self.stock = os.path.join(folder, "work"), os.path.join(folder, "stock")
        self.fired = os.path.join(folder, "fired")
        self.settings = os.path.join(folder, "settings")
        os.mkdir(self.stock)
        subprocess.run([os.path.abspath(arguments.make_tiny_model), os.path.join(self.stock, "tiny.gguf")], check=True)
        with open(os.path.join(self.stock, "corpus.txt"), "w") as file:
            file.write((PROMPT + "\n") * 40)
        self.capture = ["capture", "--model", "tiny.gguf", "--raw", "--prompt", PROMPT, "--chunk-size", "16",
                        "--max-new-tokens", "3", "--method", "h2o:budget_tokens=24",
                        "--method", "xattention:lowering=union,block_size=16,stride=4"]
        self.prepare()

    def run(self, folder, words, fault=None):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", KVLOUPE_FAULT_FOLDER=folder,
                           KVLOUPE_FAULT_FIRED=self.fired)
        if fault:
            environment.update(LD_PRELOAD=self.shim, KVLOUPE_FAULT=fault)
        return subprocess.run([self.kvloupe, *words, "--threads", "1", "--config-dir", self.settings], cwd=folder,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=300)

    def require(self, folder, *words):
        result = self.run(folder, words)
        if result.returncode != 0:
            raise Failure(f"{' '.join(words)}: exit {result.returncode}: {result.stderr.strip()}")

    def prepare(self):
        """The inputs of all commands: a trace, and what a kill leaves of a capture."""
        self.require(self.stock, *self.capture, "-o", "t.h5")
        left = os.path.join(self.stock, "left.h5.part")
        for write in range(100, 3000, 100):  # past the first chunk
            self.kill_capture(write)
            if os.path.exists(left):
                info = self.run(self.stock, ["info", left, "--json"])
                if info.returncode == 0 and json.loads(info.stdout)["chunks_done"] > 0:
                    return
                os.remove(left)
        raise Failure("no .part to resume could be made")

    def kill_capture(self, write):
        killed = dict(KVLOUPE_FAULT=f"kill:{write}", LD_PRELOAD=self.shim, KVLOUPE_FAULT_FOLDER=self.stock)
        subprocess.run([self.kvloupe, *self.capture, "--threads", "1", "-o", "left.h5"], cwd=self.stock,
                       env=dict(os.environ, **killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def commands(self):
        trace, model = ["t.h5"], ["tiny.gguf", "corpus.txt"]
        return [
            Command("capture", [*self.capture, "-o", "out.h5"], "out.h5", model, "validate"),
            Command("recapture", [*self.capture, "-o", "out.h5", "--force"], "out.h5", model + ["out.h5"], "validate"),
            Command("resume", ["capture", "--resume", "left.h5.part", "--model", "tiny.gguf"], "left.h5",
                    model + ["left.h5.part"], "validate"),
            Command("save", ["select", "t.h5", "--method", "tova:budget_tokens=24", "--save"], "t.h5.runs.h5", trace),
            Command("csv", ["compare", "t.h5", "--method", "quoka:budget_tokens=24", "--csv", "out.csv"], "out.csv", trace),
            Command("png", ["export", "t.h5", "--view", "kv_map", "--png", "out.png"], "out.png", trace),
            Command("npy", ["export", "t.h5", "--view", "attention_map", "--npy", "out.npy"], "out.npy", trace),
            Command("repair", ["validate", "t.h5", "--repair", "out.h5"], "out.h5", trace, "validate"),
            Command("bases", ["calibrate", "aqua", "--model", "tiny.gguf", "--corpus", "corpus.txt", "--sequences", "2",
                              "--length", "48", "-o", "out.h5"], "out.h5", model),
            Command("patterns", ["calibrate", "minference", "t.h5", "-o", "out.json"], "out.json", trace),
            Command("gate", ["calibrate", "seer", "t.h5", "--block-size", "8", "--hidden", "8", "--steps", "2", "-o",
                             "out.safetensors"], "out.safetensors", trace),
            Command("synthesize", ["synthesize", "-o", "out.h5", "--length", "4096", "--few", "1", "--many", "1",
                                   "--method", "streaming_llm"], "out.h5", [], "validate"),
        ]

    def lay_out(self, command):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        for name in command.inputs:
            source = os.path.join(self.stock, name if name != "out.h5" else "t.h5")
            shutil.copy(source, os.path.join(self.folder, name))

    def check(self, command, before, result, fault):
        where = f"{command.name}, {fault}"
        said = result.stderr.strip().splitlines()
        if result.returncode not in (0, 1):
            raise Failure(f"{where}: exit {result.returncode}: {said[-3:]}")
        after = state_of(self.folder)
        if result.returncode == 1 and not (said and said[-1].startswith("error: ")):
            raise Failure(f"{where}: no sentence: {said[-3:]}")
        part = command.output + ".part"
        for name, content in before.items():
            may_change = name == part or (result.returncode == 0 and name == command.output)
            if not may_change and after.get(name) != content:
                raise Failure(f"{where}: {name} was changed ({said[-1:]})")
        left = set(after) - set(before)
        allowed = {command.output} if result.returncode == 0 else {part}
        allowed |= {name for name in left if said and name in said[-1]}  # such as a copy that is whole but for its name
        if left - allowed:
            raise Failure(f"{where}: left {sorted(left - allowed)} (exit {result.returncode}, {said[-1:]})")
        if result.returncode == 0 and command.output not in after:
            raise Failure(f"{where}: success without {command.output}")
        if result.returncode == 0 and command.sound:
            self.require(self.folder, command.sound, command.output)
        if part in after:
            self.check_part(part)

    def check_part(self, part):
        with open(os.path.join(self.folder, part), "rb") as file:
            begun = file.read(8) == SIGNATURE
        if begun:
            self.require(self.folder, "validate", part)

    def inject(self, command, kind, stride):
        """Lets the call fail at each n; returns how many runs ended with a sentence, and how many all the same well."""
        refused = survived = 0
        number = 1
        while True:
            self.lay_out(command)
            before = state_of(self.folder)
            if os.path.exists(self.fired):
                os.remove(self.fired)
            fault = f"{kind}:{number}"
            result = self.run(self.folder, command.words, fault)
            if not os.path.exists(self.fired):
                if result.returncode != 0:
                    raise Failure(f"{command.name} itself fails: {result.stderr.strip()}")
                return refused, survived, number - 1
            self.check(command, before, result, fault)
            refused += result.returncode == 1
            survived += result.returncode == 0
            number += stride


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvloupe", type=os.path.abspath)
    parser.add_argument("make_tiny_model", type=os.path.abspath)
    parser.add_argument("fault_shim", type=os.path.abspath)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--commands", help="a list, default all")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--folder", default=".")
    arguments = parser.parse_args()
    folder = os.path.realpath(tempfile.mkdtemp(prefix="faults-", dir=arguments.folder))
    fired = 0
    try:
        trial = Trial(arguments, folder)
        for command in trial.commands():
            if arguments.commands and command.name not in arguments.commands.split(","):
                continue
            for kind in arguments.kinds.split(","):
                refused, survived, last = trial.inject(command, kind, arguments.stride)
                fired += refused + survived
                print(f"{command.name:11} {kind:7} up to call {last}: {refused} ended with a sentence, "
                      f"{survived} went well all the same", flush=True)
    except Failure as failure:
        print(f"FAILED: {failure}; the files are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    if fired == 0:
        print("FAILED: no fault was injected", file=sys.stderr)
        return 1
    print(f"{fired} faults, none lost or damaged anything")
    return 0


if __name__ == "__main__":
    sys.exit(main())
