"""Hashes of weights that were computed before, so that gigabytes are read once."""
import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import time

# A file that changed so shortly before may change again within one tick of its clock.
QUIET_SECONDS = 2.0


def cache_folder():
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = given if os.path.isabs(given) else os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "kvloupe" / "weight-hashes"


def hash_of_files(files, compute):
    """compute(files), or what it gave when the files were what they are now: of the same paths, sizes and times."""
    files = [os.path.realpath(file) for file in files]
    entry = cache_folder() / (hashlib.sha256("\n".join(files).encode()).hexdigest() + ".json")
    before, now = _states(files), time.time_ns()
    known = _read(entry)
    if known.get("files") == before and isinstance(known.get("hash"), str):
        return known["hash"]
    value = compute(files)
    quiet = all(max(state["changed"], state["modified"]) < now - QUIET_SECONDS * 1e9 for state in before)
    if quiet and _states(files) == before:
        _write(entry, {"files": before, "hash": value})
    return value


def _states(files):
    """The time of change cannot be set, so a file that was replaced by one of the same size and date is known, too."""
    states = []
    for file in files:
        status = os.stat(file)
        states.append({"path": file, "size": status.st_size, "modified": status.st_mtime_ns, "changed": status.st_ctime_ns})
    return states


def _read(entry):
    try:
        known = json.loads(entry.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(entry, known):
    """A cache that cannot be written is no error: the hash is computed again."""
    if not entry.is_absolute():  # The user has no home.
        return
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=entry.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(known, file)
            os.replace(name, entry)
        except OSError:
            os.unlink(name)
            raise
