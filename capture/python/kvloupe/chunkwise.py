"""A model whose forward takes one chunk after the other through all of its layers. Needs torch."""
import functools

import torch

from .calls import Called
from .errors import KvloupeError

# Tensors with an entry for each token that is fed, along their last axis.
_BY_TOKEN = ("input_ids", "position_ids", "cache_position", "token_type_ids", "mm_token_type_ids", "moe_mm_token_type_ids")
# What would have to be joined of the chunks' outputs, or given to one chunk alone.
_OF_ONE_FORWARD = ("labels", "output_hidden_states", "output_router_logits", "pixel_values", "pixel_values_videos")


class ChunkwiseForward:
    """Between `install` and `remove`, a forward of several chunks is a forward of each, with the same cache, and its output has the
    logits of all. Each passes through the model's hooks.

    pieces_of(count, cache)    how so many tokens are cut
    announce(piece, is_first)  is told of each before its forward
    """

    def __init__(self, model, pieces_of, announce):
        self._model, self._pieces_of, self._announce = model, pieces_of, announce
        self._is_inside = False
        self._undo = []

    def install(self):
        own, before = self._model.forward, vars(self._model).get("forward")

        @functools.wraps(own)
        def forward(*arguments, **options):
            return own(*arguments, **options) if self._is_inside else self._run(Called(self._model, arguments, options))
        self._model.forward = forward
        # Some models have one that is theirs alone, as those that accelerate spreads over devices.
        self._undo = [functools.partial(setattr, self._model, "forward", before) if before is not None
                      else functools.partial(vars(self._model).pop, "forward")]

    def remove(self):
        while self._undo:
            self._undo.pop()()

    def _run(self, called):
        given, config = dict(called.by_name), self._model.config
        ids = given.get("input_ids")
        pieces = [] if ids is None else self._pieces_of(ids.shape[-1], called.cache)
        if len(pieces) > 1:
            _check(given, config)
        keep, wants_table = given.pop("logits_to_keep", 0), given.pop("return_dict", None)
        output = self._output(given, pieces, called.cache, keep)
        if not isinstance(keep, int):
            output.logits = output.logits[:, keep]
        return output if (config.return_dict if wants_table is None else wants_table) else output.to_tuple()

    def _output(self, given, pieces, cache, keep):
        """That of the last piece, with the logits of all that the caller may ask for."""
        most, logits, self._is_inside = keep if isinstance(keep, int) and keep > 0 else None, [], True
        try:
            for piece in pieces or [None]:
                if piece is not None:
                    self._announce(piece, piece is pieces[0])
                part = given if len(pieces) < 2 else _part(given, piece, pieces[0].begin, cache)
                output = self._model(**part, logits_to_keep=0, return_dict=True)
                cache = getattr(output, "past_key_values", None)
                if cache is None and len(pieces) > 1:
                    raise _refused("the model gives no cache to go on from", "allow it (use_cache=True)")
                logits.append(output.logits)
                if most:  # No more are held than are asked for.
                    logits = [torch.cat(logits, dim=1)[:, -most:].clone()]
        finally:
            self._is_inside = False
        output.logits = logits[0] if len(logits) == 1 else torch.cat(logits, dim=1)
        return output


def _part(given, piece, first, cache):
    """The arguments of the forward of a piece; `first` is the position of the first token that was given."""
    part = dict(given)
    for name in _BY_TOKEN:
        if part.get(name) is not None:
            part[name] = part[name][..., piece.begin - first : piece.end - first]
    if part.get("attention_mask") is not None:
        part["attention_mask"] = part["attention_mask"][:, : piece.end]
    if cache is not None:
        part["past_key_values"] = cache
    return part


def _check(given, config):
    mask = given.get("attention_mask")
    if mask is not None and not (isinstance(mask, torch.Tensor) and mask.dim() == 2):
        raise _refused("the prompt goes through the model chunk by chunk, and a mask with a row for each query cannot be cut",
                       "leave attention_mask out, and let the cache grow (without cache_implementation)")
    if mask is not None and not bool(mask[:, 0].all()):
        raise _refused("padding stands before the sequence", "give the tokens alone")
    for name in _OF_ONE_FORWARD:
        value = given.get(name)
        if value is not None and value is not False or getattr(config, name, None) is True:
            raise _refused(f"{name} belongs to one forward, and the prompt goes through the model chunk by chunk", f"leave {name} out")


def _refused(why, what_to_do):
    return KvloupeError("the sparse run was stopped", why, what_to_do)
