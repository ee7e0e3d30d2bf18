"""What the tests of kvloupe.sparse share: runs in closed loop by the program and by transformers, and a plain attention."""
import functools
import math
import sys
import unittest.mock

import h5py
import numpy as np
import torch

import kvloupe

from .selector_cases import CHUNK, prompt
from .support import MODELS, generate, load_model, load_tokenizer, program, scratch

STEPS = 4
CELLS = ("offsets", "positions", "flags", "evict_chunk", "lane_counts", "block_mask", "block_forced", "block_abstains", "table_indptr", "table_indices")


class ClosedLoop:
    """What `kvloupe capture --closed-loop` writes of a text."""

    def __init__(self, family, spec):
        path = scratch("closed-loop.h5")
        program("capture", "--model", MODELS / family, "--prompt-file", prompt(), "--raw", "--chunk-size", CHUNK, "--max-new-tokens", STEPS,
                "--store", "qkv,lse,loss", "--dtype", "f32", "--threads", 1, "--closed-loop", spec, "-o", path, "--force")
        with h5py.File(path, "r", locking=False) as file:
            self.cells, self.about = cells_of(file), dict(file["runs/0"].attrs)
            ids, self.losses = file["tokens/ids"][:].tolist(), file["tokens/nll"][:]
            count = int((file["chunks/length"][:] * (file["chunks/phase"][:] == 0)).sum())
            self.generated = file["tokens/generated"][:].tolist() if "tokens/generated" in file else []
        self.ids, self.losses = torch.tensor([ids[:count]]), self.losses[1:count]


def cells_of(file):
    """{layer: {name: array}} of run 0."""
    return {int(layer): {name: group[name][:] for name in CELLS if name in group} for layer, group in file["runs/0/layers"].items()}


@functools.lru_cache(maxsize=None)
def text():
    """Token ids of the prompt, for the model qwen3."""
    return torch.tensor([load_tokenizer("qwen3")(prompt().read_text())["input_ids"]])


def recorded(family, method, ids, steps=STEPS, **options):
    """A path, the logits of all tokens of the prompt, and the new tokens of a sparse run."""
    path = scratch("sparse.h5")
    path.unlink(missing_ok=True)
    with kvloupe.sparse(load_model(family), method, chunk_size=CHUNK, record=path, tokenizer=load_tokenizer(family), **options):
        result = generate(load_model(family), ids, steps=steps - 1, logits_to_keep=0, output_logits=True, return_dict_in_generate=True)
    return path, result.sequences[0, ids.shape[1] :].tolist()


def logits_of(family, method, ids, chunk_size=CHUNK, attention="eager", **options):
    model = load_model(family, attention)
    with kvloupe.sparse(model, method, chunk_size=chunk_size, tokenizer=load_tokenizer(family), **options), torch.no_grad():
        return model(ids).logits[0]


def losses_of(logits, ids):
    return (logits[:-1].logsumexp(-1) - logits[:-1].gather(-1, ids[0, 1:, None])[:, 0]).numpy()


def attend_plainly(path, model, ids):
    """Logits of an eager model whose own attention is given the trace's sets as a mask, key by key."""
    module = sys.modules[type(model).__module__]
    own = module.eager_attention_forward
    with kvloupe.open(path) as trace:
        run, heads = trace.runs[0], trace.model["num_q_heads"]
        masks = {layer: plain_mask(trace, run, layer, heads, ids.shape[1]) for layer in run.layers}
        for layer in masks:
            hide_blocks(path, trace.chunks, layer, masks[layer][0])

    def attention(module, query, key, value, mask, **arguments):
        return own(module, query, key, value, masks[module.layer_idx], **arguments)

    with unittest.mock.patch.object(module, "eager_attention_forward", attention), torch.no_grad():
        return model(ids).logits[0]


def plain_mask(trace, run, layer, heads, count):
    """[1, q heads, count, count]: 0 where a query sees a key."""
    mask, window = np.full((heads, count, count), -math.inf, np.float32), trace.layer(layer).window
    for index, chunk in enumerate(trace.chunks):
        for head in range(heads) if chunk.begin < count else ():
            kept = set(run.selected(layer, index, head // run.q_heads_per_row).tolist())
            for at in range(chunk.begin, chunk.end):
                for key in range(max(0, at - window + 1) if window else 0, at + 1):
                    if key == at or (key in kept if run.budget_scope == "all" else key >= chunk.begin or key in kept):
                        mask[head, at, key] = 0
    return torch.from_numpy(mask)[None]


def native_blocks(path, layer):
    """{chunk: {(q head, query block of the text): its key blocks}} of a run whose masks are what is attended to, else {}: bit by bit, as
    FORMAT.md says."""
    with h5py.File(path, "r", locking=False) as file:
        run, chunks = file["runs/0"], zip(file["chunks/begin"][:].tolist(), file["chunks/length"][:].tolist())
        if run.attrs.get("lowering") != "native":
            return {}
        stored, size, heads, at, kept = run[f"layers/{layer}/block_mask"][:].tolist(), int(run.attrs["block_size"]), int(file["model"].attrs["num_q_heads"]), 0, {}
    for chunk, (begin, length) in enumerate(chunks):
        blocks = math.ceil((begin + length) / size)
        for head in range(heads):
            for own in range(begin // size, blocks):
                row = stored[at : at + math.ceil(blocks / 8)]
                kept.setdefault(chunk, {})[head, own] = {block for block in range(blocks) if row[block // 8] >> block % 8 & 1}
                at += len(row)
    assert at == len(stored)
    return kept


def hide_blocks(path, chunks, layer, mask):
    """Hides what a query block does not attend to, key by key."""
    with h5py.File(path, "r", locking=False) as file:
        size = int(file["runs/0"].attrs.get("block_size", 0))
    for chunk, kept in native_blocks(path, layer).items():
        for (head, own), blocks in kept.items():
            for query in range(max(chunks[chunk].begin, own * size), min(chunks[chunk].end, (own + 1) * size, mask.shape[1])):
                for key in range(query + 1):
                    if key // size not in blocks:
                        mask[head, query, key] = -math.inf
