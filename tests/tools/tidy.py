#!/usr/bin/env python3
"""tidy.py [--build FOLDER] [--jobs N] [--minutes N] [--all] [FILE...]

Runs clang-tidy 14 with the checks of .clang-tidy over the sources that the build folder (build/release, configured)
compiles, and prints what it finds: exit 1 when there is anything.

A file that includes Torch takes 13 s of a processor, any other some 4 s, and there are 265 and 560. Without --all and
without FILE, those with Torch are checked that this branch changes against main, and all without Torch. What the branch
changes comes first, then what takes least; with --minutes no file is begun after so long, and how many are left is said.

A file that was clean is not checked again until it, a header that it includes, its flags, the checks or clang-tidy
change. What was clean is kept in ${XDG_CACHE_HOME:-~/.cache}/kvloupe/tidy, which all checkouts share.
"""
import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kvloupe/tidy"
KEPT_DAYS = 60


# What each is in.
PACKAGES = {"clang-tidy-14": "clang-tidy-14", "clang++-14": "clang-14"}


@functools.lru_cache(maxsize=None)
def tool(name):
    path = shutil.which(name)
    if not path:
        sys.exit(f"error: {name} was not found; the check needs that version; apt-get install {PACKAGES[name]}")
    return path


def sha256(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@functools.lru_cache(maxsize=None)
def digest(path):
    """Of a file of the checkout its content; of any other, which nobody edits, its size and age."""
    try:
        if not os.path.isabs(path):
            return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        return "missing"


def relative(path):
    path = os.path.normpath(path)
    return os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}/") else path


class Source:
    """A file as the build folder compiles it."""

    def __init__(self, command, file):
        words = shlex.split(command["command"])[1:]
        self.folder = command["directory"]
        self.file = file
        self.name = relative(self.file)
        self.flags = []
        rest = iter(words)
        for word in rest:
            if word in ("-o", "-c", "-include"):  # -include: a precompiled header of g++
                next(rest)
            elif not word.startswith(("-O", "-W", "-fpch-preprocess")):
                self.flags.append(word)
        self.has_torch = any("/torch/include" in flag for flag in self.flags)

    def key(self, setting):
        return sha256(setting, self.name, *(flag.replace(str(ROOT), ".") for flag in self.flags))

    def includes(self):
        """The files that it is made of."""
        scan = subprocess.run([tool("clang++-14"), "-M", *self.flags, self.file], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        if scan.returncode != 0:
            return None
        _, _, files = scan.stdout.replace("\\\n", " ").partition(": ")
        return sorted({relative(os.path.join(self.folder, file)) for file in files.split()})


def sources_of(command):
    """What a command compiles: a file, or those that CMake put together (Unity/unity_0_cxx.cxx), each by itself."""
    file = os.path.normpath(os.path.join(command["directory"], command["file"]))
    if file.endswith((".hxx.cxx", "_pch.cpp")):
        return []
    if "/Unity/" not in file:
        return [Source(command, file)]
    return [Source(command, part) for part in re.findall(r'#include "(.*)"', pathlib.Path(file).read_text())]


def clean_mark(key, includes):
    return CACHE / "clean" / sha256(key, *(f"{file} {digest(file)}" for file in includes))


def is_known_clean(key):
    try:
        includes = (CACHE / "includes" / key).read_text().splitlines()
    except OSError:
        return False
    mark = clean_mark(key, includes)
    if not mark.exists():
        return False
    mark.touch()
    (CACHE / "includes" / key).touch()
    return True


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def check(source, setting, end):
    """What clang-tidy says, "" if it finds nothing; None where the time is over."""
    if end is not None and time.monotonic() > end:
        return None
    includes = source.includes()
    run = subprocess.run([tool("clang-tidy-14"), "--quiet", "--warnings-as-errors=*", source.file, "--", *source.flags],
                         cwd=source.folder, capture_output=True, text=True, check=False)
    if run.returncode == 0 and includes is not None:
        key = source.key(setting)
        write(CACHE / "includes" / key, "\n".join(includes))
        write(clean_mark(key, includes), "")
    return "" if run.returncode == 0 else run.stdout or run.stderr


def changed_files():
    """What differs from main, as far as this checkout knows it."""
    def git(*words):
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return run.stdout.split() if run.returncode == 0 else []
    for main in ("main", "origin/main"):
        base = git("merge-base", "HEAD", main)
        if base:
            return set(git("diff", "--name-only", base[0]) + git("ls-files", "--others", "--exclude-standard"))
    return set()


def wanted(sources, changed, arguments):
    if arguments.files:
        names = {relative(os.path.abspath(file)) for file in arguments.files}
        return [source for source in sources if source.name in names]
    if arguments.all:
        return sources
    return [source for source in sources if not source.has_torch or source.name in changed]


def forget_old():
    limit = time.time() - KEPT_DAYS * 86400
    for folder in ("includes", "clean"):
        for file in (CACHE / folder).glob("*"):
            if file.stat().st_mtime < limit:
                file.unlink(missing_ok=True)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--build", default=ROOT / "build/release", type=pathlib.Path)
    words.add_argument("--jobs", default=os.cpu_count(), type=int)
    words.add_argument("--minutes", type=float)
    words.add_argument("--all", action="store_true")
    words.add_argument("files", nargs="*", metavar="FILE")
    arguments = words.parse_args()

    for name in PACKAGES:
        tool(name)
    commands = arguments.build / "compile_commands.json"
    if not commands.exists():
        sys.exit(f"error: {commands} does not exist; it says how files are compiled; run cmake --preset release")
    # A file of several test programs is compiled the same way in all of them.
    sources = {}
    for command in json.loads(commands.read_text()):
        for source in sources_of(command):
            sources.setdefault(source.key(""), source)
    changed = changed_files()
    chosen = wanted(list(sources.values()), changed, arguments)
    version = subprocess.run([tool("clang-tidy-14"), "--version"], capture_output=True, text=True, check=True).stdout
    setting = sha256(version, (ROOT / ".clang-tidy").read_text())
    unknown = sorted((source for source in chosen if not is_known_clean(source.key(setting))),
                     key=lambda source: (source.name not in changed, source.has_torch))
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    found = left = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as workers:
        for said in workers.map(lambda source: check(source, setting, end), unknown):
            left += said is None
            found += bool(said)
            if said:
                print(said, flush=True)
    forget_old()
    print(f"tidy: {len(chosen)} of {len(sources)} files, {len(chosen) - len(unknown)} clean as before, "
          f"{len(unknown) - left} checked, {found} with findings"
          + (f", {left} left for the next time" if left else ""))
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
