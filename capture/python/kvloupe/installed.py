"""Where the program is that this package belongs to."""
import os
import pathlib
import shutil

from .errors import KvloupeError


def prefixes():
    """Folders that hold its bin and lib, the first that has what is looked for counts."""
    program = os.environ.get("KVLOUPE_PROGRAM") or shutil.which("kvloupe")
    if program:
        yield pathlib.Path(program).resolve().parent.parent
    package = pathlib.Path(__file__).resolve().parent
    # PREFIX/share/kvloupe/python/kvloupe, and capture/python/kvloupe of a checkout. A package nearer to the root is in neither.
    for levels, inside in ((3, ""), (2, "build/release")):
        if levels < len(package.parents):
            yield package.parents[levels] / inside


def program():
    """Its file. Raises KvloupeError where there is none."""
    named = os.environ.get("KVLOUPE_PROGRAM")
    if named:
        return named
    for prefix in prefixes():
        if (prefix / "bin" / "kvloupe").is_file():
            return str(prefix / "bin" / "kvloupe")
    raise KvloupeError("the program kvloupe cannot be asked", "it was not found",
                       "build it (./kvloupe.sh) or install it, and name its file in KVLOUPE_PROGRAM")
