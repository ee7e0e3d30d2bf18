"""The harness's tasks by their names: loaded one after the other, each from the same seed, before anything runs."""
import contextlib
import difflib
import fnmatch
import os
import pathlib
import random
import sys

import numpy as np
from lm_eval.tasks import TaskManager
from lm_eval.tasks._factory import GROUP_FIELD_NAMES
from lm_eval.tasks._index import Kind

from ..errors import KvloupeError, one_line
from . import lent_tokenizer
from .data_folder import missing_of

LEAST_OF_VT = 1024
MOST_TOLD_OF_NAME = 80
TASKS = (Kind.TASK, Kind.PY_TASK)
OWN_TASKS = pathlib.Path(__file__).resolve().parents[1] / "tasks"


def load_tasks(names, *, include_paths, metadata, seed, num_fewshot, gen_kwargs, may_download, trusted=True):
    """{name: Task}. What lacks its data is told for all of them at once.

    trusted: whether the user gave the names. Those that a file gives are of single tasks that the harness, this package or a folder of the
    user's has: a path among them would run the program beside it, and a pattern all tasks that there are.
    """
    for path in include_paths:
        if not os.path.isdir(path):
            raise KvloupeError(f"--include-path {path} cannot be used", "it is no folder", "name a folder of task files (.yaml)")
    manager = _manager(names, [OWN_TASKS, *include_paths], metadata)
    loaded, missing = {}, {}
    for name in _leaves(manager, names) if trusted else _known_tasks(manager, names):
        if name == "ruler_vt" and min(metadata.get("max_seq_lengths", [LEAST_OF_VT])) < LEAST_OF_VT:
            raise KvloupeError("the task ruler_vt cannot be prepared",
                               "its example alone is longer than so short a text, and it would look for one for ever",
                               f"give --lengths of {LEAST_OF_VT:,} and more, or leave it out")
        try:
            with contextlib.redirect_stdout(sys.stderr):
                random.seed(seed)
                np.random.seed(seed)
                found = manager.load([name])["tasks"]
        except KvloupeError:
            raise
        except Exception as error:  # A task is a program: it raises what it likes.
            lack = missing_of(error)
            if lack is None:
                raise KvloupeError(f"the task {name} cannot be prepared", one_line(error),
                                   "check its file and what it needs, or leave the task out") from None
            missing.setdefault((lack.what, lack.path, lack.why), []).append(name)
            continue
        twice = [each for each in found if each in loaded]
        if twice:
            raise KvloupeError(f"the task {twice[0]} is asked for twice", "a group that has it gives it options of its own", "leave one of both out")
        loaded.update(found)
    if missing:
        raise _lacking(missing, may_download)
    if gen_kwargs and not any(task.get_config("output_type") == "generate_until" for task in loaded.values()):
        raise KvloupeError("--gen-kwargs would change nothing", "none of these tasks lets the model write an answer", "leave it out")
    for task in loaded.values():
        _configure(task, seed, num_fewshot, gen_kwargs)
    return loaded


def _manager(names, folders, metadata):
    """The harness reads ten thousand files to know its tasks; it is spared where these folders have all."""
    manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata)
    if all(_has_whole(manager.task_index, name) for name in names):
        return manager
    lent_tokenizer.lend_to_ruler()
    return TaskManager(include_path=folders, metadata=metadata)


def _has_whole(index, name, above=()):
    """Whether a task is there, or a group or tag with all of its members."""
    entry = index.get(name)
    if entry is None or name in above:
        return entry is not None
    return all(_has_whole(index, each, (*above, name)) for each in _names_of_members(entry))


def _names_of_members(entry):
    if entry.kind == Kind.TAG:
        return sorted(entry.tags)
    return _names_in((entry.cfg or {}).get("task")) if entry.kind == Kind.GROUP else []


def _names_in(members):
    """Of those that a group does not define itself."""
    names = []
    for each in members if isinstance(members, list) else []:
        if not isinstance(each, dict):
            names.append(each)
        elif "group" in each:
            names += _names_in(each["task"]) if "task" in each else [each["group"]]
        elif "dataset_path" not in each:
            names.append(each.get("task"))
    return [name for name in names if isinstance(name, str)]


def _configure(task, seed, num_fewshot, gen_kwargs):
    """As the harness's simple_evaluate does."""
    if getattr(task, "UNSAFE_CODE", False) or getattr(task, "MULTIMODAL", False):
        raise KvloupeError(f"the task {task.task_name} cannot be run here", "it runs code that the model wrote, or shows it images", "leave it out")
    if task.get_config("output_type") == "generate_until" and gen_kwargs:
        task.set_config(key="generation_kwargs", value=gen_kwargs, update=True)
    own = task.get_config("num_fewshot")
    if num_fewshot and (own == 0 or task.get_config("output_type") == "loglikelihood_rolling"):
        raise _too_many(task, num_fewshot, "it takes no examples", "leave one of both out")
    if own is None or num_fewshot is not None:
        task.set_config(key="num_fewshot", value=num_fewshot or 0)
    task.set_fewshot_seed(seed=seed)
    _check_pool(task, num_fewshot)


def _check_pool(task, num_fewshot):
    """Of the documents that are asked about, each has the others as examples."""
    pool = len(getattr(getattr(task, "sampler", None), "df", None) or ())
    split = getattr(getattr(task, "fewshot_cfg", None), "split", None)
    if split is not None and split == task.get_config("test_split"):
        pool = max(0, pool - 1)
    if num_fewshot and num_fewshot > pool:
        raise _too_many(task, num_fewshot, f"it has {pool:,} examples to choose from", "give a smaller number")


def _too_many(task, num_fewshot, why, what_to_do):
    return KvloupeError(f"the task {task.task_name} cannot be run with --num-fewshot {num_fewshot}", why, what_to_do)


def _leaves(manager, names):
    """Names of tasks; groups and tags are taken apart, as far as their members are tasks of the index."""
    found = []
    for name in names:
        matching = fnmatch.filter(manager.all_tasks, name) if any(letter in name for letter in "*?[") else [name]
        if not matching or (matching == [name] and name not in manager.task_index and not os.path.isfile(name)):
            raise _unknown(name, manager.all_tasks)
        for each in matching:
            found += _members(manager, each)
    return list(dict.fromkeys(found))


def _known_tasks(manager, names):
    for name in names:
        if name not in manager.task_index or manager.task_index[name].kind not in TASKS:
            raise KvloupeError(f"there is no task {name[:MOST_TOLD_OF_NAME]}",
                               "neither lm-evaluation-harness nor this package nor --include-path has it",
                               "name the folder of its file by --include-path")
    return names


def _members(manager, name):
    entry = manager.task_index.get(name)
    if entry is None or entry.kind in TASKS:
        return [name]
    if entry.kind == Kind.GROUP and set(entry.cfg or ()) - GROUP_FIELD_NAMES - {"tag"}:
        return [name]  # It gives its tasks options, which the harness hands to them when the group is loaded.
    members = sorted(entry.tags) if entry.kind == Kind.TAG else (entry.cfg or {}).get("task", [])
    if not isinstance(members, list) or not all(isinstance(member, str) and member in manager.task_index for member in members):
        return [name]
    return [leaf for member in members for leaf in _members(manager, member)]


def _unknown(name, known):
    close = difflib.get_close_matches(name, known, 3)
    return KvloupeError(f"there is no task {name}", "neither lm-evaluation-harness nor this package nor --include-path has it",
                        f"did you mean {', '.join(close)}?" if close else "`python -m kvloupe lm_eval ls tasks` lists them")


def _lacking(missing, may_download):
    tasks = list(dict.fromkeys(name for names in missing.values() for name in names))
    needs = " and ".join(f"{what} ({', '.join(names)})" for (what, _, _), names in missing.items())
    places = ", ".join(dict.fromkeys(str(path) for _, path, _ in missing))
    said = ", ".join(dict.fromkeys(f"of {what}: {why}" for what, _, why in missing if why))
    why = "and the network did not give it" if may_download else "and nothing is downloaded without --download"
    advice = "" if may_download else "or give --download, "
    they_need = "they need" if len(tasks) > 1 else "it needs"
    return KvloupeError(f"{', '.join(tasks)} cannot be prepared, so nothing was run",
                        f"{they_need} {needs}, which could not be loaded from this machine, {why}{f' ({said})' if said else ''}",
                        f"put it into {places} (--data names another folder), {advice}or leave the tasks out")
