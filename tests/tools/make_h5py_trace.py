#!/usr/bin/env python3
"""Writes a tiny trace with h5py alone, from FORMAT.md: the check that the format does not need our writer.

    python3 make_h5py_trace.py tests/data/v1_h5py_tiny.h5

It needs h5py and numpy. On purpose it takes every liberty that FORMAT.md leaves to writers: fixed-length strings,
integers of odd widths and byte orders, contiguous and compressed storage, the file layout of HDF5 1.10, and no optional part.
tests/trace/h5py_test.cpp computes the same values again.
"""
import sys

import h5py
import numpy as np

NUM_LAYERS, NUM_Q_HEADS, NUM_KV_HEADS, HEAD_DIM = 4, 4, 2, 16
LENGTHS = [8, 8, 6, 1]
SCALE = 0.25
BLOCK = 5


def values(seed, heads, tokens):
    """Multiples of 1/8 in [-1, 1]: exact in half precision."""
    h, t, i = np.meshgrid(np.arange(heads), np.arange(tokens), np.arange(HEAD_DIM), indexing="ij")
    return ((h * 7 + t * 3 + i * 5 + h * t * i + seed) % 17 - 8) / 8.0


def log_sum_exp(q, k):
    group = NUM_Q_HEADS // NUM_KV_HEADS
    lse = np.zeros(q.shape[:2])
    for h in range(NUM_Q_HEADS):
        logits = SCALE * q[h] @ k[h // group].T
        for t in range(q.shape[1]):
            lse[h, t] = np.log(np.sum(np.exp(logits[t, : t + 1])))
    return lse


def keeps(head, own, block):
    """Whether the query block at block `own` attends to the block."""
    return block == own or (block < own and (block + head) % 3 == 0)


def write_block_run(f, begins):
    """Run 1: a block method with native masks and tables; decode is dense."""
    run = f.create_group("runs/1")
    run.attrs["method"] = "compact_attention:selector=xattention,subgroup_size=4,block_size=5,stride=1,tau=0.9"
    run.attrs["mode"] = np.bytes_("open_loop")
    run.attrs["row_axis"] = "kv_head"
    run.attrs["q_heads_per_row"] = 2
    run.attrs["granularity"] = "block"
    run.attrs["state_action"] = "visibility"
    run.attrs["decode"] = "dense"
    run.attrs["block_size"] = np.array([BLOCK], dtype=">i2")
    run.attrs["block_tables"] = np.bool_(True)
    for layer in (1, 3):
        offsets, positions, flags, indptr, indices, packed = [0], [], [], [0], [], []
        forced, abstains = [], []
        for begin, length in zip(begins, LENGTHS):
            first, blocks = begin // BLOCK, -(-(begin + length) // BLOCK)
            flag = 1 if begin == 0 else 2 if length == 1 else 0
            mask = np.array([[[j <= i if flag else keeps(h + layer, i, j) for j in range(blocks)]
                              for i in range(first, blocks)] for h in range(NUM_Q_HEADS)])
            packed.append(np.packbits(mask, axis=2, bitorder="little").ravel())
            # The own block of each query block is kept by rule; the last of several has no vote.
            own = np.array([[j == i for j in range(blocks)] for i in range(first, blocks)])
            own = np.broadcast_to(own & (flag == 0), mask.shape)
            forced.append(np.packbits(own, axis=2, bitorder="little").ravel())
            abstains += [int(flag == 0 and i > first and i + 1 == blocks) for i in range(first, blocks)]
            for row in range(NUM_KV_HEADS):
                kept = mask[2 * row : 2 * row + 2].any(axis=(0, 1))
                kept[first:] = True
                if not flag:
                    positions += [j for j in range(begin) if kept[j // BLOCK]]
                    indices += list(np.flatnonzero(kept))
                offsets.append(len(positions))
                indptr.append(len(indices))
                flags.append(flag)
        group = run.create_group(f"layers/{layer}")
        group["offsets"] = np.array(offsets, dtype="<i8")
        group["positions"] = np.array(positions, dtype="<i4")
        group["flags"] = np.array(flags, dtype=np.uint8)
        group["block_mask"] = np.concatenate(packed)
        group["block_mask"].attrs["block_size"] = np.uint8(BLOCK)
        group["block_forced"] = np.concatenate(forced).astype(">u2")
        group["block_abstains"] = np.array(abstains, dtype=np.bool_)
        group["table_indptr"] = np.array(indptr, dtype=">u2")
        group["table_indices"] = np.array(indices, dtype=np.int8)


def main(path):
    tokens = sum(LENGTHS)
    begins = np.cumsum([0] + LENGTHS[:-1])
    texts = [b"\xe2\x82", b"\xac is", b" a", b""] * tokens
    texts = texts[:tokens]
    with h5py.File(path, "w", libver=("v110", "v110")) as f:
        f.attrs["format"] = np.bytes_("kvloupe-trace")
        f.attrs["schema_version"] = np.bytes_("1.99")
        f.attrs["producer"] = "h5py"
        f.attrs["created"] = "2025-01-01T00:00:00Z"
        f.attrs["complete"] = np.bool_(True)
        f.attrs["chunks_done"] = np.array([len(LENGTHS)], dtype=">u2")
        f.attrs["mode"] = "closed_loop"
        f.attrs["a_later_minor_version"] = "unknown attributes are passed over"
        model = f.create_group("model")
        model.attrs["name"] = np.bytes_("plain")
        model.attrs["architecture"] = "llama"
        for name, number in [("num_layers", NUM_LAYERS), ("num_q_heads", NUM_Q_HEADS),
                             ("num_kv_heads", NUM_KV_HEADS), ("head_dim", HEAD_DIM), ("hidden_size", 64)]:
            model.attrs[name] = np.int16(number)
        model.attrs["softmax_scale"] = np.float32(SCALE)
        model.attrs["rope_theta"] = 10000
        model.attrs["rope_pairing"] = "half_split"
        model.attrs["rope_scaling"] = "none"
        model.attrs["file_hash"] = "0" * 64

        token_group = f.create_group("tokens")
        token_group["ids"] = np.arange(tokens, dtype=">i8") * 3
        token_group["text"] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        token_group["text_offsets"] = np.cumsum([0] + [len(t) for t in texts]).astype("<i4")
        spans = np.array([(b"needle", 2, 5)], dtype=[("name", "S12"), ("begin", "<i8"), ("end", ">i4")])
        token_group["spans"] = spans
        f["chunks/begin"] = begins.astype("<i8")
        f["chunks/length"] = np.array(LENGTHS, dtype=">i2")
        f["chunks/phase"] = np.array([0, 0, 0, 1], dtype="<i4")

        for layer in (1, 3):
            q = values(layer, NUM_Q_HEADS, tokens)
            k = values(layer + 5, NUM_KV_HEADS, tokens)
            v = values(layer + 9, NUM_KV_HEADS, tokens)
            group = f.create_group(f"layers/{layer}")
            group["q"] = q.astype("<f2")
            group.create_dataset("k", data=k.astype("<f2"), chunks=(1, 5, HEAD_DIM), compression="gzip", shuffle=True)
            group["v"] = v.astype(">f2")
            group["lse"] = log_sum_exp(q, k)

        # One run: every other past key, dense by the method's rule in layer 1.
        run = f.create_group("runs/0")
        run.attrs["method"] = np.bytes_("random:budget_tokens=4,budget_ratio=0,budget_scope=past,seed=0")
        run.attrs["mode"] = "closed_loop"
        run.attrs["row_axis"] = "kv_head"
        run.attrs["q_heads_per_row"] = 2
        run.attrs["granularity"] = "token"
        run.attrs["state_action"] = "visibility"
        for layer in (1, 3):
            offsets, positions, flags = [0], [], []
            forced_offsets, forced_bounds = [0], []
            for begin in begins:
                for row in range(NUM_KV_HEADS):
                    flag = 1 if begin == 0 else 2 if layer == 1 else 0
                    kept = [] if flag else list(range(row, begin, 2))
                    positions += kept
                    offsets.append(len(positions))
                    flags.append(flag)
                    # By rule: the first two and the last of those kept.
                    if len(kept) > 3:
                        forced_bounds += [0, 2, len(kept) - 1, len(kept)]
                    forced_offsets.append(len(forced_bounds))
            group = run.create_group(f"layers/{layer}")
            group["forced_offsets"] = np.array(forced_offsets, dtype=">i2")
            group["forced_bounds"] = np.array(forced_bounds, dtype="<u2")
            group["offsets"] = np.array(offsets, dtype="<u4")
            group["positions"] = np.array(positions, dtype=">i4")
            group["flags"] = np.array(flags, dtype=np.int16)
        write_block_run(f, begins)


if __name__ == "__main__":
    main(sys.argv[1])
