"""kvloupe.sparse: a transformers model that attends only to what a method keeps. Needs torch and transformers."""
import contextlib
import dataclasses
import re

import numpy as np
import torch

from . import guards
from .adapters import adapter_of, hash_with_adapter
from .attend import attend_chunk
from .calls import cache_of, cached_tokens, held_model
from .chunks import ChunkTable
from .chunkwise import ChunkwiseForward
from .errors import KvloupeError
from .forwards import Forward, ForwardListener, listeners, shape_of
from .late_evidence import LateEvidence
from .layer_record import rows_up_to, widened
from .layout import DECODE, PREFILL
from .masks import Layout
from .model_info import attention_modules, describe_model, require_layers
from .model_look import look_at
from .past_rows import PastRows
from .ranks import rank_of_process
from .rotary import Rotary
from .sparse_methods import method_of
from .spec_facts import spec_facts
from .tap import AttentionCall, AttentionReplacement
from .turning import turning_of
from .weights_hash import hash_of_model

# Rows of a text's first chunk on which the model's own attention is compared with what q, k and v say.
MOST_COMPARED = 128


class SparseRun:
    """What kvloupe.sparse returns; its options are described there. `spec` is the method with all its parameters."""

    def __init__(self, model, method, *, chunk_size, record, tokenizer, rows, budget):
        guards.check_options(chunk_size, "float32", None, 0)
        if rank_of_process():
            raise _refused("the model is spread over processes", "run it in one process")
        self._given_model, self._model = model, held_model(model)
        self._asked, self._chunk_size = (method, rows, budget), chunk_size
        self._path, self._tokenizer = record, tokenizer
        with _in_words_of_a_run():
            self._modules = attention_modules(self._model)
            require_layers(self._model, self._modules, None, is_part=False)
        self._listener = ForwardListener(model, self._begin, self._end, lambda: self._reads_probe, is_sparse=True)
        self._tap = AttentionReplacement(self._modules, self._attend)
        self._cutter = ChunkwiseForward(self._model, self._pieces_of, self._announce)
        self._recorder = self._method = None
        self.late = None  # LateEvidence, of a method that asks for it
        self._seen, self._asked_of = {}, {}
        self.cells = {}  # of the last forward: layer -> (Kept, end of the chunk) of each of its chunks

    # --- the with statement ------------------------------------------------------------------------------------------

    def __enter__(self):
        if self._method is not None:
            raise _refused("a sparse run is entered once", "call kvloupe.sparse again")
        if listeners(self._given_model):
            raise _refused("a recording or another sparse run of this model is open", "end it first: kvloupe.sparse(.., record=PATH) does both")
        with _in_words_of_a_run():
            look = look_at(self._model, self._modules)
            self.turning = turning_of(self._model, self._modules)
        self._forms, self._shape = look.forms, look.shape
        info = describe_model(self._model, self._modules, look.shape, (), self.turning)
        info.file_hash = self._hash_for(self._asked[0])
        self._method = method_of(*self._asked, info, look.forms)
        self.spec, self.header = self._method.spec, self._method.header
        try:
            if self._method.decides_late:
                self.late = self._late_evidence()
            self._forget()
            self._rotary = None
            if self._method.reassigns or self._method.turns_back:
                self._rotary = Rotary(info, self.turning, in_all_layers=self._method.turns_back)
            self._tap.install()
            if self.late:
                self.late.install()
                self._cutter.install()
            self._listener.install()
            if self._path is not None:
                self._recorder = self._start_recorder()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *raised):
        try:
            if self._recorder is not None:
                self._recorder.__exit__(*raised)
        finally:
            self._remove()
        with _in_words_of_a_run():
            guards.check_graph(raised[1])

    def _remove(self):
        self._listener.remove()
        self._cutter.remove()
        if self.late:
            self.late.remove()
        self.late, self._seen, self._asked_of = None, {}, {}  # They hold keys and values.
        self._tap.remove()
        self._method.close()
        self._recorder = self._forward = None

    def _late_evidence(self):
        id = self.spec.split(":")[0]
        if self._tokenizer is None:
            raise _refused(f"{id} decides by a text that the model reads after each chunk", "give the model's tokenizer (tokenizer=)")
        with _in_words_of_a_run():
            return LateEvidence(self._model, self._modules, self._tokenizer)

    def _start_recorder(self):
        from .recorder import Recorder
        # As the model computes them, so that the method chooses the same of what is stored.
        dtype = "float16" if self._model.dtype == torch.float16 else "float32"
        recorder = Recorder(self._given_model, self._path, tokenizer=self._tokenizer, chunk_size=self._chunk_size, layers=None, dtype=dtype,
                            store=None, spans=None, batch_index=0, force=False, hash=True, run=self)
        return recorder.__enter__()

    def _hash_for(self, spec):
        """By which a calibrated basis is found; it takes a while."""
        facts = spec_facts(spec) if isinstance(spec, str) else {"basis": None}
        if facts["basis"] != "auto" or facts["lanes"]:  # those are refused without a file
            return ""
        return hash_with_adapter(self._model, hash_of_model(self._model), adapter_of(self._given_model))

    # --- a forward ---------------------------------------------------------------------------------------------------

    def _forget(self):
        """A new text begins."""
        self._method.reset()
        if self.late:
            self.late.forget()
        self._chunks = ChunkTable(self._chunk_size)
        self._announced, self._goes_on = None, False  # the piece of a forward that is cut, and whether it is a later one
        self._fed = []
        self._forward = None  # that runs, or did not come to its end
        self._past = {layer: (PastRows(), PastRows()) for layer in self._modules.values()}

    def _pieces_of(self, count, cache):
        return (self._chunks if cached_tokens(cache) else ChunkTable(self._chunk_size)).cut(count)

    def _announce(self, piece, is_first):
        """Before each piece of a forward that is cut. Its phase is the prompt's, also where one token is left over."""
        self._announced, self._goes_on = piece, not is_first

    def _begin(self, calls):
        announced, goes_on = self._announced, self._goes_on
        self._announced, self._goes_on = None, False
        # What called a forward that is cut ends with its last piece.
        self.entered = calls[0].module if announced is None else self._model
        with _in_words_of_a_run():
            fed, cache = guards.ids_of_forward(calls, 0), cache_of(calls)
            _check_calls(calls, len(fed), self._model.config)
            if cached_tokens(cache) == 0:
                _check_new_text(fed, self._fed, cache)
                self._forget()
            if self._forward is not None:
                raise _refused("a forward of this text failed half way", "begin the text anew, with a new cache")
            guards.check_continues(cache, fed, self._fed)
            self.pieces = self._chunks.cut(len(fed)) if announced is None else [announced]
            if self.late:
                self._begin_late(calls, len(fed))
        self._forward = Forward(self.entered, fed, fed, self.pieces, 0, cache)
        self._seen, self._asked_of = {}, {}
        if not goes_on:
            self.cells = {}

    def _begin_late(self, calls, count):
        if len(self.pieces) > 1:
            raise _refused("the method decides when all layers have seen a chunk, and several were fed without a call of the model's forward",
                           f"call the model that was given to kvloupe.sparse, or feed no further than the next multiple of {self._chunk_size}")
        self.late.begin(calls, self._chunks.num_tokens, count)

    @property
    def _reads_probe(self):
        return self.late is not None and self.late.is_running

    def _attend(self, layer, call, original):
        if self._reads_probe:
            return self._attend_of_probe(layer, call)
        forward = self._forward
        if forward is None:
            raise _refused("attention ran outside of a forward of the model", "call the model that was given to kvloupe.sparse")
        with _in_words_of_a_run():
            layout = self._check(layer, call, forward)
            if layout.first_row == 0:
                self._compare_with_own(layer, call, original, forward)
        forward.layers.add(layer)
        q, k, v = call.given[0][0], *(_from_first(rows[0], layout) for rows in call.given[1:])
        return self._attend_in_chunks(layer, q, k, v, forward).to(q.dtype).unsqueeze(0)

    def _attend_in_chunks(self, layer, q, k, v, forward):
        here = [rows.detach().cpu() for rows in (q, k, v)]  # where methods read them; no copy where they are there
        here = [widened(rows, self._shape.head_dim) for rows in here]
        v = self._method.lanes.of_values(layer, v) if self._method.lanes else v
        begin, outputs, cells = forward.pieces[0].begin, [], []
        for number, piece in enumerate(forward.pieces, self._chunks.num_chunks):
            rows = slice(piece.begin - begin, piece.end - begin)
            kept = self._method.keep(layer, number, here[0][:, rows], here[1][:, : piece.end], here[2][:, : piece.end], piece.begin,
                                     "decode" if piece.phase == DECODE else "prefill", piece.phase == PREFILL and piece is forward.pieces[-1])
            kept, *attended = self._as_attended(layer, kept, piece.begin, q[:, rows], k[:, : piece.end])
            cells.append((kept, piece.end))
            outputs.append(attend_chunk(*attended, v[:, : piece.end], self._forms[layer], piece.begin, None if kept.flag else kept.rows,
                                        self._method.chooses_own, kept.blocks if self._method.reads_masks else None))
        self.cells.setdefault(layer, []).extend(cells)
        if self.late:
            self._asked_of[layer] = here[:2]
        return torch.cat(outputs)

    def _attend_of_probe(self, layer, call):
        """To the chunk that was fed, and to what it attended to."""
        piece, (kept, _) = self.pieces[0], self.cells[layer][-1]
        own = np.arange(piece.begin, piece.end)
        q, k, v = (rows[0] for rows in call.given)
        output = attend_chunk(q, k, v, self._forms[layer], piece.end, [np.concatenate([row, own]) for row in kept.rows])
        return output.to(q.dtype).unsqueeze(0)

    def _as_attended(self, layer, kept, begin, q, k):
        """What was kept, and the queries and keys that products are made of."""
        if self._method.lanes:
            q, counts = self._method.lanes.of_queries(layer, q)
            kept = dataclasses.replace(kept, lane_counts=counts)
        if self._method.reassigns and not kept.flag:
            k = self._rotary.reassigned(layer, k, begin, kept.rows)
        return kept, q, k

    def _end(self, module, output):
        forward = self._forward
        if forward is None or module is not forward.entered:
            return
        with _in_words_of_a_run():
            guards.check_layers(sorted(self._modules.values()), forward)
            if self.late:
                self._decide_late(output, forward)
        for layer, seen in self._seen.items():
            for past, rows in zip(self._past[layer], seen):
                past.accept(rows)
        self._chunks.advance(forward.pieces)
        self._chunks.close_open()  # What was chosen for a chunk cannot be added to.
        self._fed += forward.fed
        self._forward = None

    def _decide_late(self, output, forward):
        piece, = forward.pieces
        self.late.take(output, forward.fed, piece.end if piece.phase == PREFILL else None)
        for layer, cells in self.cells.items():
            kept = self._method.decide(layer, *self._asked_of[layer], piece.begin, "decode" if piece.phase == DECODE else "prefill",
                                       self._probe_queries(layer), self.late.novelty)
            cells[-1] = kept, piece.end
        self._asked_of = {}

    def _probe_queries(self, layer):
        queries = self.late.queries.get(layer)
        return None if queries is None else widened(queries.detach().cpu(), self._shape.head_dim)

    # --- what cannot be run ------------------------------------------------------------------------------------------

    def _check(self, layer, call, forward):
        if call.query.shape[0] != 1:
            raise _refused(f"the model runs {call.query.shape[0]} sequences at a time", "run one, without beam search")
        guards.check_call(layer, call, forward)
        layout = guards.layout_of(layer, call, forward)
        guards.check_mask(layer, call, layout, forward, 0)
        if shape_of(call) != self._shape:
            raise _refused(f"layer {layer} has {shape_of(call)} now, and had {self._shape}", "run with one configuration")
        guards.check_same_softmax(layer, self._forms[layer], guards.softmax_of(call, self._shape.scale))
        held = [past.look(rows_up_to(rows[0], layout), layout.first_row, layout.first_key)
                for past, rows in zip(self._past[layer], (call.key, call.value))]
        guards.check_past(layer, [is_same for _, is_same in held])
        self._seen[layer] = [seen for seen, _ in held]
        return layout

    def _compare_with_own(self, layer, call, original, forward):
        """Whether the model's own attention is softmax(q k) v, on the first rows: else it would become another model."""
        count = min(call.query.shape[2], MOST_COMPARED)
        mask = call.mask
        if isinstance(mask, torch.Tensor):
            mask = mask[..., :count, :count] if mask.dim() == 4 else mask[..., :count]
        elif mask is not None:
            count = call.query.shape[2]  # Masks of other kinds cannot be cut.
        first = [rows[:, :, :count] for rows in (call.query, call.key, call.value)]
        with torch.no_grad():
            output = original(*first, mask, **call.arguments)[0]
        cut = AttentionCall(call.module, *first, mask, call.arguments, call.implementation, output)
        guards.check_output(layer, cut, Layout(count, count, count, 0), forward, 0)


def _from_first(rows, layout):
    """Keys or values [heads, tokens, D] from position 0 on: zeros where a cache dropped what no window sees."""
    rows = rows_up_to(rows, layout)
    return torch.nn.functional.pad(rows, (0, 0, layout.first_key, 0)) if layout.first_key else rows


def _check_calls(calls, count, config):
    batch = next(called.ids for called in reversed(calls) if called.ids is not None).shape[0]
    if batch != 1:
        raise _refused(f"the model was given {batch} sequences", "run one at a time")
    if guards.pads_of_forward(calls, 0, count):
        raise _refused("padding stands before the sequence", "give the tokens alone")
    if getattr(config, "output_attentions", False) or any(called.wants_weights for called in calls):
        raise _refused("output_attentions asks for probabilities over all keys, which are not computed", "leave it out")


def _check_new_text(ids, before, cache):
    if cache is None and before and ids[:-1] == before:
        raise _refused("the model was fed the tokens once more that it had, as it is without a cache",
                       "allow the cache (use_cache=True), and run each text in a block of its own")


def _refused(why, what_to_do):
    return KvloupeError("the sparse run was stopped", why, what_to_do)


# What the recorder says of a recording, in words of a run.
_OF_STORE = re.compile("(, or )?leave (loss and )?probe out of store")
_WORDS = (("be stored", "be told"), ("the recording", "the sparse run"), ("be recorded", "be run sparsely"), ("recorded", "run"), ("record", "run"), ("a trace", "a sparse run"))


@contextlib.contextmanager
def _in_words_of_a_run():
    try:
        yield
    except KvloupeError as error:
        parts = list(error.parts)
        parts[2] = _OF_STORE.sub("", parts[2]) or "run another method"
        if "layers=" in parts[2]:
            parts[2] = "run a model whose layers all attend through transformers' attention interface"
        for word, other in _WORDS:
            parts = [re.sub(rf"\b{word}\b", other, part) for part in parts]
        raise KvloupeError(*parts) from None
