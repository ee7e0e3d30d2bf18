"""The program's own numbers and figures: what `kvloupe compare`, `explain` and `latency` print, as tables, and what `export` draws.

Nothing is computed here, so a number in Python is the number of the command line and of the window.
"""
import json
import os
import subprocess

from .errors import KvloupeError
from .installed import program
from .runs import Run


PLACES = ("all", "layer", "kv_head", "chunk")


class Records(list):
    """The rows of a table, a dictionary each; `attrs` is what the program says beside them."""

    def __init__(self, rows, attrs):
        super().__init__(rows)
        self.attrs = attrs


def compare(trace, methods, *, sweep=None, scope="all", **options):
    """`kvloupe compare --json`: a row for each method and phase.

        kvloupe.compare("t.h5", ["quoka", "snapkv"], span="needle", sweep={"budget_tokens": [64, 128, 256]})

    trace      an open trace or its path
    methods    a SPEC, a run of the trace, or a list of them
    sweep      {parameter: values}
    scope      the places that have a row each: "all" is their mean, "layer", "kv_head" and "chunk" one of a kind, "layer,kv_head"
               each pair; or a list of these. Columns of their names say which
    options    those of the command by their names, as layers=[3, 5], from_="question", chunks="12-15", cells="own", device="cuda:0"

    A DataFrame where pandas is installed, else Records. Raises KvloupeError with what the program says."""
    swept = [f"{name}={','.join(map(str, values))}" for name, values in (sweep or {}).items()]
    scopes = [",".join(sorted(one.split(","), key=_place)) for one in ([scope] if isinstance(scope, str) else scope)]
    named = [one for one in scopes if one not in PLACES]  # the others are always there
    answer = _json("compare", trace, method=_methods(methods, trace), sweep=swept or None, scope=named or None, **options)
    rows = [row for row in answer.pop("rows") if row["scope"] in scopes]
    if not rows:
        raise KvloupeError("there is nothing to compare", f"no row has the scope {' or '.join(scopes)}", 'give scope="all", "layer", "layer,kv_head"')
    for row in rows:
        if row["scope"] != "all":
            index = row["index"] if isinstance(row["index"], list) else [row["index"]]
            row.update(zip(row["scope"].split(","), index))
    return _table(rows, answer)


def _place(name):
    """In the order in which the program names them."""
    return PLACES.index(name) if name in PLACES else len(PLACES)


def explain(trace, method, **options):
    """`kvloupe explain --json` of a key (layer=, chunk=, kv_head= or q_head=, key=) or of a span (span="needle"): a dictionary."""
    return _json("explain", trace, method=_methods(method, trace), **options)


def worst(trace, method, n=20, **options):
    """`kvloupe explain --worst N --json`: the lost keys of most true mass, a row each, as `compare` gives its rows. attrs["all"] and
    attrs["layers"] have the mass that was lost and its causes."""
    answer = _json("explain", trace, method=_methods(method, trace), worst=n, **options)
    return _table(answer.pop("keys"), answer)


def latency(trace, methods, **options):
    """`kvloupe latency --json`: how long the methods take on a cell beside dense attention, a row each, as `compare` gives its rows."""
    answer = _json("latency", trace, method=_methods(methods, trace), **options)
    return _table(answer.pop("rows"), answer)


class Figure:
    """A picture of a view. A notebook shows it; `data` holds its bytes and `save` writes them."""

    def __init__(self, data, form):
        self.data, self.form = data, form

    def save(self, path):
        with open(path, "wb") as file:
            file.write(self.data)

    def _repr_svg_(self):
        return self.data.decode() if self.form == "svg" else None

    def _repr_png_(self):
        return self.data if self.form == "png" else None


def figure(trace, view, *, method=None, goto=None, form="svg", **options):
    """`kvloupe export`: see Trace.figure."""
    if form not in ("svg", "png"):
        raise KvloupeError(f"a figure has no form {form!r}", "a notebook shows SVG and PNG", 'give "svg" or "png", or call kvloupe export for others')
    if isinstance(goto, dict):
        goto = ",".join(f"{name}={value}" for name, value in goto.items())
    arguments = dict(view=view, method=_methods(method or [], trace) or None, goto=goto, **options)
    return Figure(_run("export", trace, arguments, [f"--{form}", "-"]), form)


def _methods(methods, trace):
    given = [methods] if isinstance(methods, (str, Run)) else list(methods)
    for method in given:
        if isinstance(method, Run) and os.path.realpath(method.trace_path) != os.path.realpath(_path_of(trace)):
            raise KvloupeError(f"run {method.id} is not of this trace", f"it is of {method.trace_path}", "give a run of the trace that is asked, or its name")
    return [f"run:{method.id}" if isinstance(method, Run) else method for method in given]


def _options(options):
    """--name value of each that is not None; a list of numbers is one value, a list of texts one option each."""
    arguments = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif value is not None and value is not False:
            value = [value] if isinstance(value, str) or not hasattr(value, "__iter__") else list(value)
            if not value:
                raise KvloupeError(f"{name} cannot be taken", "it is empty", "leave it out, or name something")
            if not all(isinstance(one, str) for one in value):
                value = [",".join(map(str, value))]
            arguments += [f"{flag}={one}" for one in value]
    return arguments


def _path_of(trace):
    return os.path.abspath(os.fspath(getattr(trace, "absolute_path", trace)))


def _run(command, trace, options, rest):
    """Standard output of the program."""
    arguments = [program(), command, _path_of(trace), *_options(options), *rest]
    try:
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (OSError, ValueError) as error:
        raise KvloupeError(f"kvloupe {command} cannot be run", str(error), "name the program's file in KVLOUPE_PROGRAM") from None
    if done.returncode == 0:
        return done.stdout
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    said = lines[-1].removeprefix("error: ") if lines else f"it ended with {done.returncode} and said nothing"
    parts = said.split("; ", 2)
    raise KvloupeError(*parts) if len(parts) == 3 else KvloupeError(f"kvloupe {command} failed", said, "report this with what you did")


def _json(command, trace, **options):
    return json.loads(_run(command, trace, options, ["--json"]))


def _table(rows, attrs):
    flat = [_flat(row) for row in rows]
    try:
        import pandas
    except ImportError:
        return Records(flat, attrs)
    table = pandas.DataFrame(flat)
    table.attrs = attrs
    return table


def _flat(row):
    """{"parts": {"select": 1}} as {"parts_select": 1}."""
    flat = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat.update({f"{name}_{inner}": of for inner, of in _flat(value).items()})
        else:
            flat[name] = value
    return flat
