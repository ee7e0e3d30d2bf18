#!/usr/bin/env python3
"""soak.py [--minutes 60] [--build build/release] [--folder DIR]

Lets the real window (tests/gui/soak_test.cpp, under an Xvfb of its own) open, scrub, select anew, switch, measure,
export and close round after round, and beside it captures with a tiny model in a loop. After a twelfth of the time
(minute 5 of 60) the window's memory at rest may grow by 5 % at most, and its descriptors and threads not at all; a
capture's peak memory neither. Prints a table; exits 1 where that does not hold or anything fails.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r"soak: seconds (\d+) megabytes ([\d.]+) descriptors (\d+) threads (\d+)")
MOST_GROWTH = 1.05
SECONDS_BETWEEN_ROWS = 10


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def start_display():
    reading, writing = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x900x24", "-nolisten", "tcp", "-noreset"],
                              pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        number = pipe.readline().strip()
    if not number:
        fail("Xvfb did not start; install xvfb")
    return server, ":" + number


class Captures(threading.Thread):
    """One after the other until told to stop; keeps the peak memory of each."""

    def __init__(self, build, folder):
        super().__init__(daemon=True)
        model = str(folder / "tiny.gguf")
        subprocess.run([build / "tests/make_tiny_model", model], check=True)
        self.command = [str(build / "bin/kvloupe"), "capture", "--model", model, "--raw", "--prompt", "abcd efgh. " * 40,
                        "--chunk-size", "16", "--max-new-tokens", "4", "--method", "quoka:budget_tokens=32", "--method",
                        "h2o:budget_tokens=40", "--threads", "1", "--force", "--quiet", "-o", str(folder / "loop.h5")]
        self.stop = threading.Event()
        self.peaks = []  # (seconds, megabytes)
        self.problem = ""

    def run(self):
        begin = time.monotonic()
        while not self.stop.is_set():
            process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       errors="replace")
            message = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                self.problem = f"a capture ended with {process.returncode}: {message.strip()}"
                return
            self.peaks.append((time.monotonic() - begin, usage.ru_maxrss / 1000))


def watch(process, captures):
    """The rows (seconds, megabytes, descriptors, threads), printed as they come."""
    rows, other = [], []
    print(f"{'seconds':>8} {'MB at rest':>11} {'descriptors':>12} {'threads':>8} {'captures':>9}", flush=True)
    for line in process.stdout:
        match = LINE.search(line)
        if not match:
            other.append(line)
            continue
        row = (int(match[1]), float(match[2]), int(match[3]), int(match[4]))
        if not rows or row[0] - rows[-1][0] >= SECONDS_BETWEEN_ROWS:
            rows.append(row)
            print(f"{row[0]:8} {row[1]:11.1f} {row[2]:12} {row[3]:8} {len(captures.peaks):9}", flush=True)
    if process.wait() != 0:
        sys.stderr.writelines(other[-40:])
        fail(f"the window's script ended with {process.returncode}")
    return rows


def defects(rows, captures, warm):
    """What did not hold after the time `warm`."""
    settled = [row for row in rows if row[0] >= warm]
    if len(settled) < 4:
        return [f"only {len(settled)} rows after {warm:.0f} s; let it run longer"]
    found = []
    most, first = max(row[1] for row in settled), settled[0][1]
    if most > MOST_GROWTH * first:
        found.append(f"memory at rest grew from {first:.1f} to {most:.1f} MB")
    for index, name in ((2, "descriptors"), (3, "threads")):
        numbers = sorted({row[index] for row in settled})
        if len(numbers) > 1:
            found.append(f"{name} went from {numbers[0]} to {numbers[-1]}")
    peaks = [megabytes for seconds, megabytes in captures.peaks if seconds >= warm]
    if captures.problem:
        found.append(captures.problem)
    elif not peaks:
        found.append("no capture was finished")
    elif max(peaks) > MOST_GROWTH * peaks[0]:
        found.append(f"a capture's peak memory grew from {peaks[0]:.1f} to {max(peaks):.1f} MB")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--folder", help="where to work; a folder of its own is made there")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir=arguments.folder))
    server, display = start_display()
    captures = Captures(build, folder)
    try:
        captures.start()
        environment = dict(os.environ, DISPLAY=display, LIBGL_ALWAYS_SOFTWARE="1", OMP_WAIT_POLICY="passive",
                           KVLOUPE_SOAK_SECONDS=str(arguments.minutes * 60))
        window = subprocess.Popen([build / "tests/test_window_soak"], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        rows = watch(window, captures)
        captures.stop.set()
        captures.join()
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    found = defects(rows, captures, warm=arguments.minutes * 60 / 12)
    for defect in found:
        print(f"error: {defect}", file=sys.stderr)
    print(f"{rows[-1][0]} s, {len(captures.peaks)} captures: {'failed' if found else 'holds'}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
