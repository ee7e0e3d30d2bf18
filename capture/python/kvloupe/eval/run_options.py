"""What decides over answers beside task and method: the model, versions of what runs it, and options."""
import importlib.metadata
import json
import os
import pathlib
import subprocess

from lm_eval.utils import simple_parse_args_string

from ..errors import KvloupeError, one_line
from ..installed import program
from ..known_hashes import hash_of_files
from ..version import __version__
from ..weights_hash import hash_bytes, hash_of_folder, hash_of_other_weights, hash_of_small_files

NAMES = ("engine", "chunk_size", "device", "compute", "seed", "num_fewshot", "apply_chat_template", "fewshot_as_multiturn", "system_instruction",
         "gen_kwargs")
GREEDY = {"do_sample": False, "temperature": 0}


def run_of(options, model):
    """Samples of two runs are joined where it is the same."""
    path = pathlib.Path(model)
    chosen = {name: getattr(options, name) for name in NAMES}
    chosen["device"] = options.device.partition(":")[0]  # Which of several GPUs it was does not matter.
    chosen["fewshot_as_multiturn"] = as_turns(options)
    return {"model": path.name, **_hashes_of(path), "versions": _versions(options.engine), "options": chosen}


def _hashes_of(path):
    """A file holds all that a model is; of a folder, configuration and tokenizer have a hash of their own."""
    try:
        if not path.is_dir():
            return {"model_hash": hash_of_files([path], hash_bytes)}
        return {"model_hash": hash_of_folder(path) or hash_of_other_weights(path), "model_files": hash_of_small_files(path)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # Its index may hold anything.
        raise KvloupeError(f"the model {path} cannot be read", one_line(error), "check its files") from None


def _versions(engine):
    names = ["lm_eval", "datasets", *(["torch", "transformers"] if engine == "transformers" else [])]
    versions = {"kvloupe": __version__, **{name: importlib.metadata.version(name) for name in names}}
    if engine == "program":
        versions["program"] = _said_by_program("--version").strip()
    return versions


def _said_by_program(*arguments):
    try:
        return subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise KvloupeError("the program kvloupe cannot be asked", one_line(error), "name its file in KVLOUPE_PROGRAM") from None


def file_of(model):
    """A path, or what the program calls by this name."""
    if os.path.exists(model):
        return os.path.abspath(model)
    for entry in listed_models():
        if entry.get("name") == model:
            return entry["path"]
    raise KvloupeError(f"there is no model {model}", "it is neither a path nor a name that `kvloupe models` lists",
                       "name a GGUF file or a Hugging Face folder")


def listed_models():
    """What `kvloupe models` lists."""
    return json.loads(_said_by_program("models", "--json"))["models"]


def as_turns(options):
    """As the harness does: with a template examples are turns unless it is said otherwise."""
    if options.fewshot_as_multiturn and not options.apply_chat_template:
        raise KvloupeError("examples cannot be turns of a conversation", "there is none without a chat template",
                           "give --apply-chat-template, or leave --fewshot-as-multiturn out")
    return options.apply_chat_template if options.fewshot_as_multiturn is None else options.fewshot_as_multiturn


def generation(text):
    """--gen-kwargs; what would change nothing here is refused."""
    given = simple_parse_args_string(text) if text else {}
    for name, value in given.items():
        if name in GREEDY and (isinstance(value, str) or value is None or value != GREEDY[name]):
            raise _wrong(name, value, "answers are greedy here")
        if name == "max_gen_toks" and (type(value) is not int or value < 0):
            raise _wrong(name, value, "it takes a number from 0 on")
        if name not in (*GREEDY, "until", "max_gen_toks"):
            raise _wrong(name, value, "answers are greedy and no other setting changes them")
    if "until" in given:
        given["until"] = str(given["until"])
    return given or None


def _wrong(name, value, why):
    return KvloupeError(f"--gen-kwargs cannot take {name}={value}", why, "it takes until, max_gen_toks, do_sample=False and temperature=0")
