"""RESULTS.h5 (core/trace/FORMAT.md, section 13): written at once under another name, read without believing it."""
import json
import math
import os
import tempfile
import time

import h5py
import numpy as np

from ..compound_rows import MOST_INTEGER, read_columns
from ..errors import KvloupeError, one_line
from ..file_image import image_of, write_image
from ..heap_texts import check_collections
from ..stored import BROKEN, Defect, int_attribute, open_dataset, read, text_attribute
from ..version import __version__
from . import planned, sample_rows

FORMAT, SCHEMA = "kvloupe-results", "2.0"
MOST_SAMPLES = 1 << 24


def write_results(path, run, records, plan):
    """run: what all samples have in common, a dictionary; plan: how many samples the whole run has, all shards together (planned.py)."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path) + ".", suffix=".part")
        os.close(descriptor)
        os.chmod(temporary, 0o666 & ~_umask())
        try:
            write_image(temporary, image_of(lambda file: _fill(file, run, records, plan)))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, RuntimeError) as error:
        raise KvloupeError(f"{path} cannot be written", getattr(error, "strerror", None) or one_line(error),
                           "free some space, or name a file in a folder of yours") from None


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _fill(file, run, records, plan):
    total = planned.total(plan)
    file.attrs.update({"format": FORMAT, "schema_version": SCHEMA, "producer": f"kvloupe-python {__version__}",
                       "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "complete": int(len(records) == total), "total": total,
                       "model": str(run.get("model", ""))})
    _texts(file, "run", [json.dumps(run, sort_keys=True)])
    _texts(file, "planned", [planned.as_text(plan)])
    file.create_dataset("samples", data=sample_rows.rows_of(records))
    texts, numbers = file.create_group("texts"), file.create_group("numbers")
    for name in sample_rows.TEXTS:
        _texts(texts, name, [json.dumps(record[name]) if name == "metrics" else record[name] for record in records])
    for name in sample_rows.NEW_TEXTS:
        _texts(texts, name, [record.get(name, "") for record in records])
    for names, kind in ((sample_rows.INTEGERS, np.int64), (sample_rows.NUMBERS, np.float64)):
        for name in names:
            numbers.create_dataset(name, data=np.array([record[name] for record in records], kind))


def _texts(group, name, texts):
    encoded = [text.encode("utf-8", "replace") for text in texts]
    group.create_dataset(name, data=np.frombuffer(b"".join(encoded), np.uint8))
    group.create_dataset(name + "_offsets", data=np.cumsum([0, *map(len, encoded)], dtype=np.int64))


def read_results(path):
    """(run, records, plan)"""
    try:
        check_collections(path)
        with h5py.File(path, "r", locking=False) as file:
            if text_attribute(file, "format") != FORMAT:
                raise Defect("it is no file of results")
            version = text_attribute(file, "schema_version") or ""
            if version.split(".")[0] == "1":
                raise KvloupeError(f"{path} cannot be read", f"it has schema {version[:20]}, which is not read any more", "run the evaluation again")
            if version.split(".")[0] != SCHEMA.split(".")[0]:
                raise Defect(f"it has schema {version[:20]}, and this package reads {SCHEMA}")
            run = _json(_texts_of(file, "run", 1)[0], "run")
            plan = planned.from_text(_texts_of(file, "planned", 1)[0])
            if plan is None or int_attribute(file, "total") != planned.total(plan):
                raise Defect("its numbers of samples do not fit each other")
            return run, _records(file), plan
    except Defect as defect:
        raise KvloupeError(f"{path} cannot be read", " ".join(str(defect).split()), "name a file that python -m kvloupe eval wrote") from None
    except FileNotFoundError:
        begun = os.path.exists(f"{path}.journal")
        raise KvloupeError(f"{path} cannot be read", "it does not exist" + (", its run was stopped half way" if begun else ""),
                           "run the evaluation with --resume" if begun else "name a file that python -m kvloupe eval wrote") from None
    except (*BROKEN, RecursionError) as error:
        raise KvloupeError(f"{path} cannot be read", " ".join(str(error).split())[:200], "name a file that python -m kvloupe eval wrote") from None


def _records(file):
    """Those of /samples, with what stands beside it."""
    columns = read_columns(file, "samples", sample_rows.KINDS, MOST_SAMPLES)
    count = len(columns["id"])
    for names, kind in ((sample_rows.INTEGERS, "integer"), (sample_rows.NUMBERS, "float")):
        for name in names:
            dataset = open_dataset(file, f"numbers/{name}", kind, 1)
            if dataset.shape[0] != count:
                raise Defect(f"numbers/{name} has {dataset.shape[0]:,} entries for {count:,} samples")
            columns[name] = read(dataset).tolist()
    for name in sample_rows.INTEGERS:
        if max(columns[name], default=0) > MOST_INTEGER:
            raise Defect(f"numbers/{name} has a number that does not fit 64 bits with a sign")
    if any(map(math.isinf, columns["depth"])):
        raise Defect("samples/depth has a number that is infinite")
    for name in sample_rows.TEXTS:
        columns[name] = _texts_of(file, f"texts/{name}", count)
    for name in sample_rows.NEW_TEXTS:
        columns[name] = _texts_of(file, f"texts/{name}", count) if f"texts/{name}" in file else [""] * count
    columns["metrics"] = [_json(text, "texts/metrics") for text in columns["metrics"]]
    del columns["seconds"]  # the sum of two others
    records = [dict(zip(columns, values)) for values in zip(*columns.values())]
    if len({record["id"] for record in records}) != count:
        raise Defect("a sample stands in it twice")
    return records


def _texts_of(file, path, count):
    offsets = read(open_dataset(file, f"{path}_offsets", "integer", 1)).astype(np.int64)
    content = read(open_dataset(file, path, "integer", 1)).astype(np.uint8).tobytes()
    if len(offsets) != count + 1 or offsets[0] != 0 or offsets[-1] != len(content) or (np.diff(offsets) < 0).any():
        raise Defect(f"the offsets of {path} do not fit its text")
    return [content[begin:end].decode("utf-8", "replace") for begin, end in zip(offsets[:-1], offsets[1:])]


def _json(text, name):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Defect(f"{name} holds what is no JSON object")
    return value
