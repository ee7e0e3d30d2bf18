"""Spans that the user names by their text (--span NAME=TEXT), found as the program's own capture finds them."""
import bisect

from .errors import KvloupeError


def find_spans(named, pieces):
    """{name: (begin, end)}: the tokens that hold a byte of the text, wherever it stands: NAME, then NAME.2, NAME.3 and so on.

    named: {name: text}; pieces: the bytes of each token of the prompt.
    """
    whole, begins = b"".join(pieces), [0]
    for piece in pieces:
        begins.append(begins[-1] + len(piece))
    spans = {}
    for name, text in named.items():
        wanted, count = text.encode(), 0
        at = whole.find(wanted)
        while at >= 0:
            count += 1
            own = name if count == 1 else f"{name}.{count}"
            if own in spans:
                raise KvloupeError(f"--span {name} cannot be added", f"there is a span {own} already", "give it another name")
            spans[own] = (_token_at(begins, at), _token_at(begins, at + len(wanted) - 1) + 1)
            at = whole.find(wanted, at + len(wanted))
        if count == 0:
            raise KvloupeError(f"--span {name} marks nothing", f"the prompt does not hold the text {text!r}",
                               "write it as it stands in the prompt, white space and letter case included")
    return spans


def _token_at(begins, byte):
    """Tokens without bytes hold none."""
    return bisect.bisect_right(begins, byte) - 1
