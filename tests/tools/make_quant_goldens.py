#!/usr/bin/env python3
"""Writes tests/data/capture/quants.safetensors: random blocks of each quantised GGUF type and what numpy makes of them.

    pip install gguf==0.19.0 safetensors numpy && python make_quant_goldens.py tests/data/capture/quants.safetensors

The oracle is `gguf.quants` of PyPI's gguf, plain numpy. <type>.bytes holds BLOCKS blocks, <type>.values their numbers.
"""
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGML_QUANT_SIZES
from gguf.quants import dequantize
from safetensors.numpy import save_file

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
BLOCKS = 4


def golden(name, random):
    quantisation = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[quantisation]
    rows = []
    while len(rows) < BLOCKS:  # random bytes may be a scale that is no number
        block = random.integers(0, 256, (1, size), dtype=np.uint8)
        values = dequantize(block, quantisation)
        if np.isfinite(values).all() and 1e-6 < np.abs(values).max() < 1e6:
            rows.append((block[0], values.reshape(-1)))
    return np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows]).astype(np.float32)


def main():
    random = np.random.default_rng(7)
    tensors = {}
    with np.errstate(all="ignore"):
        for name in TYPES:
            tensors[f"{name}.bytes"], tensors[f"{name}.values"] = golden(name, random)
    save_file(tensors, sys.argv[1])


if __name__ == "__main__":
    main()
