"""SHA-256 of the weights: of the model's files where they are known, as the program computes it for the same folder."""
import hashlib
import json
import pathlib

from .known_hashes import hash_of_files

PIECE = 1 << 24
# What decides over a model's answers beside its weights.
SMALL_FILES = ("config.json", "generation_config.json", "adapter_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json",
               "chat_template*", "vocab*", "merges.txt", "*.model", "*.tiktoken")


def hash_of_folder(folder):
    """Of the safetensors files one after the other, by name; "" where there are none."""
    files = weight_files(pathlib.Path(folder))
    return hash_of_files(files, hash_bytes) if files else ""


def hash_of_other_weights(folder):
    """Of those that have no safetensors file of the usual name: older ones, and adapters; "" where there are none."""
    files = _matching(pathlib.Path(folder), ("*.bin", "*.safetensors"))
    return hash_of_files(files, hash_bytes) if files else ""


def hash_of_small_files(folder):
    """Of configuration and tokenizer, their names and bytes."""
    digest = hashlib.sha256()
    for path in _matching(pathlib.Path(folder), SMALL_FILES):
        digest.update(f"{path.name} {hash_bytes([path])}\n".encode())
    return digest.hexdigest()


def _matching(folder, patterns):
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


def hash_bytes(files):
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    return digest.hexdigest()


def weight_files(folder):
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        return [folder / name for name in names]
    single = folder / "model.safetensors"
    return [single] if single.is_file() else []


def folder_of(model):
    """Where the model was loaded from, as far as that is on this machine; else None."""
    name = getattr(model.config, "_name_or_path", "")
    if not name:
        return None
    if pathlib.Path(name).is_dir():
        return pathlib.Path(name)
    from transformers.utils import cached_file
    try:
        config = cached_file(name, "config.json", revision=getattr(model.config, "_commit_hash", None), local_files_only=True)
    except OSError:
        return None
    return pathlib.Path(config).parent if config else None


def _is_of(model, folder):
    """False where the embeddings are not those of the folder's files: a model made of a configuration alone names the folder, too."""
    from safetensors import safe_open
    embeddings = model.get_input_embeddings().weight
    name = next((name for name, parameter in model.named_parameters() if parameter is embeddings), "")
    if not name or hasattr(embeddings, "to_local") or embeddings.is_meta or not embeddings.is_floating_point():
        return True
    for path in weight_files(folder):
        with safe_open(path, "pt") as file:
            stored = next((key for key in file.keys() if key.endswith(name) or name.endswith(key)), None)
            if stored is None:
                continue
            rows = file.get_slice(stored)[1:3]
            own = embeddings.detach()[1:3].cpu()
            return rows.shape != own.shape or bool((rows.to(own.dtype) == own).all())
    return True


def hash_of_tensors(model):
    """For a model that came from no file: names and bytes of its parameters, by name."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().flatten().view(dtype=_bytes()).numpy())
    return digest.hexdigest()


def _bytes():
    import torch
    return torch.uint8


def hash_of_model(model):
    """"" where it is not known: what a rank has of a distributed model that came from no file."""
    folder = folder_of(model)
    known = hash_of_folder(folder) if folder and _is_of(model, folder) else ""
    if known:
        return known
    if any(hasattr(parameter, "to_local") or parameter.is_meta for parameter in model.parameters()):
        return ""
    return hash_of_tensors(model)
