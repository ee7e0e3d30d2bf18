"""A model whose forward takes one chunk after the other through all of its layers. Needs torch."""
import functools

import torch

from .calls import Called
from .errors import KvloupeError

# Tensors with an entry for each token that is fed, along their last axis.
_BY_TOKEN = ("input_ids", "position_ids", "cache_position", "token_type_ids")
# What would have to be joined of the chunks' outputs, and is not.
_NOT_JOINED = ("labels", "output_hidden_states")


class ChunkwiseForward:
    """Between `install` and `remove`, a forward of several chunks is a forward of each, with the same cache, and its output has the
    logits of all. Each passes through the model's hooks.

    pieces_of(count, cache)    how so many tokens are cut
    announce(piece, is_first)  is told of each before its forward
    """

    def __init__(self, model, pieces_of, announce):
        self._model, self._pieces_of, self._announce = model, pieces_of, announce
        self._is_inside = False

    def install(self):
        own = self._own = self._model.forward

        @functools.wraps(own)
        def forward(*arguments, **options):
            return own(*arguments, **options) if self._is_inside else self._run(Called(self._model, arguments, options))
        self._model.forward = forward

    def remove(self):
        self._model.__dict__.pop("forward", None)

    def _run(self, called):
        given = dict(called.by_name)
        _check(given, self._model.config)
        keep, as_tuple = given.pop("logits_to_keep", 0), given.pop("return_dict", None) is False
        cache, logits, self._is_inside = called.cache, [], True
        try:
            pieces = self._pieces_of(given["input_ids"].shape[-1], cache)
            for piece in pieces:
                self._announce(piece, piece is pieces[0])
                output = self._model(**_part(given, piece, pieces[0].begin, cache), logits_to_keep=0, return_dict=True)
                cache = output.past_key_values
                if cache is None and piece is not pieces[-1]:
                    raise _refused("the model gives no cache to go on from", "allow it (use_cache=True)")
                logits = [_kept([*logits, output.logits], keep)]
        finally:
            self._is_inside = False
        output.logits = logits[0] if isinstance(keep, int) else logits[0][:, keep]
        return output.to_tuple() if as_tuple else output


def _kept(logits, keep):
    """Of the logits so far, those that the caller may ask for. [batch, tokens, vocabulary]"""
    return torch.cat(logits, dim=1)[:, -keep if isinstance(keep, int) else 0 :]


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
    if given.get("input_ids") is None:
        raise _refused("the model was given no token ids", "give input_ids")
    if mask is not None and not (isinstance(mask, torch.Tensor) and mask.dim() == 2):
        raise _refused("a mask of your own cannot be cut into chunks", "leave attention_mask out")
    for name in _NOT_JOINED:
        if given.get(name) is not None and given[name] is not False or getattr(config, name, False):
            raise _refused(f"{name} asks for more than logits, and the prompt goes through the model chunk by chunk", f"leave {name} out")


def _refused(why, what_to_do):
    return KvloupeError("the sparse run was stopped", why, what_to_do)
