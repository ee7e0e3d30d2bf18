"""What recording costs: processor time of a prefill alone and of the same prefill recorded, in turns. A script, no test:

    python -m tests.bench_record        in capture/python; --help lists the sizes

The model is a Llama of random weights, whose file's hash is known from the warm-up on. Attention is SDPA, and the prompt is one forward.
"""
import argparse
import os
import pathlib
import statistics
import tempfile
import time

import h5py
import torch
import transformers

import kvloupe


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(prefix="kvloupe-bench-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        model = make_model(options, pathlib.Path(folder) / "model")
        ids = torch.randint(0, model.config.vocab_size, (1, options.tokens), generator=torch.Generator().manual_seed(1))
        path = pathlib.Path(folder) / "t.h5"
        ways = {"prefill alone": None, "recorded, default store": None, "store qkv,lse": ("qkv", "lse"), "store qkv": ("qkv",)}
        seconds = {way: [] for way in ways}
        processor_time(lambda: prefill(model, ids))  # Warms up.
        time.sleep(3)  # A hash is kept of files that have been quiet.
        print(f"first recording, with the hash of {weights_size(folder)}: {processor_time(lambda: recorded(model, ids, path, None)):.1f} s")
        for _ in range(options.rounds):
            for way, store in ways.items():
                run = (lambda: prefill(model, ids)) if way == "prefill alone" else (lambda: recorded(model, ids, path, store))
                seconds[way].append(processor_time(run))
        recorded(model, ids, path, None)
        print_table(options, seconds, path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("tokens", 4096), ("layers", 6), ("hidden", 576), ("heads", 9), ("kv-heads", 3), ("feed-forward", 1536), ("vocabulary", 8192),
                        ("threads", 1), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    return parser.parse_args()


def make_model(options, folder):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=options.hidden, intermediate_size=options.feed_forward, num_hidden_layers=options.layers, num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads, head_dim=options.hidden // options.heads, vocab_size=options.vocabulary,
        max_position_embeddings=options.tokens)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa").eval()


def prefill(model, ids):
    with torch.inference_mode():
        model(ids, logits_to_keep=1)


def recorded(model, ids, path, store):
    with kvloupe.record(model, path, store=store, force=True):
        prefill(model, ids)


def processor_time(run):
    before = time.process_time()
    run()
    return time.process_time() - before


def weights_size(folder):
    return f"{sum(file.stat().st_size for file in pathlib.Path(folder).glob('model/*.safetensors')) / 2**20:.0f} MiB"


def print_table(options, seconds, path):
    alone = statistics.median(seconds["prefill alone"])
    print(f"{options.tokens} tokens, {options.layers} layers, hidden size {options.hidden}, {options.heads} query and {options.kv_heads} KV heads, "
          f"{options.threads} thread(s); medians of {options.rounds} rounds")
    for way, times in seconds.items():
        print(f"{way:24} {statistics.median(times):7.2f} s  {statistics.median(times) / alone:5.2f} x   ({min(times):.2f} to {max(times):.2f})")
    with h5py.File(path) as file:
        payload = []
        file.visititems(lambda _, item: payload.append(item.nbytes) if isinstance(item, h5py.Dataset) else None)
    size = path.stat().st_size
    print(f"file {size / 2**20:.1f} MiB, {100 * (size / sum(payload) - 1):.1f} % more than the values in it")


if __name__ == "__main__":
    main()
