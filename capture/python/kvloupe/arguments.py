"""What options of the command line mean. A value that means nothing is a wrong use: one sentence, exit code 2."""
import argparse

from .errors import KvloupeError
from .header import MOST
from .layout import STORES
from .query_choice import WORDS as QUERIES
from .query_choice import QueryChoice


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """Ours are a sentence with a reason and an advice; argparse puts the option's name before it."""
        sentence = message.split(": ", 1)[-1]
        if sentence.count("; ") != 2:
            sentence = f"{self.prog} cannot be run like this; {message}; {self.prog} --help lists the options"
        self.exit(2, f"error: {sentence}\n")


def wrong(what, why, what_to_do):
    return argparse.ArgumentTypeError(f"{what}; {why}; {what_to_do}")


def number(option, text, least, most=None):
    if not text.isascii() or not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        raise wrong(f"{option} cannot take '{text}'", f"it takes a number from {least} {'on' if most is None else f'to {most}'}", f"write it as in {option} 128")
    return int(text)


def chunk_size(text):
    return number("--chunk-size", text, 1)


def budget(text):
    return number("--budget", text, 1)


def seconds(text):
    return number("--time-limit", text, 1)


def mebibytes(text):
    return number("--memory-limit", text, 1) << 20


def new_tokens(text):
    return number("--max-new-tokens", text, 0)


def scale(text):
    return _real("--scale", text)


def rope_theta(text):
    return _real("--rope-theta", text)


def _real(option, text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise wrong(f"{option} cannot take '{text}'", "it takes a number above 0", f"write it as in {option} 0.125")
    return value


# Of `import`: what belongs to selections, and what to q, k and v.
OF_SELECTIONS, OF_ARRAYS = ("file", "name", "note"), ("k", "v", "ids", "texts", "chunk_size", "scale", "rope_theta", "model", "dtype", "force", "output")


def check_import(options):
    """Exits with 2 where options of both are given, or one lacks what it needs."""
    from_trace = options.trace is not None
    needs, others = (("file", "name"), OF_ARRAYS) if from_trace else (("k", "v", "output"), OF_SELECTIONS)
    words = {"file": "a file of selections", "output": "-o T.h5"}
    missing = [name for name in needs if not getattr(options, name)]
    beside = [name for name in others if getattr(options, name)]
    if missing or beside:
        named = ", ".join(words.get(name, "--" + name.replace("_", "-")) for name in missing or beside)
        this = "--trace" if from_trace else "--q"
        Parser(prog="python -m kvloupe import").error(f"import {this} {'needs' if missing else 'does not take'} {named}; selections have --trace and --name, arrays --q, --k, --v and -o; "
                                                      "docs/import.md shows both")


def add_merge(commands, name, summary, noun, metavar, run):
    merge = commands.add_parser(name, help=summary)
    merge.add_argument("parts", nargs="+", metavar="PART")
    merge.add_argument("--force", action="store_true", help=f"replace an existing {noun}")
    merge.add_argument("-o", dest="output", required=True, metavar=metavar)
    merge.set_defaults(run=run)


def layers(text):
    return _numbers("--layers", "layers", text, MOST["num_layers"])


def heads(text):
    return _numbers("--heads", "KV heads", text, MOST["num_kv_heads"])


def _numbers(option, nouns, text, most):
    """Ascending numbers; None for all."""
    def is_one(word):
        return word.isascii() and word.isdecimal() and len(word) < 10 and int(word) < most

    if text == "all":
        return None
    found = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (is_one(first) and is_one(last) and int(first) <= int(last)):
            raise wrong(f"{option} cannot take '{text}'", f"it takes numbers of {nouns} and ranges of them",
                         f"write it as in {option} 3, 0-3, 3,7 or all")
        found.update(range(int(first), int(last) + 1))
    return sorted(found)


def layers_in_order(text):
    """Of an array's axis: named as it has them, which is ascending."""
    found = layers(text)
    named = [int(part.partition("-")[0]) for part in text.split(",")] if found is not None else []
    if named != sorted(named):
        raise wrong(f"--layers cannot take '{text}'", "the arrays have the layers in ascending order", "sort both")
    return found


def chunks(text):
    try:
        QueryChoice(chunks=text)
    except KvloupeError:
        raise wrong(f"--chunks cannot take '{text}'", "it names the chunks whose queries are stored", "write it as in --chunks every:4 or --chunks 8-15") from None
    return text


def store(text):
    words = text.split(",")
    for word in words:
        if word not in STORES:
            raise wrong(f"--store cannot take '{word}'", f"it takes a list of {', '.join(STORES[:-1])} and {STORES[-1]}",
                         "write it as in --store qkv,lse")
    return tuple(dict.fromkeys(words))


def named_text(text):
    name, _, words = text.partition("=")
    if not name or not words:
        raise wrong(f"--span cannot take '{text}'", "it takes a name and the text that it stands for",
                     'write it as in --span answer="the text"')
    return name, words


class Named(argparse.Action):
    """Gathers (name, text) pairs."""

    def __call__(self, parser, options, pair, option=None):
        name, text = pair
        gathered = dict(getattr(options, self.dest))
        if name in gathered:
            raise argparse.ArgumentError(self, f"--span names {name} twice; a name stands for one text; give the second another name")
        gathered[name] = text
        setattr(options, self.dest, gathered)
