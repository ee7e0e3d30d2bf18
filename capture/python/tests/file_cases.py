"""Methods that read a file, with files made for any trace: bases of drawn directions, gates and patterns that the program fits on it."""
import h5py
import numpy as np

import kvloupe

from .selector_cases import BY_BASIS
from .support import program, scratch


def drawn_basis(kind, trace, path):
    """FORMAT.md, section 11."""
    model, draw = trace.model, np.random.default_rng(5)
    heads, dim = model["num_kv_heads"], model["head_dim"]
    with h5py.File(path, "w") as file:
        for name, value in dict(format="kvloupe-basis", schema_version="1.1", producer="a test", created="2026-01-01T00:00:00Z", kind=kind, model_name=model["name"],
                                model_hash=model["file_hash"], source="drawn", source_hash="0" * 64).items():
            file.attrs[name] = value
        for name, value in dict(num_kv_heads=heads, head_dim=dim, num_tokens=1).items():
            file.attrs[name] = np.int64(value)
        for layer in range(model["num_layers"]):
            group = file.create_group(f"layers/{layer}")
            group["values"] = np.sort(draw.random((heads, dim)))[:, ::-1]
            for name in ("vectors", "value_vectors"):
                group[name] = np.linalg.qr(draw.standard_normal((heads, dim, dim)))[0].astype("<f4")


def specs_with_files(path):
    """For the trace at `path`."""
    specs = []
    with kvloupe.open(path) as trace:
        for kind, listed in BY_BASIS.items():
            basis = scratch(f"{path.name}.{kind}.basis")
            drawn_basis(kind, trace, basis)
            specs += [f"{spec}{',' if ':' in spec else ':'}basis={basis}" for spec in listed]
    gate, config = scratch(f"{path.name}.gate.safetensors"), scratch(f"{path.name}.patterns.json")
    program("calibrate", "seer", path, "--block-size", 16, "--hidden", 8, "--steps", 2, "-o", gate, "--force")
    program("calibrate", "minference", path, "-o", config, "--force")
    return specs + [f"seer_attention:block_size=16,gate={gate}", f"seer_attention:block_size=16,gate={gate},lowering=union", f"minference:config={config}",
                    f"minference:config={config},lowering=union"]
