"""Models that are spread over processes: which part of the trace this one writes."""
import pathlib

import torch

from .errors import KvloupeError
from .writer import Heads


def rank_of_process():
    """(rank, ranks), or () where there is one process."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return ()
    return distributed.get_rank(), distributed.get_world_size()


def rank_path(path, rank):
    path = pathlib.Path(path)
    return path.with_name(f"{path.name}.rank{rank[0]}") if rank else path


def heads_of_rank(model, info, call, rank):
    """All heads, or the slice that this rank of a tensor-parallel model has: slices follow the ranks."""
    num_q, num_kv = call.query.shape[1], call.key.shape[1]
    if not rank or num_kv == info.num_kv_heads:
        return Heads(0, info.num_q_heads, 0, info.num_kv_heads)
    slices = info.num_kv_heads // num_kv
    if slices * num_kv != info.num_kv_heads or slices * num_q != info.num_q_heads:
        raise KvloupeError("the recording was stopped", f"a rank has {num_q} of {info.num_q_heads} query heads and {num_kv} of "
                           f"{info.num_kv_heads} KV heads, which are no equal slices", "use a number of ranks that divides the KV heads")
    index = _tensor_parallel_rank(model, rank) % slices
    return Heads(index * num_q, (index + 1) * num_q, index * num_kv, (index + 1) * num_kv)


def _tensor_parallel_rank(model, rank):
    mesh = getattr(model, "_device_mesh", None)
    if mesh is None:
        return rank[0]
    names = mesh.mesh_dim_names or ()
    return mesh.get_local_rank("tp") if "tp" in names else mesh.get_local_rank() if mesh.ndim == 1 else rank[0]
