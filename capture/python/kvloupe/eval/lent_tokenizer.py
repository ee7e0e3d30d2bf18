"""The engine's count of tokens, for tasks that make texts of a length (RULER, and those of this package)."""
import pathlib
import types

_engines = []


def lend(engine):
    """From now on tasks count by it."""
    _engines[:] = [engine]


def lend_to_ruler():
    """Its own function would look for files of a tokenizer. Loads transformers, as RULER does."""
    try:
        from lm_eval.tasks.ruler import common_utils
    except ImportError:
        return
    common_utils.get_tokenizer = lambda *_, **__: tokenizer
    # Else the harness would load the module once more for the first task file that names it.
    common_utils.__mtime__ = pathlib.Path(common_utils.__file__).stat().st_mtime_ns


def is_lent():
    return bool(_engines)


def tokenizer(text, **_):
    """As tokenizers of transformers are called; only how many ids there are is known."""
    return types.SimpleNamespace(input_ids=range(_engines[0].count(text)))
