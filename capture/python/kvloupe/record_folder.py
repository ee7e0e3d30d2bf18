"""Runs a folder's model on a prompt, chunk by chunk, and records it. Needs torch and transformers."""
import sys
import time

import torch
import transformers

from . import open as open_trace
from . import record
from .errors import KvloupeError
from .model_info import text_config
from .size_estimate import estimate, words
from .text_spans import find_spans
from .token_text import TokenText


def record_folder(options, prompt):
    """options as of python -m kvloupe record; prompt is a text or a list of messages."""
    tokenizer = load(options, transformers.AutoTokenizer.from_pretrained, options.model)
    ids = token_ids(tokenizer, prompt, options.raw)
    texts = TokenText(tokenizer)
    spans = find_spans(options.spans, [texts.bytes_of(id) for id in ids[0].tolist()])
    model = load_model(options)
    recording = record(model, options.output, tokenizer=tokenizer, chunk_size=options.chunk_size, layers=options.layers,
                       dtype=options.dtype, store=options.store, spans=spans, force=options.force, hash=options.hash,
                       heads=options.heads, queries=options.queries, chunks=options.chunks)
    recording.expect(ids.shape[1], max(0, options.max_new_tokens - 1))
    sizes = estimate(model, ids.shape[1], new_tokens=options.max_new_tokens, chunk_size=options.chunk_size, layers=options.layers,
                     dtype=options.dtype, store=options.store, heads=options.heads, queries=options.queries, chunks=options.chunks)
    print(words(sizes, ids.shape[1] + max(0, options.max_new_tokens - 1), len(options.layers) if options.layers else text_config(model).num_hidden_layers),
          file=sys.stderr)
    needs_logits = bool({"loss", "probe"} & set(options.store or ()))
    begin = time.monotonic()
    try:
        with torch.inference_mode(), recording:
            run(model, ids.to(model.device), options.chunk_size, options.max_new_tokens, needs_logits)
    except KeyboardInterrupt:
        print(f"error: the recording was stopped; you pressed Ctrl+C; {what_is_left(options.output, ids.shape[1])}", file=sys.stderr)
        raise
    report(options.output, time.monotonic() - begin)


def load(options, function, *arguments, **more):
    try:
        return function(*arguments, **more)
    except (OSError, ValueError, ImportError) as error:
        raise KvloupeError(f"cannot load {options.model}", " ".join(str(error).split()), "check the folder") from None


def load_model(options):
    model = load(options, transformers.AutoModelForCausalLM.from_pretrained, options.model, dtype=options.compute,
                 attn_implementation=options.attention, device_map="auto" if options.device == "auto" else None)
    if options.device == "auto":
        return model.eval()
    try:
        return model.to(options.device).eval()
    except (RuntimeError, AssertionError) as error:
        raise KvloupeError(f"--device {options.device} cannot be used", " ".join(str(error).split()), "give cpu or auto") from None


def what_is_left(path, num_tokens):
    try:
        with open_trace(path) as trace:
            return f"{path} holds {trace.num_tokens:,} of {num_tokens:,} tokens: open it as it is, or record again with --force"
    except KvloupeError:
        return "nothing was recorded: run it again"


def report(path, seconds):
    with open_trace(path) as trace:
        info = trace.info
    print(path)
    print(f"{info['tokens']:,} tokens in {info['chunks_done']:,} chunks, {len(info['layers'])} of {info['model']['num_layers']} layers, "
          f"{info['bytes'] / 2**20:.1f} MiB, recorded in {seconds:.1f} s")


def token_ids(tokenizer, prompt, raw):
    """[1, tokens]"""
    if raw and not isinstance(prompt, str):
        raise KvloupeError("--raw cannot be used", "messages need a chat template", "give --prompt-file, or leave --raw out")
    if raw:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    else:
        if tokenizer.chat_template is None:
            raise KvloupeError("the prompt cannot be wrapped", "the model has no chat template", "give --raw")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        try:
            text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # A template is a program: it raises what it likes.
            raise KvloupeError("the chat template failed", " ".join(str(error).split()), "give --raw") from None
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    if ids.shape[1] == 0:
        raise KvloupeError("there is nothing to run", "the prompt has no tokens", "give a longer prompt")
    return ids


def run(model, ids, chunk_size, max_new_tokens, needs_logits):
    cache = transformers.DynamicCache(config=model.config)
    kept = 0 if needs_logits else 1  # 0: of all tokens
    # The last forward has two tokens at least: one alone would be a decoded token.
    last = max(0, (ids.shape[1] - 2) // chunk_size * chunk_size)
    for at in range(0, last, chunk_size):
        model(input_ids=ids[:, at : at + chunk_size], past_key_values=cache, logits_to_keep=kept)
    if max_new_tokens == 0:
        model(input_ids=ids[:, last:], past_key_values=cache, logits_to_keep=kept)
    else:
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=cache, max_new_tokens=max_new_tokens,
                       do_sample=False, **(dict(logits_to_keep=0) if needs_logits else {}))
