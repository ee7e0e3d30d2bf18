#!/usr/bin/env python3
"""redraw.py PROGRAM TRACE FOLDER    draws pictures of the guide anew: those of one view of the demo

It runs the export commands of docs/guide.md whose picture has the name of one in docs/images, with TRACE in place of the
demo's, and prints what it drew. A command for a layer that TRACE does not hold is left out, and so is one for all layers
where it does not hold them all: its picture would say something else.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = "out/demo/demo.h5"


def commands():
    """(name of the picture, arguments of the program) of each picture of the demo in the guide."""
    for block in re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "guide.md").read_text(), re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            if not line.startswith(f"./kvloupe.sh export {DEMO} ") or "--png" not in line:
                continue
            words = shlex.split(line)
            picture = words[words.index("--png") + 1]
            if (ROOT / "docs" / "images" / picture).exists():
                yield picture, words[1:]


def output_of(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: kvloupe {' '.join(words)} failed; it said: {done.stderr.strip()}; correct the command in docs/guide.md")
    return done.stdout


def redraw(program, trace, folder):
    """Names of the pictures drawn."""
    info = json.loads(output_of(program, "info", str(trace), "--json"))
    held, drawn = set(info["layers"]), []
    for picture, words in commands():
        layer = re.search(r"\blayer=(\d+)", " ".join(words))
        needed = {int(layer[1])} if layer else set(range(info["model"]["num_layers"]))
        if not needed <= held:
            continue
        words[words.index(DEMO)] = str(trace)
        words[words.index("--png") + 1] = str(folder / picture)
        output_of(program, *words)
        drawn.append(picture)
    return drawn


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print("\n".join(redraw(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))))
