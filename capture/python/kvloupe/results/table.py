"""Tables of samples: means with intervals, beside dense, and differences of two methods on the same samples."""
import math
import re

from ..errors import KvloupeError
from ..printable import printable
from .statistics import sign_test, wilson

BY = ("task", "method", "budget", "length", "depth", "seed")


def rows_of(records, by=("task", "method"), against=None):
    """A dictionary for each group: what it is of, and numbers. `against` is the method to which difference, better, worse and p refer."""
    against = known(records, against, by)
    dense, other = _by_sample(records, "dense"), _by_sample(records, against) if against else {}
    groups, unbounded = {}, _unbounded(records)
    for record in records:
        groups.setdefault(tuple(_value(record, name) for name in by), []).append(record)
    rows = []
    for key in sorted(groups, key=lambda key: [order(value) for value in key]):
        answered = [record for record in groups[key] if not record["refused"]]
        bounded = not any(record["task"] in unbounded for record in groups[key])
        refused = len(groups[key]) - len(answered)
        rows.append({**dict(zip(by, key)), **_of(answered, bounded), "refused": refused or None, **_relative(answered, dense),
                     **_paired(answered, other, against)})
    return rows


def known(records, method, by):
    """The method, or None; refused where rows by these names cannot be compared with it."""
    if method is None:
        return None
    methods = sorted({record["method"] for record in records}, key=order)
    if method not in methods:
        raise KvloupeError(f"there are no samples of {method}", f"the methods of these results are {', '.join(methods)}", "give one of these")
    if "method" not in by:
        raise KvloupeError(f"nothing can be compared with {method}", "a row without a method has samples of several",
                           "add method to --by, or leave --against out")
    return method


def _by_sample(records, method):
    """What was asked is the same for all methods."""
    return {record["sample"]: record["score"] for record in records if record["method"] == method and not math.isnan(record["score"])}


def _pairs(members, other):
    """(record, score of the other method) where both are known."""
    return [(record, other[record["sample"]]) for record in members if record["sample"] in other and not math.isnan(record["score"])]


def _value(record, name):
    value = record[name]
    return None if value == -1 or (isinstance(value, float) and math.isnan(value)) else value


def order(value):
    """Dense first, numbers by size, texts by letters and the numbers in them, what is unknown last."""
    if value is None:
        return 3, 0, []
    if isinstance(value, (int, float)):
        return 1, value, []
    parts = re.split("([0-9]{1,18})", value)
    return (0, 0, []) if value == "dense" else (2, 0, [(int(part), "") if part.isdecimal() else (-1, part) for part in parts])


def _mean(values):
    values = [value for value in values if not math.isnan(value)]
    return sum(values) / len(values) if values else math.nan


def _unbounded(records):
    """Tasks whose scores are no shares: a loss, or one that goes from 0 to 100, may be within 0 and 1 in a row by chance."""
    return {record["task"] for record in records if not math.isnan(record["score"]) and (record["direction"] < 0 or not 0 <= record["score"] <= 1)}


def _of(members, bounded):
    """Numbers of those whose score is known; a task that has none, as of perplexities, counts its texts."""
    scores = [record["score"] for record in members if not math.isnan(record["score"])]
    low, high = wilson(sum(scores), len(scores)) if scores and bounded else (math.nan, math.nan)
    means = {name: _mean([float(record[name]) for record in members]) for name in ("kept", "prompt_tokens", "prefill_s", "decode_s")}
    return {"samples": len(scores) or len(members), "score": _mean(scores), "low": low, "high": high, **means}


def _relative(members, dense):
    """Mean score by that of dense on the same samples."""
    pairs = _pairs(members, dense)
    of_dense = sum(theirs for _, theirs in pairs)
    return {"relative": sum(record["score"] for record, _ in pairs) / of_dense if of_dense > 0 else math.nan}


def _paired(members, other, against):
    pairs = _pairs([record for record in members if record["method"] != against], other)
    if not pairs:
        return {"difference": math.nan, "better": None, "worse": None, "p": math.nan}
    gains = [(record["score"] - theirs) * (-1 if record["direction"] < 0 else 1) for record, theirs in pairs]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    difference = _mean([record["score"] - theirs for record, theirs in pairs])
    return {"difference": difference, "better": better, "worse": worse, "p": sign_test(better, worse)}


def perplexities(records):
    """{(task, method): {metric: value}} of metrics that are of all texts together."""
    sums = {}
    for record in records:
        for name, value in record["metrics"].items():
            metric = name.split(",")[0]
            pair = [value, 1] if metric == "perplexity" else value if metric in ("word_perplexity", "byte_perplexity", "bits_per_byte") else None
            if _is_pair(pair):
                of = sums.setdefault((record["task"], record["method"]), {}).setdefault(metric, [0.0, 0.0])
                of[0] += pair[0]
                of[1] += pair[1]
    return {key: {metric: _perplexity(metric, *pair) for metric, pair in metrics.items()} for key, metrics in sums.items()}


def perplexity_rows(records, against=None):
    """Of a method that has texts with the one that it is compared with (dense where none is named) of these alone, and beside it what the
    other has there: perplexities of other texts say nothing of a method."""
    against, groups, rows = known(records, against, ["method"]) or "dense", {}, []
    column = f"{printable(against)} on these"
    for record in records:
        if not record["refused"]:
            groups.setdefault((record["task"], record["method"]), {})[record["sample"]] = record
    for key in sorted(groups, key=lambda key: [order(name) for name in key]):
        members, other = groups[key], groups.get((key[0], against), {})
        both = [sample for sample in members if sample in other and key[1] != against]
        members = [members[sample] for sample in both or members]
        beside = perplexities([other[sample] for sample in both]).get((key[0], against), {})
        rows += [{"task": key[0], "method": key[1], "metric": metric, "samples": len(members), "value": value, column: beside.get(metric)}
                 for metric, value in perplexities(members).get(key, {}).items()]
    if all(row[column] is None for row in rows):
        rows = [{name: value for name, value in row.items() if name != column} for row in rows]
    return rows


def _is_pair(value):
    """JSON has integers for which there is no float."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, (int, float)) and abs(each) < 1e300 for each in value)


def _perplexity(metric, log_likelihood, weight):
    nats = -log_likelihood / weight if weight else math.nan
    if metric == "bits_per_byte" or math.isnan(nats):
        return nats / math.log(2)
    return math.exp(nats) if nats < 700 else math.inf


def grid(records, method, against=None):
    """Lengths, depths, and rows by length of (mean score, samples) by depth: where a needle is found. With `against` of differences to that
    method, on the samples of both."""
    members = [record for record in records if record["method"] == method and record["length"] >= 0 and not math.isnan(record["depth"])]
    other = {record["sample"]: 0.0 for record in members} if against is None else _by_sample(records, against)
    cells = {}
    for record, theirs in _pairs(members, other):
        cells.setdefault((record["length"], record["depth"]), []).append(record["score"] - theirs)
    lengths, depths = (sorted({key[at] for key in cells}) for at in (0, 1))
    rows = [[cells.get((length, depth), []) for depth in depths] for length in lengths]
    return lengths, depths, [[(_mean(scores), len(scores)) for scores in row] for row in rows]


def summary(records):
    from .table_text import markdown
    return markdown(rows_of(records), ("task", "method"))
