"""What a sample's record holds, in the journal and in RESULTS.h5."""
import math

TEXTS = ("id", "sample", "task", "method", "answer", "expected", "refused", "metrics")
INTEGERS = ("doc", "length", "seed", "budget", "prompt_tokens", "direction")
NUMBERS = ("depth", "kept", "score", "prefill_s", "decode_s")


def check_record(record):
    """Whether it is one: a dictionary with all members, of their types."""
    if not isinstance(record, dict) or not isinstance(record.get("metrics"), dict):
        return False
    texts = all(isinstance(record.get(name), str) for name in TEXTS if name != "metrics")
    integers = all(_is_int64(record.get(name)) for name in INTEGERS)
    numbers = all(record.get(name) is None or isinstance(record[name], float) or _is_int64(record[name]) for name in NUMBERS)
    return texts and integers and numbers


def _is_int64(value):
    return isinstance(value, int) and -(2**63) <= value < 2**63


def unknown_as_nan(record):
    """JSON has no NaN: null stands for it."""
    return {**record, **{name: math.nan if record[name] is None else float(record[name]) for name in NUMBERS}}


def nan_as_unknown(record):
    return {**record, **{name: record[name] if math.isfinite(record[name]) else None for name in NUMBERS}}
