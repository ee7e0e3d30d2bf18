#!/usr/bin/env python3
"""Makes a trace of many layers from one of a single layer, whose layer it copies: the window is measured on it.

    kvloupe synthesize --length 131072 --chunk-size 1024 --method quoka -o one.h5
    python3 make_long_trace.py one.h5 24 long.h5      # 24 layers of 131,072 tokens: 10 GB

It needs h5py and numpy.
"""
import shutil
import sys

import h5py
import numpy as np


def repeat_rows(group, name, values):
    """Replaces a data set by `values`, its attributes kept."""
    attributes = dict(group[name].attrs)
    del group[name]
    group[name] = values
    group[name].attrs.update(attributes)


def main():
    source, layers, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    shutil.copyfile(source, target)
    with h5py.File(target, "r+") as f:
        if list(f["layers"]) != ["0"]:
            sys.exit(f"{source} has not layer 0 alone")
        f["model"].attrs["num_layers"] = layers
        f["model"].attrs["layer_types"] = list(f["model"].attrs["layer_types"]) * layers
        for run in f["runs"].values():
            repeat_rows(run, "layer", np.arange(layers, dtype=np.int32))
            repeat_rows(run, "kept", np.repeat(run["kept"][:], layers, axis=1))
        for parent in [f["layers"]] + [run["layers"] for run in f["runs"].values()]:
            for layer in range(1, layers):
                parent.copy("0", str(layer))


main()
