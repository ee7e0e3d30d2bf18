#!/usr/bin/env python3
"""end_windows.py KVLOUPE TRACE [--rounds 3] [--seed 1]

Ends the real window in every way at random moments, each under an Xvfb of its own: its display killed, SIGTERM, SIGHUP,
SIGINT, SIGKILL, two windows at once, a trace that is gone, files of the session, settings and layout that are damaged.
Each end must have its sentence and the exit code of the contract, and the next start must show what was open.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_SECONDS = 60
GONE = "error: the window is gone; its display has ended or closed the connection; "
CLOSED = "error: the window was closed; a signal asked for it; "


class Failure(Exception):
    pass


def require(holds, message):
    if not holds:
        raise Failure(message)


class Display:
    def __init__(self):
        reading, writing = os.pipe()
        # Without -noreset the server starts anew when its last client is gone, and refuses the next one for a moment.
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"],
            pass_fds=[writing], stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.name = ":" + pipe.readline().strip()

    def kill(self):
        self.server.kill()
        self.server.wait()


class Window:
    def __init__(self, trial, display, *traces):
        self.saved_before = {number: trial.saved(number) for number in (1, 2)}
        environment = dict(os.environ, DISPLAY=display.name, LIBGL_ALWAYS_SOFTWARE="1", OMP_WAIT_POLICY="passive")
        self.process = subprocess.Popen([trial.kvloupe, "--config-dir", str(trial.settings), *map(str, traces)],
                                        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")

    def end(self, number=None):
        """Exit code and standard error."""
        if number is not None:
            self.process.send_signal(number)
        try:
            errors = self.process.communicate(timeout=MOST_SECONDS)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure(f"the window did not end; it said {self.process.communicate()[1]!r}") from None
        return self.process.returncode, errors


class Trial:
    def __init__(self, kvloupe, folder, seed):
        self.kvloupe = kvloupe
        self.folder = folder
        self.settings = folder / "settings"
        self.random = random.Random(seed)
        self.counts = {}

    def session(self, number=1):
        path = self.settings / "state" / f"session-{number}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def saved(self, number):
        path = self.settings / "state" / f"session-{number}.json"
        return path.stat().st_mtime_ns if path.exists() else None

    def shows(self, window, traces, number=1):
        """Waits until the window has these open."""
        wanted = [str(trace) for trace in traces]
        end = time.monotonic() + MOST_SECONDS
        while time.monotonic() < end:
            session = self.session(number) if self.saved(number) != window.saved_before[number] else {}
            if [tab["trace"] for tab in session.get("tabs", [])] == wanted and session.get("openings") == 0 and not session["ended"]:
                return
            if window.process.poll() is not None:
                break
            time.sleep(0.05)
        raise Failure(f"{self.session(number)} instead of {wanted}; exit {window.process.poll()}")

    def fresh(self):
        shutil.rmtree(self.settings, ignore_errors=True)
        self.settings.mkdir()

    def one_end(self, how, trace):
        self.fresh()
        display = Display()
        try:
            window = Window(self, display, trace)
            self.shows(window, [trace])
            time.sleep(self.random.uniform(0, 3))
            if how == "display":
                display.kill()
                code, errors = window.end()
                require(code == 1 and errors.startswith(GONE) and errors.count("\n") == 1, f"{how}: {code}, {errors!r}")
                display = Display()
            else:
                code, errors = window.end(how)
                if how == signal.SIGKILL:
                    require(code == -signal.SIGKILL and errors == "", f"{how}: {code}, {errors!r}")
                else:
                    require(code == 130 and errors.startswith(CLOSED), f"{how}: {code}, {errors!r}")
            self.goes_on(display, [trace])
        finally:
            display.kill()

    def goes_on(self, display, traces, said=0):
        """A start without names shows the traces, and says so many lines before it is closed."""
        window = Window(self, display)
        self.shows(window, traces)
        code, errors = window.end(signal.SIGTERM)
        require(code == 130 and errors.count("\n") == said + 1, f"after a restart: {code}, {errors!r}")

    def early_end(self, trace):
        """The display goes at any moment of the start."""
        self.fresh()
        display = Display()
        window = Window(self, display, trace)
        time.sleep(self.random.uniform(0, 1.5))
        display.kill()
        code, errors = window.end()
        require(code == 1 and errors.splitlines()[-1:] and errors.splitlines()[-1].startswith("error: the window "),
                f"the display gone early: {code}, {errors!r}")

    def two_windows(self, trace, other):
        self.fresh()
        display = Display()
        try:
            first, second = Window(self, display, trace), None
            self.shows(first, [trace])
            second = Window(self, display, other)
            self.shows(second, [other], 2)
            first.end(signal.SIGKILL)
            second.end(signal.SIGKILL)
            windows = [Window(self, display), Window(self, display)]
            for number, traces in ((1, [trace]), (2, [other])):
                self.shows(windows[0], traces, number)
            for window in windows:
                require(window.end(signal.SIGTERM)[0] == 130, "two windows end by a signal")
        finally:
            display.kill()

    def gone_trace(self, trace):
        self.fresh()
        copy = self.folder / "gone.h5"
        shutil.copy(trace, copy)
        display = Display()
        try:
            window = Window(self, display, trace, copy)
            self.shows(window, [trace, copy])
            window.end(signal.SIGKILL)
            copy.unlink()
            self.goes_on(display, [trace], said=1)
        finally:
            display.kill()

    def damage(self, trace):
        """One file of the folder is damaged at a time; the window starts, says one line at most, and replaces it."""
        self.fresh()
        display = Display()
        try:
            window = Window(self, display, trace)
            self.shows(window, [trace])
            time.sleep(3)
            window.end(signal.SIGTERM)
            sound = self.folder / "sound"
            shutil.copytree(self.settings, sound)
            for path in sorted(file.relative_to(sound) for file in sound.rglob("*") if file.suffix in (".json", ".ini")):
                for damage in ("noise", "cut", "fifo", "huge"):
                    self.fresh()
                    shutil.copytree(sound, self.settings, dirs_exist_ok=True)
                    self.spoil(self.settings / path, damage)
                    window = Window(self, display)
                    lost = path.name == "session-1.json"
                    self.shows(window, [] if lost else [trace])
                    code, errors = window.end(signal.SIGTERM)
                    require(code == 130 and errors.count("\n") <= 3, f"{path} ({damage}): {code}, {errors!r}")
                    require(not lost or errors.count("session-1.json") == 1, f"{path} ({damage}): {errors!r}")
                    self.counts["damaged files"] = self.counts.get("damaged files", 0) + 1
        finally:
            display.kill()

    def spoil(self, path, damage):
        if damage == "noise":
            bytes_ = bytearray(path.read_bytes())
            for _ in range(max(1, len(bytes_) // 20)):
                bytes_[self.random.randrange(len(bytes_))] = self.random.randrange(256)
            bytes_[0] = 0xFF
            path.write_bytes(bytes_)
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        elif damage == "fifo":
            path.unlink()
            os.mkfifo(path)
        else:
            with open(path, "wb") as file:
                file.truncate(1 << 33)

    def count(self, name, trial, *arguments):
        trial(*arguments)
        self.counts[name] = self.counts.get(name, 0) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvloupe")
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="end-windows-") as folder:
        trial = Trial(arguments.kvloupe, pathlib.Path(folder), arguments.seed)
        trace, other = trial.folder / "a.h5", trial.folder / "b.h5"
        for copy in (trace, other):
            shutil.copy(arguments.trace, copy)
        try:
            for _ in range(arguments.rounds):
                for how in ("display", signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL):
                    trial.count(getattr(how, "name", how), trial.one_end, how, trace)
                trial.count("display at the start", trial.early_end, trace)
                trial.count("two windows", trial.two_windows, trace, other)
                trial.count("trace gone", trial.gone_trace, trace)
            trial.damage(trace)
        except Failure as failure:
            print(f"error: {failure}", file=sys.stderr)
            sys.exit(1)
        print(", ".join(f"{count} {name}" for name, count in trial.counts.items()) + ": all as they should be")


if __name__ == "__main__":
    main()
