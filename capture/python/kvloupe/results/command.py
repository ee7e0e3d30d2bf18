"""python -m kvloupe results and merge-results."""
import os
import sys

from ..errors import KvloupeError
from . import table, table_text
from .results_file import read_results, write_results

FORMS = {"csv": table_text.comma_separated, "latex": table_text.latex, "markdown": table_text.markdown}


def run_results(options):
    _, records, total = read_results(options.results)
    if not records:
        raise KvloupeError(f"{options.results} has no samples", "none was run", "run the evaluation with --resume")
    form = FORMS[options.form]
    if options.samples:
        print(form([{name: record[name] for name in record if name not in ("metrics", "id")} for record in records], ("task", "doc", "method")))
    elif options.grid:
        _print_grids(records, form, options.form)
    else:
        print(form(table.rows_of(records, options.by, options.against), options.by))
        _print_perplexities(records, form)
    if len(records) < total:
        print(f"{len(records):,} of the {total:,} samples of the whole run are in this file", file=sys.stderr)


def _print_grids(records, form, name):
    """A table for each task and method."""
    drawn = 0
    for task in sorted({record["task"] for record in records}):
        of_task = [record for record in records if record["task"] == task]
        for method in sorted({record["method"] for record in of_task}, key=lambda method: (method != "dense", method)):
            cells = table.grid(of_task, method)
            if cells[0]:
                print(("" if drawn == 0 else "\n") + {"markdown": "", "latex": "% ", "csv": "# "}[name] + f"{task}, {method}: mean score (samples) by length and depth of the needle\n")
                print(form(table_text.grid_rows(*cells), ("length",)))
                drawn += 1
    if not drawn:
        raise KvloupeError("there is no grid", "no sample has a length and a depth", "run kvloupe_niah or kvloupe_passkey, or leave --grid out")


def _print_perplexities(records, form):
    rows = [{"task": task, "method": method, "metric": metric, "value": value} for (task, method), metrics in sorted(table.perplexities(records).items()) for metric, value in metrics.items()]
    if rows:
        print("\n" + form(rows, ("task", "method")))


def run_merge(options):
    if os.path.exists(options.output) and not options.force:
        raise KvloupeError(f"{options.output} exists already", "nothing is replaced unasked", "give --force or another name by -o")
    runs, merged, total = [], {}, 0
    for path in options.parts:
        run, records, of_whole = read_results(path)
        if runs and run != runs[0]:
            other = sorted(name for name in {**run, **runs[0]} if run.get(name) != runs[0].get(name))
            raise KvloupeError("these results cannot be joined", f"{path} has another {', '.join(other)} than {options.parts[0]}", "join runs of one model with the same options")
        runs.append(run)
        total = max(total, of_whole)
        for record in records:
            merged.setdefault(record["id"], record)
    records = sorted(merged.values(), key=lambda record: (record["task"], record["doc"], record["method"] != "dense", record["method"]))
    write_results(options.output, runs[0], records, max(total, len(records)))
    print(f"{options.output}: {len(records):,} of {max(total, len(records)):,} samples")
