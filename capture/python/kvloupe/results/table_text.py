"""Tables as text: Markdown, CSV and LaTeX. Texts of files go to a terminal, so none of them does anything there."""
import csv
import io
import math

from ..printable import printable

HEADS = {"samples": "samples", "score": "score", "low": "95 % from", "high": "to", "refused": "refused", "relative": "of dense",
         "difference": "difference", "better": "better", "worse": "worse", "p": "p", "kept": "kept", "prompt_tokens": "prompt",
         "prefill_s": "prefill s", "decode_s": "decode s", "trace": "trace"}
DIGITS = {"score": 3, "low": 3, "high": 3, "relative": 3, "difference": 3, "kept": 1, "prompt_tokens": 0, "prefill_s": 2, "decode_s": 2, "p": 4}
OF_INTERVAL = ("score", "low", "high")
LATEX = {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}",
         "^": r"\textasciicircum{}"}


def markdown(rows, by):
    names = _shown(rows, by)
    lines = [[HEADS.get(name, name) for name in names], ["---" if name in by else "---:" for name in names]]
    lines += [[cell.replace("|", "\\|") for cell in _cells(names, row)] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latex(rows, by):
    """For the package booktabs."""
    names = _shown(rows, by)
    columns = "".join("l" if name in by else "r" for name in names)
    lines = [r"\begin{tabular}{" + columns + "}", r"\toprule", _latex_line([HEADS.get(name, name) for name in names]), r"\midrule"]
    lines += [_latex_line(_cells(names, row)) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def comma_separated(rows, by):
    """All columns, numbers as they are; nothing where a number is not known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = list(rows[0]) if rows else list(by)
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if _is_unknown(row[name]) else printable(row[name]) if isinstance(row[name], str) else row[name] for name in names])
    return out.getvalue().rstrip("\n")


def grid_rows(lengths, depths, cells, signed=False):
    """As rows with a column a depth."""
    form = "{:+.2f} ({})" if signed else "{:.2f} ({})"
    heads = [f"{depth:g} %" for depth in depths]
    return [{"length": length, **{head: "" if count == 0 else form.format(mean, count) for head, (mean, count) in zip(heads, row)}}
            for length, row in zip(lengths, cells)]


def _shown(rows, by):
    """Columns in which something stands."""
    names = [name for name in (rows[0] if rows else by) if name in by or name not in HEADS or any(not _is_unknown(row[name]) for row in rows)]
    order = [*by, *(name for name in HEADS if name in names)]
    return [name for name in order if name in names] + [name for name in names if name not in order]


def _is_unknown(value):
    return value is None or (isinstance(value, float) and math.isnan(value))


def _cells(names, row):
    digits = DIGITS | dict.fromkeys(OF_INTERVAL, _digits_of_interval(row))
    return [_cell(name, row[name], digits) for name in names]


def _digits_of_interval(row):
    """Half of the interval has two digits that count; those after them would say what nobody knows."""
    half = (row.get("high", math.nan) - row.get("low", math.nan)) / 2
    return max(0, 1 - math.floor(math.log10(half))) if half > 0 else DIGITS["score"]


def _cell(name, value, digits):
    if _is_unknown(value):
        return ""
    if isinstance(value, float):
        return f"{value:,.{digits[name]}f}" if name in digits else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and name not in ("seed", "length", "budget") else printable(str(value))


def _latex_line(cells):
    return " & ".join("".join(LATEX.get(letter, letter) for letter in cell) for cell in cells) + r" \\"
