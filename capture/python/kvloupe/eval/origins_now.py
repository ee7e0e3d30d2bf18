"""Hashes of how tasks score and of the files that SPECs name, as they are now (results/origin.py)."""
import functools
import hashlib
import inspect
import json
import os
import pathlib

import lm_eval.tasks
from lm_eval.utils import handle_non_serializable

from ..known_hashes import cache_folder, hash_of_files
from ..spec_facts import spec_facts
from ..weights_hash import hash_bytes
from .harness_tasks import OWN_TASKS

OF_SCORES = ("output_type", "metric_list", "filter_list", "process_results", "doc_to_target", "doc_to_choice", "repeats")
SHIPPED = (pathlib.Path(lm_eval.tasks.__file__).parent, OWN_TASKS)
DIGITS = 32


def hash_of_task(task):
    """Of its settings that decide over a score, and of the files of Python in which functions among them are."""
    kind = [] if type(task).__module__.startswith("lm_eval.") else [type(task)]
    settings = {name: task.get_config(name) for name in OF_SCORES}
    return _hash(json.dumps([kind, settings], default=_stable, skipkeys=True))


def _stable(value):
    """The same in every process."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if not callable(value):
        return handle_non_serializable(value) if type(value).__str__ is not object.__str__ else type(value).__qualname__
    try:
        return [value.__qualname__, hash_bytes([inspect.getsourcefile(value)])]
    except (AttributeError, OSError, TypeError):  # It is of no file.
        return getattr(value, "__qualname__", type(value).__qualname__)


def is_shipped(task):
    """Of the harness or this package, whose versions all samples have in common."""
    source = (task.get_config("metadata") or {}).get("config_source")
    return source is not None and any(folder in pathlib.Path(source).parents for folder in SHIPPED)


def hash_of_method(method, model_hash):
    """Of the files that the SPEC names, by parameter; "" where there is none."""
    facts = spec_facts(method)
    files = {name: [value] for name, value in facts["parameters"].items() if isinstance(value, str) and os.path.isfile(value)}
    if facts["basis"] == "auto":
        files["basis"] = _calibrated(facts["id"], model_hash)
    hashes = {name: hash_of_files(paths, hash_bytes) for name, paths in files.items() if paths}
    return _hash(json.dumps(hashes, sort_keys=True)) if hashes else ""


def _calibrated(method, model_hash):
    """The file that basis=auto means, where the program keeps it (of each of its recipes)."""
    folder = pathlib.Path(os.environ.get("KVLOUPE_CACHE_DIR") or cache_folder().parent) / "bases"
    return sorted(folder.glob(f"{'loki' if method == 'loki' else 'aqua'}-{model_hash[:16]}-*.h5")) if model_hash else []


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
