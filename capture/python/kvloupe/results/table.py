"""Tables of samples: means with intervals, beside dense, and differences of two methods on the same samples."""
import math

from ..errors import KvloupeError
from .statistics import sign_test, wilson

BY = ("task", "method", "budget", "length", "depth", "seed")
COLUMNS = ("samples", "score", "low", "high", "relative", "difference", "better", "worse", "p", "kept", "prompt_tokens", "prefill_s", "decode_s")


def rows_of(records, by=("task", "method"), against=None):
    """A dictionary for each group: what it is of, and COLUMNS. `against` is the method to which difference, better, worse and p refer."""
    against = _known(records, against)
    dense, other = _by_sample(records, "dense"), _by_sample(records, against) if against else {}
    groups = {}
    for record in records:
        groups.setdefault(tuple(_value(record, name) for name in by), []).append(record)
    rows = []
    for key in sorted(groups, key=lambda key: [_order(value) for value in key]):
        members = groups[key]
        rows.append({**dict(zip(by, key)), **_of(members), **_relative(members, dense), **_paired(members, other, against)})
    return rows


def sample_key(record):
    """The same for all methods."""
    return record["task"], record["doc"], record["length"], record["depth"] if not math.isnan(record["depth"]) else None, record["seed"]


def _known(records, method):
    if method is None:
        return None
    methods = sorted({record["method"] for record in records})
    if method not in methods:
        raise KvloupeError(f"there are no samples of {method}", f"the methods of these results are {', '.join(methods)}", "give one of these")
    return method


def _by_sample(records, method):
    return {sample_key(record): record["score"] for record in records if record["method"] == method}


def _value(record, name):
    if name == "method":  # Its budget has a column of its own.
        return record["method"]
    value = record[name]
    return None if value == -1 or (isinstance(value, float) and math.isnan(value)) else value


def _order(value):
    """Dense first, numbers by size, texts by letters, what is unknown last."""
    if value is None:
        return 3, 0, ""
    return (0, 0, "") if value == "dense" else (1, value, "") if isinstance(value, (int, float)) else (2, 0, value)


def _mean(values):
    values = [value for value in values if not math.isnan(value)]
    return sum(values) / len(values) if values else math.nan


def _of(members):
    scores = [record["score"] for record in members if not math.isnan(record["score"])]
    bounded = scores and all(0 <= score <= 1 for score in scores)
    low, high = wilson(sum(scores), len(scores)) if bounded else (math.nan, math.nan)
    means = {name: _mean([float(record[name]) for record in members]) for name in ("kept", "prompt_tokens", "prefill_s", "decode_s")}
    return {"samples": len(members), "score": _mean(scores), "low": low, "high": high, **means}


def _relative(members, dense):
    """Mean score by that of dense on the same samples."""
    pairs = [(record["score"], dense[sample_key(record)]) for record in members if sample_key(record) in dense]
    of_dense = sum(theirs for _, theirs in pairs)
    return {"relative": sum(ours for ours, _ in pairs) / of_dense if of_dense > 0 else math.nan}


def _paired(members, other, against):
    pairs = [(record["score"], other[sample_key(record)]) for record in members if sample_key(record) in other and record["method"] != against]
    pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
    if not pairs:
        return {"difference": math.nan, "better": None, "worse": None, "p": math.nan}
    better, worse = sum(ours > theirs for ours, theirs in pairs), sum(ours < theirs for ours, theirs in pairs)
    return {"difference": _mean([ours - theirs for ours, theirs in pairs]), "better": better, "worse": worse, "p": sign_test(better, worse)}


def perplexities(records):
    """{(task, method): {metric: value}} of tasks whose score is of all their texts together."""
    sums = {}
    for record in records:
        for name, value in record["metrics"].items():
            metric = name.split(",")[0]
            if metric in ("word_perplexity", "byte_perplexity", "bits_per_byte") and _is_pair(value):
                of = sums.setdefault((record["task"], record["method"]), {}).setdefault(metric, [0.0, 0.0])
                of[0] += value[0]
                of[1] += value[1]
    return {key: {metric: _perplexity(metric, *pair) for metric, pair in metrics.items()} for key, metrics in sums.items()}


def _is_pair(value):
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, (int, float)) for each in value)


def _perplexity(metric, log_likelihood, weight):
    nats = -log_likelihood / weight if weight else math.nan
    return nats / math.log(2) if metric == "bits_per_byte" else math.exp(nats) if nats < 700 else math.inf


def grid(records, method):
    """Lengths, depths, and rows by length of (mean score, samples) by depth: where a needle is found."""
    cells = {}
    for record in records:
        if record["method"] == method and record["length"] >= 0 and not math.isnan(record["depth"]) and not math.isnan(record["score"]):
            cells.setdefault((record["length"], record["depth"]), []).append(record["score"])
    lengths, depths = (sorted({key[at] for key in cells}) for at in (0, 1))
    return lengths, depths, [[(_mean(cells.get((length, depth), [])), len(cells.get((length, depth), []))) for depth in depths] for length in lengths]


def summary(records):
    from .table_text import markdown
    return markdown(rows_of(records), ("task", "method"))
