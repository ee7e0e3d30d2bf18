"""What decides in a sparse run: one of KVLoupe's methods, or a function. Needs no torch."""
import dataclasses

import numpy as np

from . import own_method
from .errors import KvloupeError
from .run_writer import RunHeader
from .runs import DENSE_BY_RULE, DENSE_FALLBACK
from .selector import Selector
from .spec_facts import spec_facts


@dataclasses.dataclass(frozen=True)
class Kept:
    """One chunk in one layer."""
    rows: list  # of positions, ascending
    flag: int = 0  # 0, or why all candidates are kept: DENSE_FALLBACK, DENSE_BY_RULE
    alive: list = None  # after the chunk, by row, of a method that evicts
    blocks: object = None  # of a block method that chose: Blocks
    lane_counts: object = None  # of a method that leaves out channels: rows that used each, [q heads, D]


class OfSpec:
    """A SPEC, asked for by kvloupe.Selector."""

    def __init__(self, spec, model, forms):
        _check_runs(spec_facts(spec))
        self._alive = {}  # layer -> after its last chunk, by row
        self._selector = Selector(
            spec, layers=model.num_layers, q_heads=model.num_q_heads, kv_heads=model.num_kv_heads, head_dim=model.head_dim,
            softmax_scale=model.softmax_scale, windows=[form.window for form in forms], softcap=_softcap_of(forms), sink_logits=_sinks_of(forms),
            rope_theta=model.rope_theta if model.rope_scaling == "none" else 0.0, rope_interleaved=model.rope_pairing == "interleaved",
            model_hash=model.file_hash or None, layer_types=model.layer_types)
        self.spec = self._selector.spec
        facts = spec_facts(self.spec)  # with the numbers of this model
        self.lanes = None
        if facts["lanes"]:
            from .lanes import Lanes
            self.lanes = Lanes(facts, model)
        self.reassigns = facts["reassigns_positions"]  # where the kept keys stand
        self.turns_back = "gate" in facts["parameters"]  # queries and keys, to what they were before the rotary embedding
        self.chooses_own = facts["budget_scope"] == "all"
        self.reads_masks = facts["lowering"] == "native"  # each query block attends to blocks of its own
        self.decides_late = facts["needs_probe"]  # when all layers have seen a chunk
        self._evicts = facts["state_action"] == "eviction"
        self.header = RunHeader(self.spec, self._selector.row_axis, self._selector.num_rows, self._selector.q_heads_per_row, facts["granularity"],
                                facts["state_action"], facts["budget_scope"], "dense" if facts["dense_in_decode"] else None,
                                facts["block_size"], facts["lowering"], facts["block_tables"] if facts["block_size"] else None,
                                num_lanes=model.head_dim if self.lanes else 0)

    def reset(self):
        self._selector.reset()
        self._alive = {}

    def close(self):
        self._selector.close()

    def keep(self, layer, chunk, q, k, v, begin, phase, ends_prefill):
        if self.decides_late:
            return Kept(self._alive.get(layer, [np.empty(0, np.int32)] * self.header.num_rows))
        return self._kept(layer, self._selector.select(layer, q, k, v if self.lanes else None, begin, phase, ends_prefill=ends_prefill))

    def decide(self, layer, q, k, begin, phase, probe_q, novelty):
        """Of a method that decides late, after the chunk: its record, and what is alive for the next one."""
        kept = self._kept(layer, self._selector.select(layer, q, k, None, begin, phase, probe_q=probe_q, novelty=novelty))
        self._alive[layer] = kept.alive
        return kept

    def _kept(self, layer, rows):
        reason = self._selector.dense_reason
        if reason is None and self.lanes and not self._evicts:
            reason = "method_rule"  # as a run stores it: no key is left out
        flag = 0 if reason is None else DENSE_BY_RULE if reason == "method_rule" else DENSE_FALLBACK
        return Kept(rows, flag, self._selector.alive(layer) if self._evicts else None, self._selector.blocks() if self.header.block_size else None)


class OfFunction:
    """select(layer, chunk, q, k, v), as Trace.add_run takes it."""
    chooses_own = reassigns = turns_back = reads_masks = decides_late = False
    lanes = None

    def __init__(self, select, axis, budget, model, forms):
        own_method.check_function(select, axis, budget)
        self._select, self._budget, self._forms = select, budget, forms
        name = getattr(select, "__name__", "")
        self.spec = own_method.check_name(name if own_method.NAME.fullmatch(name) else "function")
        rows = model.num_kv_heads if axis == "kv_head" else model.num_q_heads
        self.header = RunHeader(self.spec, axis, rows, model.num_q_heads // rows, "token", "visibility", "past")

    def reset(self):
        pass

    def close(self):
        pass

    def keep(self, layer, chunk, q, k, v, begin, phase, ends_prefill):
        window = self._forms[layer].window
        first = max(0, begin - window + 1) if window else 0
        given = [_read_only(rows, layer) for rows in (q, k[:, :begin], v[:, :begin])]
        chosen = own_method.choose(self._select, layer, chunk, given, self.header.num_rows, first, self._budget)
        if chosen is None:
            return Kept([np.arange(first, begin, dtype=np.int32)] * self.header.num_rows, DENSE_FALLBACK)
        return Kept([positions for positions, _ in chosen])


def method_of(given, axis, budget, model, forms):
    if not isinstance(given, str):
        return OfFunction(given, axis or "kv_head", budget, model, forms)
    if axis is not None or budget is not None:
        raise KvloupeError("rows and budget cannot be used here", "a SPEC says itself what it keeps", "leave them out, and give the SPEC its budget, as in quoka:budget_tokens=256")
    return OfSpec(given, model, forms)


def _read_only(rows, layer):
    """A function that changed them would change what the model attends to."""
    rows = rows.float().numpy()
    if not np.isfinite(rows).all():
        raise KvloupeError(f"layer {layer} computed values that are not finite", "nothing can be chosen by them", "run the model in float32 or bfloat16")
    rows.flags.writeable = False
    return rows


def _check_runs(facts):
    id = facts["id"]
    if facts["lanes"] and facts["basis"] == "auto":
        raise _refused(id, "its basis is looked up by the program alone", "give basis=PATH, the file that kvloupe calibrate aqua -o PATH made")


def _refused(id, why, what_to_do):
    return KvloupeError(f"{id} cannot be run sparsely here", why, what_to_do)


def _softcap_of(forms):
    if len({form.softcap for form in forms}) > 1:
        raise KvloupeError("this model cannot be run sparsely", "its layers have different softcaps", "run another model")
    return forms[0].softcap


def _sinks_of(forms):
    having = [form.sinks for form in forms if form.sinks is not None]
    if not having:
        return None
    if len(having) < len(forms):
        raise KvloupeError("this model cannot be run sparsely", "some of its layers have sinks and others have none", "run another model")
    return np.stack([sinks.detach().float().cpu().numpy() for sinks in having])
