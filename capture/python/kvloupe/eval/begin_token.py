"""The token that a model reads before a text without context: its begin token, or its end token where it has none. The program tells nobody
what it is called, so its text is taken from the model's files."""
import json
import pathlib
import struct

NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd"))  # GGUF's types, as struct knows them
TEXT, LIST = 8, 9
KINDS = ("bos", "eos")
FILES = ("tokenizer_config.json", "special_tokens_map.json")
MOST_ID = (1 << 31) - 1  # Some files write the largest number where there is no such token.


def begin_token(model):
    """Its text, or None where the files do not say it. The program has read them without complaint."""
    path = pathlib.Path(model)
    try:
        return _of_folder(path) if path.is_dir() else _of_gguf(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error):
        return None


def _of_folder(folder):
    settings = [json.loads((folder / name).read_text()) for name in FILES if (folder / name).exists()]
    named = [each.get(f"{kind}_token") for kind in KINDS for each in settings]
    return next(filter(None, (each.get("content") if isinstance(each, dict) else each for each in named)), None)


def _of_gguf(path):
    with open(path, "rb") as file:
        known = _metadata(file)
    ids = [known.get(f"tokenizer.ggml.{kind}_token_id", -1) for kind in KINDS]
    chosen = next((each for each in ids if 0 <= each <= MOST_ID), None)
    return None if chosen is None else known["tokenizer.ggml.tokens"][chosen].decode()


def _metadata(file):
    if file.read(4) != b"GGUF" or _number(file, "I") < 2:
        return {}
    _number(file, "Q")  # tensors
    return {_text(file).decode(): _value(file, _number(file, "I")) for _ in range(_number(file, "Q"))}


def _value(file, kind):
    if kind == TEXT:
        return _text(file)
    if kind == LIST:
        kind, count = _number(file, "I"), _number(file, "Q")
        return [_value(file, kind) for _ in range(count)]
    return _number(file, NUMBERS[kind])


def _text(file):
    return file.read(_number(file, "Q"))


def _number(file, form):
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
