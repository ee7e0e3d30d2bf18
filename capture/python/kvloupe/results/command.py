"""python -m kvloupe results and eval merge."""
import os
import sys

from ..errors import KvloupeError
from ..printable import printable
from ..standard_output import put
from . import planned, table, table_text
from .origin import check_joined
from .results_file import read_results, write_results
from .same_run import differing

FORMS = {"csv": table_text.comma_separated, "latex": table_text.latex, "markdown": table_text.markdown}
COMMENTS = {"markdown": "", "latex": "% ", "csv": "# "}
NOT_LISTED = ("metrics", "id", "sample", "direction", "task_hash", "method_hash")  # the id comes last


def run_results(options):
    _, records, plan = read_results(options.results)
    if not records:
        raise KvloupeError(f"{options.results} has no samples", "none was run", "run the evaluation with --resume")
    form = FORMS[options.form]
    if options.samples:
        put(form([_listed(record) for record in records], ("task", "doc", "method")))
    elif options.grid:
        _print_grids(records, form, options)
    elif options.perplexities:
        if not _print_perplexities(records, form, options.against):
            raise KvloupeError("there are no perplexities", "no task of these results measures one", "leave --perplexities out")
    else:
        by = options.by or ("task", "method")
        put(form(table.rows_of(records, by, options.against), by))
        _print_others(records, form, options)
    total = planned.total(plan)
    if len(records) < total:
        print(f"{len(records):,} of the {total:,} samples of the whole run are in this file", file=sys.stderr)


def _listed(record):
    return {name: record[name] for name in record if name not in NOT_LISTED} | {name: record[name] or None for name in ("refused", "trace")} | {"id": record["id"]}


def _print_grids(records, form, options):
    """A table for each task and method: of scores, or of differences to the method of --against."""
    drawn, against = 0, table.known(records, options.against, ["method"])
    what = f"mean difference to {printable(against)}" if against else "mean score"
    for task in sorted({record["task"] for record in records}):
        of_task = [record for record in records if record["task"] == task]
        for method in sorted({record["method"] for record in of_task} - {against}, key=table.order):
            cells = table.grid(of_task, method, against)
            if cells[0]:
                title = f"{printable(task)}, {printable(method)}: {what} (samples) by length and depth of the needle"
                put(("\n" if drawn else "") + COMMENTS[options.form] + title + "\n")
                put(form(table_text.grid_rows(*cells, signed=against is not None), ("length",)))
                drawn += 1
    if not drawn and against:
        raise KvloupeError("there is no grid of differences", f"no other method has scored needles that {against} has, too",
                           "add a method to the evaluation, or leave --against out")
    if not drawn:
        raise KvloupeError("there is no grid", "no sample has a length and a depth", "run kvloupe_niah or kvloupe_passkey, or leave --grid out")


def _print_others(records, form, options):
    """Below the table; in CSV there is one table alone."""
    if options.form != "csv":
        _print_perplexities(records, form, options.against, "\n")
    elif table.perplexity_rows(records):
        print("the perplexities of these results are a table of their own: give --perplexities", file=sys.stderr)


def _print_perplexities(records, form, against, before=""):
    """Whether there are any."""
    rows = table.perplexity_rows(records, against)
    if rows:
        put(before + form(rows, ("task", "method", "metric")))
    return bool(rows)


def run_merge(options):
    if os.path.exists(options.output) and not options.force:
        raise KvloupeError(f"{options.output} exists already", "nothing is replaced unasked", "give --force or another name by -o")
    runs, merged, plans, every = [], {}, [], []
    for path in options.parts:
        run, records, plan = read_results(path)
        if runs and run != runs[0]:
            raise KvloupeError("these results cannot be joined", f"{path} has another {differing(run, runs[0])} than {options.parts[0]}",
                               "join runs of one model with the same options")
        runs.append(run)
        plans.append(plan)
        every += records
        for record in records:
            other = merged.get(record["id"])
            if other is None or other["refused"] or (record["trace"] and not other["trace"]):
                merged[record["id"]] = {**record, "trace": _moved(record["trace"], path, options.output)}
    check_joined(every)
    records = sorted(merged.values(), key=lambda record: (record["task"], record["doc"], table.order(record["method"])))
    whole = planned.joined(plans, records)
    write_results(options.output, runs[0], records, whole)
    _warn_of_traces(records, options.output)
    put(f"{options.output}: {len(records):,} of {planned.total(whole):,} samples")


def _moved(trace, before, now):
    """A trace stays where it is; its path is relative to the results."""
    if not trace:
        return ""
    folders = [os.path.dirname(os.path.abspath(path)) for path in (before, now)]
    return os.path.relpath(os.path.join(folders[0], trace), folders[1])


def _warn_of_traces(records, output):
    """The window opens what lies below the results alone: a file may be anyone's, and name any other."""
    outside = sum(record["trace"].split(os.sep)[0] == os.pardir for record in records)
    if outside:
        print(f"warning: the window opens the traces of {outside:,} samples not from {output}; they lie outside of its folder; "
              "write the joined file into a folder above both", file=sys.stderr)
