"""Runs a folder's model on a prompt, chunk by chunk, and records it. Needs torch and transformers."""
import torch
import transformers

from . import record
from .errors import KvloupeError


def record_folder(options, prompt, layers):
    """options as of python -m kvloupe record; prompt is a text or a list of messages."""
    tokenizer, model = load(options)
    ids = token_ids(tokenizer, prompt, options.raw)
    recording = record(model, options.output, tokenizer=tokenizer, chunk_size=options.chunk_size, layers=layers, dtype=options.dtype,
                       force=options.force)
    with torch.inference_mode(), recording:
        run(model, ids.to(model.device), options.chunk_size, options.max_new_tokens)


def load(options):
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            options.model, dtype=options.compute, attn_implementation=options.attention,
            device_map="auto" if options.device == "auto" else None)
    except (OSError, ValueError, ImportError) as error:
        raise KvloupeError(f"cannot load {options.model}", " ".join(str(error).split()), "check the folder") from None
    return tokenizer, (model if options.device == "auto" else model.to(options.device)).eval()


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


def run(model, ids, chunk_size, max_new_tokens):
    cache = transformers.DynamicCache(config=model.config)
    # The last forward has two tokens at least: one alone would be a decoded token.
    last = max(0, (ids.shape[1] - 2) // chunk_size * chunk_size)
    for at in range(0, last, chunk_size):
        model(input_ids=ids[:, at : at + chunk_size], past_key_values=cache, logits_to_keep=1)
    if max_new_tokens == 0:
        model(input_ids=ids[:, last:], past_key_values=cache, logits_to_keep=1)
    else:
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=cache,
                       max_new_tokens=max_new_tokens, do_sample=False)
