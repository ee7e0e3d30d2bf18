"""The methods that leave out channels: what queries and values become, by a basis that `kvloupe calibrate` made (FORMAT.md, section 11).
Needs torch."""
import math

import h5py
import torch

from .errors import KvloupeError, one_line
from .softmax import exact_products
from .stored import BROKEN


class Lanes:
    """In the basis P of its KV head a query has the lanes q P, of which a few are kept. Products with a query that was turned back,
    P mask(q P), are those of the lanes alone, since P is orthonormal: so keys stay as they are."""

    def __init__(self, facts, model):
        """facts: of the SPEC with all parameters, which kvloupe.Selector has found sound, and its basis."""
        says = facts["parameters"]
        dim = model.head_dim
        self._usable = max(1, dim - _down(float(says.get("slice_ratio", 0)) * dim))
        self._kept = max(1, _down(float(says["dim_ratio"]) * self._usable))
        self._leads = facts["lanes"] == "leading"
        self._vectors, self._value_vectors = _read(says["basis"], model, says.get("slice_values") == "1")

    def of_queries(self, layer, q):
        """q [q heads, m, D] with the kept lanes alone, and how many rows kept each lane, [q heads, D]."""
        vectors = self._for(self._vectors, layer, q).repeat_interleave(len(q) // len(self._vectors[layer]), 0)
        with exact_products(q.device.type, gradients=True):
            lanes = q.float() @ vectors
            kept = torch.zeros_like(lanes, dtype=torch.bool)
            if self._leads:
                kept[..., : self._kept] = True
            else:
                # Equal ones by lane.
                largest = lanes.detach()[..., : self._usable].abs().sort(dim=-1, descending=True, stable=True).indices
                kept.scatter_(-1, largest[..., : self._kept], True)
            return (lanes * kept) @ vectors.transpose(1, 2), kept.sum(1, dtype=torch.int32).cpu().numpy()

    def of_values(self, layer, v):
        """v [KV heads, n, D] as it is when only some lanes of it are stored."""
        if self._value_vectors is None:
            return v
        vectors = self._for(self._value_vectors, layer, v)[..., : self._usable]
        with exact_products(v.device.type, gradients=True):
            return (v.float() @ vectors) @ vectors.transpose(1, 2)

    @staticmethod
    def _for(vectors, layer, rows):
        if rows.shape[-1] != vectors[layer].shape[1]:
            raise KvloupeError("the sparse run was stopped", "its queries and values have not as many channels as the basis", "run another model, or another method")
        return vectors[layer].to(rows.device)


def _read(path, model, with_values):
    try:
        with h5py.File(path, "r", locking=False) as file:
            return tuple({layer: torch.from_numpy(file[f"layers/{layer}/{name}"][...]) for layer in range(model.num_layers)} if wanted else None
                         for name, wanted in (("vectors", True), ("value_vectors", with_values)))
    except (AttributeError, *BROKEN) as error:
        raise KvloupeError(f"cannot read {path}", one_line(error), "make the basis again by kvloupe calibrate") from None


def _down(share):
    """As the program rounds products of a share."""
    return math.floor(share + 1e-9)
