"""Samples are joined where all that decides over their answers is the same."""
from ..errors import KvloupeError

WORDS = {"model_files": "configuration or tokenizer of the model"}


def check_same(path, before, run):
    """A run goes on with its own samples alone."""
    if before == {name: value for name, value in run.items() if name != "model_files"} != run:
        raise KvloupeError(f"{path} cannot be gone on with", "it does not say which configuration and tokenizer its model had",
                           "give another file by -o")
    if before != run:
        raise KvloupeError(f"{path} cannot be gone on with", f"it is of a run with another {differing(before, run)}",
                           "give the options that it was begun with, or another file by -o")


def differing(one, other):
    """Names of what differs, as the user knows them."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return "form"
    names = []
    for name in sorted({*one, *other}):
        values = one.get(name), other.get(name)
        if values[0] == values[1]:
            continue
        if all(isinstance(value, dict) for value in values) and name in ("options", "versions"):
            parts = [part for part in sorted({*values[0], *values[1]}) if values[0].get(part) != values[1].get(part)]
            names += [f"--{part.replace('_', '-')}" if name == "options" else f"version of {part}" for part in parts]
        else:
            names.append(WORDS.get(name, name))
    return ", ".join(names)
