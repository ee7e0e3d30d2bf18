"""What a sample's record holds, in the journal and in RESULTS.h5."""
import math

TEXTS = ("id", "sample", "task", "method", "answer", "expected", "refused")  # beside `metrics`, a dictionary
MAY_BE_MISSING = ("trace", "task_hash", "method_hash")  # texts that are empty then
INTEGERS = ("doc", "length", "seed", "budget", "prompt_tokens", "direction")
NUMBERS = ("depth", "kept", "score", "prefill_s", "decode_s")


def check_record(record):
    """Whether it is one: a dictionary with all members, of their types. A journal's has no trace yet."""
    if not isinstance(record, dict) or not isinstance(record.get("metrics"), dict):
        return False
    texts = all(isinstance(record.get(name, "" if name in MAY_BE_MISSING else None), str) for name in TEXTS + MAY_BE_MISSING)
    integers = all(_is_int64(record.get(name)) for name in INTEGERS)
    numbers = all(record.get(name) is None or isinstance(record[name], float) or _is_int64(record[name]) for name in NUMBERS)
    return texts and integers and numbers


def _is_int64(value):
    return isinstance(value, int) and -(2**63) <= value < 2**63


def seconds_of(record):
    """Of prefill and decode together; NaN where neither is known."""
    known = [record[name] for name in ("prefill_s", "decode_s") if not math.isnan(record[name])]
    return sum(known) if known else math.nan


def unknown_as_nan(record):
    """JSON has no NaN: null stands for it."""
    return {**dict.fromkeys(MAY_BE_MISSING, ""), **record, **{name: math.nan if record[name] is None else float(record[name]) for name in NUMBERS}}


def nan_as_unknown(record):
    return {**record, **{name: record[name] if math.isfinite(record[name]) else None for name in NUMBERS}}
