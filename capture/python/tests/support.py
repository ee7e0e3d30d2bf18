"""What the tests share: tiny models, recordings of them, and the program."""
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import warnings

import torch
import transformers
from safetensors.torch import load_file

import kvloupe

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / "tests" / "data" / "models"
FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "smollm3", "gpt_oss", "olmoe", "gemma3_text"]
CHUNK = 16
STEPS = 3
# Files of the recordings that tests share; gone with the process.
SCRATCH = tempfile.TemporaryDirectory(prefix="kvloupe-")

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
warnings.filterwarnings("ignore", category=FutureWarning)
torch.set_num_threads(1)


def scratch(name):
    return pathlib.Path(SCRATCH.name) / name


@functools.lru_cache(maxsize=None)
def load_model(family, attention="eager"):
    model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / family, dtype=torch.float32, attn_implementation=attention)
    return model.float().eval()


@functools.lru_cache(maxsize=None)
def load_tokenizer(family):
    return transformers.AutoTokenizer.from_pretrained(MODELS / family)


@functools.lru_cache(maxsize=None)
def golden(family):
    return load_file(MODELS / family / "golden.safetensors")


def prompt(family):
    return golden(family)["input_ids"].long()[None]


def generate(model, ids, steps=STEPS, **options):
    with torch.no_grad():
        return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=steps + 1, do_sample=False,
                              eos_token_id=None, pad_token_id=0, **options)


def recorded(family, dtype="float32", attention="eager"):
    """The path of a trace of the golden prompt and three decoded tokens."""
    path = scratch(f"{family}-{dtype}-{attention}.h5")
    if path.exists():
        return path
    model = load_model(family, attention)
    with kvloupe.record(model, path, tokenizer=load_tokenizer(family), chunk_size=CHUNK, dtype=dtype, spans={"needle": (3, 7)}):
        generate(model, prompt(family))
    return path


def program(*arguments, expect=0):
    """Standard output of the program."""
    command = [os.environ["KVLOUPE_PROGRAM"], *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != expect:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def program_json(*arguments):
    return json.loads(program(*arguments, "--json"))


def plain_softmax(q, k, scale, window=0, softcap=0.0, sinks=None):
    """Row by row and head by head in fp64: (probabilities [H, T, T], lse [H, T])."""
    import numpy as np
    q, k = np.asarray(q, np.float64), np.asarray(k, np.float64)
    heads, tokens = q.shape[:2]
    p, lse = np.zeros((heads, tokens, tokens)), np.zeros((heads, tokens))
    for h in range(heads):
        for t in range(tokens):
            first = max(0, t - window + 1) if window else 0
            logits = np.array([scale * q[h, t] @ k[h * len(k) // heads, j] for j in range(first, t + 1)])
            if softcap:
                logits = softcap * np.tanh(logits / softcap)
            total = np.exp(logits).sum() + (np.exp(float(sinks[h])) if sinks is not None else 0.0)
            lse[h, t] = np.log(total)
            p[h, t, first : t + 1] = np.exp(logits) / total
    return p, lse
