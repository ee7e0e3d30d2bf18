#!/usr/bin/env python3
"""time_waiting.py KVLOUPE [--rounds N] [--tokens N] [--past N] [--busy N]

How OpenMP's threads should wait at a barrier: times of a capture and of a method's selection and attention under each setting,
in turns, as a Markdown table of the medians. --busy N: beside N programs that take all the processor time they get.
docs/performance.md holds what it printed."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

SETTINGS = {
    "3,000 spins, what the program sets": {},
    "30,000 spins": {"GOMP_SPINCOUNT": "30000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "active": {"OMP_WAIT_POLICY": "active"},
}


def run(command, setting):
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run(command, env={**environment, **setting}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    return done


def capture_speed(program, setting, tokens, threads, folder):
    """Tokens a second of prefill, recording included."""
    done = run([program, "--threads", str(threads), "capture", "--model", "smollm2", "--task", f"niah:length={tokens},depth=0.5",
                "--force", "-o", str(folder / "waiting.h5")], setting)
    return float(re.search(r"prefill ([\d.,]+) tokens/s", done.stdout + done.stderr).group(1).replace(",", ""))


def chunk_time(program, setting, past, threads, trace):
    """Milliseconds of quoka's selection and attention, and of dense attention, in one chunk after `past` keys."""
    done = run([program, "--threads", str(threads), "latency", str(trace), "--method", "quoka", "--layer", "12", "--lengths", str(past),
                "--json"], setting)
    row = json.loads(done.stdout)["rows"][0]
    return row["total_ms"], row["dense_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--past", type=int, default=16384)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    figures = {name: ([], [], []) for name in SETTINGS}
    try:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for _ in range(options.rounds):
                for name, setting in SETTINGS.items():
                    speeds, selected, dense = figures[name]
                    speeds.append(capture_speed(program, setting, options.tokens, options.threads, folder))
                    one, other = chunk_time(program, setting, options.past, options.threads, folder / "waiting.h5")
                    selected.append(one)
                    dense.append(other)
    finally:
        for hog in hogs:
            hog.kill()
    print(f"| waiting | capture of {options.tokens:,} tokens, tokens/s (least, most) | quoka after {options.past:,} keys, ms | dense, ms |")
    print("|---|---|---|---|")
    for name, (speeds, selected, dense) in figures.items():
        print(f"| {name} | {statistics.median(speeds):.0f} ({min(speeds):.0f}, {max(speeds):.0f}) | "
              f"{statistics.median(selected):.2f} | {statistics.median(dense):.2f} |")


if __name__ == "__main__":
    main()
