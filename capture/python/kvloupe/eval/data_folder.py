"""Where tasks take their data from: a folder first, then the caches of this machine, and the network only where it is allowed."""
import contextlib
import json
import os
import pathlib
import types
from unittest import mock

import datasets
import requests

from ..errors import one_line

TABLE = pathlib.Path("tokenizers") / "punkt_tab"


class Missing(Exception):
    """What a task needs that could not be had, the path under which it is looked for, and what was said of it."""

    def __init__(self, what, path, why=""):
        super().__init__(what)
        self.what, self.path, self.why = what, path, why


def default_folder():
    given = os.environ.get("XDG_DATA_HOME", "")
    base = given if os.path.isabs(given) else os.path.expanduser("~/.local/share")
    return pathlib.Path(base) / "kvloupe" / "eval"


@contextlib.contextmanager
def data_from(folder, may_download):
    """Inside, the harness's tasks get data sets, files by address and nltk's tables in this way. They raise what missing_of knows."""
    folder, load, get = pathlib.Path(folder), datasets.load_dataset, requests.get

    def load_dataset(path, name=None, **options):
        inside = folder / str(path)
        if path and inside.exists():
            return load(str(inside), name, **options)
        try:
            return load(path, name, **options)
        except Exception as error:  # Many kinds, by how the network is missing.
            if options.get("data_files") or not path or os.path.exists(str(path)):
                raise
            raise Missing(f"the data set {path}", inside, one_line(error).replace("; ", ", ")) from error

    def get_address(url, *arguments, **options):
        inside = folder / url.partition("?")[0].rpartition("/")[2]
        if inside.is_file():
            content = inside.read_bytes()
            return types.SimpleNamespace(content=content, text=content.decode("utf-8", "replace"), status_code=200, ok=True,
                                         raise_for_status=lambda: None, json=lambda: json.loads(content))
        if not may_download:
            raise Missing(f"the file {url}", inside)
        try:
            return get(url, *arguments, **options)
        except requests.RequestException as error:
            raise Missing(f"the file {url}", inside, one_line(error).replace("; ", ", ")) from error

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("datasets.load_dataset", load_dataset))
        stack.enter_context(mock.patch("requests.get", get_address))
        stack.enter_context(_tables_of_nltk(folder, may_download))
        yield


@contextlib.contextmanager
def _tables_of_nltk(folder, may_download):
    try:
        import nltk
    except ImportError:
        yield
        return
    tables = str(folder / "nltk_data")
    nltk.data.path.insert(0, tables)
    try:
        with contextlib.nullcontext() if may_download else mock.patch("nltk.download", lambda *_, **__: False):
            yield
    finally:
        nltk.data.path.remove(tables)


def missing_of(error):
    """What lacks, where an error inside data_from says that; else None."""
    if isinstance(error, Missing):
        return error
    if not isinstance(error, LookupError) or "nltk" not in str(error).lower():
        return None
    import nltk
    return Missing("the table punkt_tab of nltk", pathlib.Path(nltk.data.path[0]) / TABLE)
