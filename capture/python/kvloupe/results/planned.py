"""How many samples a whole run has, cell by cell: a shard has a part of them, and methods, tasks and lengths are added later.

A plan is {(task, method, length, depth): samples}; the depth is None where there is none.
"""
import collections
import json
import math

MOST = 1 << 40


def cell_of(record):
    depth = record["depth"]
    return record["task"], record["method"], record["length"], None if math.isnan(depth) else depth


def joined(plans, records):
    """A cell of two plans is the same one, so the larger number holds; there are at least as many as were run."""
    whole = dict(collections.Counter(map(cell_of, records)))
    for plan in plans:
        for cell, count in plan.items():
            whole[cell] = max(whole.get(cell, 0), count)
    return whole


def total(plan):
    return sum(plan.values())


def as_text(plan):
    return json.dumps([[*cell, count] for cell, count in plan.items()])


def from_text(text):
    """None where it is no plan."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        return None
    plan = {tuple(row[:4]): row[4] for row in rows}
    return plan if len(plan) == len(rows) else None


def _is_row(row):
    if not isinstance(row, list) or len(row) != 5:
        return False
    task, method, length, depth, count = row
    return (isinstance(task, str) and isinstance(method, str) and type(length) is int and type(count) is int and 0 <= count <= MOST
            and (depth is None or isinstance(depth, float) and math.isfinite(depth)))
