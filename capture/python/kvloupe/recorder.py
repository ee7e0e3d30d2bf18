"""kvloupe.record: what a transformers model computes inside a `with`, streamed to a trace. Needs torch and transformers."""
import threading
import time

import torch

from . import guards, mass_rule
from .adapters import adapter_of, hash_with_adapter
from .calls import cache_of, held_model, positions_of
from .chunks import ChunkTable
from .errors import KvloupeError
from .forwards import Forward, ForwardListener, listeners, shape_of
from .generate_hook import GenerateHook
from .head_choice import check_one_process, chosen_heads, numbers_of_heads, shape_of_heads
from .layer_record import LayerRecorder
from .layout import PREFILL
from .losses import Losses
from .model_info import attention_modules, describe_model, num_kv_heads_of, require_layers
from .part_file import PartFile
from .probe import Prober, probe_text
from .query_choice import QueryChoice
from .query_choice import check_one_process as check_queries_of_one_process
from .ranks import heads_of_rank, rank_of_process, rank_path
from .tap import AttentionTap
from .token_text import TokenText
from .turning import turning_of
from .weights_hash import hash_of_model
from .writer import Header, TraceWriter

# Decoded tokens are written together, at the latest after so long.
MOST_PENDING_TOKENS = 64
MOST_PENDING_SECONDS = 1.0
# For the hash of the weights after an exception.
LONGEST_WAIT_SECONDS = 5.0


class Recorder:
    """What kvloupe.record returns; its options are described there."""

    def __init__(self, model, path, *, tokenizer, chunk_size, layers, dtype, store, spans, batch_index, force, hash, heads=None,
                 queries="all", chunks=None, run=None):
        """run: the SparseRun whose model is recorded."""
        guards.check_options(chunk_size, dtype, store, batch_index)
        self._listener = ForwardListener(model, self._before_forward, self._after_forward, lambda: self._wants_nothing)
        self._run, self._cells = run, {}  # layer -> of the chunks that wait to be written
        self._model, self._path, self._force = held_model(model), path, force
        self._dtype, self._batch_index, self._wants_hash = dtype, batch_index, hash
        # Without a choice the mass is stored as long as it is small.
        self._store = frozenset(("qkv", "lse", "mass") if store is None else store)
        self._mass_is_optional = store is None
        self._spans = guards.checked_spans(spans)
        self._text = TokenText(tokenizer) if tokenizer is not None else None
        self._adapter = adapter_of(model)
        self._rank = rank_of_process()
        self._modules = attention_modules(self._model)
        self._layers = require_layers(self._model, self._modules, layers, is_part=bool(self._rank))
        self._heads = numbers_of_heads(heads)
        check_one_process(self._heads, self._rank)
        self._queries = QueryChoice(queries, chunks)
        check_queries_of_one_process(self._queries, self._rank)
        if "qkv" not in self._store:
            self._queries = QueryChoice()  # nothing of which some could be left out
        # A basis of all heads would be found by the hash, and would not fit some.
        if chosen_heads(self._heads, num_kv_heads_of(self._model)):
            self._wants_hash = False
        self._prober = None
        self._late = run.late if run is not None else None
        if self._late:
            self._store |= {"probe", "loss"}  # by which the method chooses the same when it is replayed
        elif "probe" in self._store:
            self._store |= {"loss"}  # What selects by a probe needs both.
            self._prober = self._make_prober(tokenizer)
        self._losses = Losses(batch_index) if "loss" in self._store and not self._late else None
        self._chunks = ChunkTable(chunk_size)
        self._generate_hook = GenerateHook(self._model, self._before_generate, self._after_generate)
        self._turning = None
        self._writer = None
        self._recorders = {}  # layer -> LayerRecorder
        self._shapes = {}  # layer -> shape_of its first call
        self._ended = False
        self._forward = None
        self._fed = []  # all token ids, padding included
        self._pads = 0  # of padding on the left, which are not recorded
        self._ids = []  # of the decode chunks
        self._unfed = []  # sampled last, and not fed
        self._expected_prefill = self._expected_new = 0
        self._fed_before, self._ends = 0, set()  # While generating: tokens that were fed before, and those that end an answer.
        self._is_over = False  # It has ended, and other rows of the batch go on.
        self._pending = []  # chunks whose rows wait to be written
        self._written_at = time.monotonic()

    def _make_prober(self, tokenizer):
        if self._rank:
            raise KvloupeError("the probe cannot be recorded", "the model is spread over processes", "leave probe out of store")
        return Prober(self._model, self._modules, probe_text(tokenizer), self._batch_index)

    def expect(self, prefill_tokens, new_tokens):
        """What will be recorded in all, where it is known beforehand: room is made for it at once."""
        self._expected_prefill, self._expected_new = prefill_tokens, new_tokens

    # --- the with statement ------------------------------------------------------------------------------------------

    def __enter__(self):
        guards.check_entered_once(self._turning)
        guards.check_no_sparse_run(self._run, listeners(self._model))
        self._output = PartFile(rank_path(self._path, self._rank), self._force)
        try:
            self._turning = turning_of(self._model, self._modules) if self._run is None else self._run.turning
            self._listen()
        except BaseException:
            self._output.drop()
            raise
        self._hash = ""
        self._hashing = threading.Thread(target=self._find_hash, daemon=True)
        self._hashing.start()
        return self

    def _listen(self):
        wanted = {module: layer for module, layer in self._modules.items() if layer in self._layers}
        self._tap = AttentionTap(wanted, self._heard)
        self._tap.install()
        if self._prober:
            self._prober.install()
        self._listener.install()
        self._generate_hook.install()

    def __exit__(self, kind, error, traceback):
        self._ended = True
        if self._prober:
            self._prober.remove()
        self._tap.remove()
        self._listener.remove()
        self._generate_hook.remove()
        self._hashing.join(None if kind is None else LONGEST_WAIT_SECONDS)
        if self._writer is None:
            self._output.drop()
            if kind is None:
                raise KvloupeError("nothing was recorded", "the model did not run inside the with statement",
                                   "call model(...) or model.generate(...) inside it")
            guards.check_graph(error)
            return
        # A forward that failed has left its tokens uncounted, and what it wrote lies beyond what is done.
        try:
            self._close_open_chunk()
            self._write_pending()
            for recorder in self._recorders.values():
                recorder.close_queries(self._writer.num_chunks)
            self._writer.close(complete=kind is None and self._forward is None, generated=self._ids + self._unfed,
                               file_hash="" if self._writer.header.model.kv_heads else self._hash)
        except KvloupeError:
            self._writer.abandon()
            raise
        if kind is None:
            guards.check_spans_inside(self._spans, self._chunks.num_tokens)
            self._queries.check_some(self._writer.num_chunks)
        guards.check_graph(error)

    def _find_hash(self):
        try:
            base = hash_of_model(self._model) if self._wants_hash else ""
            self._hash = hash_with_adapter(self._model, base, self._adapter)
        except OSError:
            pass  # The folder is gone: the hash is not known.

    # --- a forward ---------------------------------------------------------------------------------------------------

    def _before_generate(self, options):
        self._expected_new = (self._setting(options, "max_new_tokens") or 1) - 1  # The last is not fed.
        ends = self._setting(options, "eos_token_id")
        self._ends = set(torch.as_tensor([] if ends is None else ends).flatten().tolist())
        self._fed_before = len(self._fed)

    def _setting(self, options, name):
        """As generate finds it: what its call says, then the configuration given, then the model's."""
        if name in options:
            return options[name]
        given, own = options.get("generation_config"), getattr(self._model, "generation_config", None)
        value = getattr(given, name, None)
        return getattr(own, name, None) if value is None else value

    def _after_generate(self, result):
        """None: it raised."""
        was_over, self._ends, self._is_over = self._is_over, set(), False
        sequences = getattr(result, "sequences", result)
        if not (len(self._fed) > self._fed_before and isinstance(sequences, torch.Tensor) and sequences.dim() == 2):
            return
        if self._batch_index < sequences.shape[0]:
            unfed = guards.checked_unfed(sequences[self._batch_index].tolist(), self._fed, self._fed_before)
            self._unfed = unfed[: 1 if was_over else None]

    @property
    def _wants_nothing(self):
        """The probe is no part of the sequence, nor what is fed while other rows of a batch go on, and a graph that was compiled
        meanwhile may still tell of what comes later."""
        return self._ended or self._is_over or any(reader is not None and reader.is_running for reader in (self._prober, self._late))

    def _before_forward(self, calls):
        self._forward = None
        fed = guards.ids_of_forward(calls, self._batch_index)
        cache = cache_of(calls)
        guards.check_continues(cache, fed, self._fed)
        if len(fed) == 1 and fed[0] in self._ends and len(self._fed) > self._fed_before:
            self._is_over = True
            return
        if not self._fed:
            self._pads = guards.pads_of_forward(calls, self._batch_index, len(fed))
        ids = fed if self._fed else fed[self._pads :]
        pieces = self._chunks.cut(len(ids)) if self._run is None else self._run.pieces
        if pieces[0].phase != PREFILL:
            self._close_open_chunk()
        total = self._chunks.num_tokens + len(ids)
        if self._prober:
            self._prober.begin(self._chunks.num_tokens, len(ids), self._pads, positions_of(calls))
        if self._writer is not None and pieces[0].phase == PREFILL and not self._mass_is_due(self._writer.header.model, len(ids)):
            self._drop_mass()
        if self._writer is not None and not self._writer.has_room(total):
            # The structure changes now: what is done is safe before.
            self._write_pending()
            self._writer.reserve(total)
        entered = calls[0].module if self._run is None else self._run.entered
        self._forward = Forward(entered, fed, ids, pieces, self._pads, cache)
        self._forward.decodes_first = pieces[0].phase != PREFILL and not self._ids

    def _heard(self, layer, call):
        if self._listener.is_deaf:
            return
        forward = self._forward
        if forward is None:
            raise KvloupeError("the recording was stopped", "attention ran outside of a forward of the recorded model",
                               "call the model that was given to kvloupe.record, and backward() of checkpointed layers after it")
        layout = guards.layout_of(layer, call, forward)
        try:
            guards.check_call(layer, call, forward)
            guards.check_mask(layer, call, layout, forward, self._batch_index)
            if self._run is None:
                guards.check_output(layer, call, layout, forward, self._batch_index)
        except KvloupeError as refusal:
            # Said after the last layer, with those that can be recorded.
            forward.refused.setdefault(layer, refusal)
        forward.layers.add(layer)
        self._shapes.setdefault(layer, shape_of(call))
        if forward.refused or len(set(self._shapes.values())) > 1:
            return
        if self._writer is None:
            self._begin(call)
        if layer not in self._recorders:
            self._recorders[layer] = LayerRecorder(layer, self._writer, call)
        self._recorders[layer].take(call, self._batch_index, layout, forward.pieces)

    def _mass_is_due(self, model, num_new):
        """Of a prefill, with what is expected to follow. The share of the mass grows with each chunk, so what is dropped stays so."""
        if not self._mass_is_optional or "mass" not in self._store:
            return True
        before = self._chunks.num_tokens
        prefill = max(num_new, self._expected_prefill - before)
        return mass_rule.is_small(model, self._dtype, before + prefill + self._expected_new, self._chunks.prefill_keys(prefill))

    def _drop_mass(self):
        self._write_pending()
        for recorder in self._recorders.values():
            recorder.drop_mass()
        self._writer.drop_mass()
        self._store -= {"mass"}

    def _begin(self, call):
        shape = shape_of(call)
        kv_heads = chosen_heads(self._heads, shape.num_kv_heads)
        model = describe_model(self._model, self._modules, shape_of_heads(shape, kv_heads), self._rank, self._turning)
        model.adapter, model.kv_heads = self._adapter, kv_heads
        heads = heads_of_rank(self._model, model, call, self._rank)
        num_new = len(self._forward.ids)
        if not self._mass_is_due(model, num_new):
            self._store -= {"mass"}
        header = Header(model, heads, self._dtype, self._store, self._spans, self._text is not None, self._rank,
                        (self._prober or self._late).text if "probe" in self._store else None, self._run.header if self._run else None, self._queries)
        prefill = max(num_new, self._expected_prefill)
        self._writer = TraceWriter(self._output, header, prefill + min(self._expected_new, MOST_PENDING_TOKENS),
                                   self._chunks.prefill_keys(prefill),
                                   self._queries.num_rows(self._chunks.chunk_size, prefill, self._expected_new))

    def _after_forward(self, module, output):
        forward = self._forward
        if forward is None or module is not forward.entered:
            return
        guards.check_layers(self._layers, forward)
        guards.check_shapes(self._shapes)
        losses = self._late.novelty[-len(forward.ids) :] if self._late else self._losses.take(output, forward.ids) if self._losses else None
        if "probe" in self._store:
            self._run_probe(forward.pieces)
        for recorder in self._recorders.values():
            recorder.accept()
        self._writer.write_tokens(forward.ids, [self._text.bytes_of(id) for id in forward.ids] if self._text else (), losses)
        chunks = self._chunks.advance(forward.pieces)
        decoded = forward.pieces[0].phase != PREFILL
        if decoded:
            self._ids += forward.ids
        self._fed += forward.fed
        self._unfed = []
        self._pending += chunks
        if self._run is not None:
            self._close_open_chunk()  # as the run does
            for layer, cells in self._run.cells.items():
                self._cells.setdefault(layer, []).extend(cells[-len(forward.pieces) :])
        self._forward = None
        waited = time.monotonic() - self._written_at
        if not decoded or len(self._pending) >= MOST_PENDING_TOKENS or waited > MOST_PENDING_SECONDS:
            self._write_pending()

    def _run_probe(self, pieces):
        """After each prefill chunk of the forward; the last may go on, and is probed again then."""
        for number, piece in enumerate(pieces, self._chunks.num_chunks):
            if piece.phase == PREFILL:
                queries = self._late.queries if self._late else self._prober.run(piece.end)
                for layer, recorder in self._recorders.items():
                    recorder.write_probe(number, queries[layer])

    def _close_open_chunk(self):
        chunk = self._chunks.close_open()
        if chunk is not None:
            for recorder in self._recorders.values():
                recorder.close_chunk()
            self._pending.append(chunk)

    def _write_pending(self):
        for recorder in self._recorders.values():
            recorder.write()
        if self._cells:
            self._writer.write_run(self._cells)
            self._cells = {}
        self._writer.finish_chunks(self._pending)
        self._pending = []
        self._written_at = time.monotonic()
