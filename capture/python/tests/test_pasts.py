"""Pasts that are not what was recorded, and masks that are not what a trace says: each is refused, none is recorded as if."""
import functools
import unittest
import unittest.mock

import h5py
import numpy as np
import torch
import transformers

import kvloupe

from .support import generate, load_model, prompt, scratch


class Case(unittest.TestCase):
    attention = "eager"

    def setUp(self):
        self.path = scratch(f"{self.id()}.h5")
        self.model = load_model("llama", self.attention)
        self.ids = prompt("llama")
        self.count = self.ids.shape[1]

    def cache(self, tokens=0, ids=None):
        cache = transformers.DynamicCache(config=self.model.config)
        if tokens:
            with torch.no_grad():
                self.model((self.ids if ids is None else ids)[:, :tokens], past_key_values=cache)
        return cache

    def refuse(self, sentence, run, **options):
        with self.assertRaisesRegex(kvloupe.KvloupeError, sentence) as caught, torch.no_grad():
            with kvloupe.record(self.model, self.path, chunk_size=4, force=True, **options):
                run()
        self.assertEqual(str(caught.exception).count("; "), 2, "what; why; what to do")

    def record(self, run, **options):
        with kvloupe.record(self.model, self.path, chunk_size=4, dtype="float32", force=True, **options), torch.no_grad():
            run()
        return kvloupe.open(self.path)


class WrongPasts(Case):
    def test_filled_before_and_passed_by_position(self):
        cache = self.cache(20)
        self.refuse("the cache has 20 tokens of which 0", lambda: self.model(self.ids[:, 20:21], None, None, cache))

    def test_filled_before_and_passed_by_position_in_one_chunk(self):
        cache = self.cache(20)
        self.refuse("the cache has 20 tokens of which 0", lambda: self.model(self.ids[:, 20:], None, None, cache))

    def test_filled_before_and_passed_by_name(self):
        cache = self.cache(5)
        self.refuse("the cache has 5 tokens", lambda: self.model(self.ids[:, 5:], past_key_values=cache))

    def test_filled_before_and_given_to_generate(self):
        cache = self.cache(5)
        self.refuse("the cache has 5 tokens", lambda: generate(self.model, self.ids, past_key_values=cache))

    def test_filled_before_and_given_to_the_decoder(self):
        cache = self.cache(5)
        self.refuse("the cache has 5 tokens", lambda: self.model.model(self.ids[:, 5:], None, None, cache))

    def test_a_cache_that_hides_its_length(self):
        """Whatever a cache says of itself, attention is given its keys."""
        cache = self.cache(20)
        cache.get_seq_length = lambda layer_idx=0: 0
        self.refuse("layer 0 is given 21 keys where 1 tokens were fed", lambda: self.model(self.ids[:, 20:21], None, None, cache))
        self.refuse("layer 0 is given .* keys where", lambda: self.model(self.ids[:, 21:], past_key_values=cache))

    def test_pairs_in_place_of_a_cache(self):
        pairs = tuple((layer.keys, layer.values) for layer in self.cache(5).layers)
        with self.assertRaises((kvloupe.KvloupeError, AttributeError, TypeError, ValueError)), torch.no_grad():
            with kvloupe.record(self.model, self.path, force=True):
                self.model(self.ids[:, 5:], past_key_values=pairs)
        self.assertFalse(self.path.exists())

    def test_the_cache_of_another_sequence(self):
        other = self.cache(9, self.ids.flip(1))
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            self.model(self.ids[:, 9:], past_key_values=other)
        self.refuse("does not hold the sequence", run)

    def edited(self, edit):
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            edit(cache.layers[1])
            self.model(self.ids[:, 9:], None, None, cache)
        self.refuse("cache of layer 1 does not hold the sequence", run)
        with kvloupe.open(self.path) as trace:
            self.assertEqual((trace.num_tokens, trace.complete), (9, False))

    def test_one_key_edited_in_place(self):
        def edit(layer):
            layer.keys[0, 1, 3] *= 1.01
        self.edited(edit)

    def test_one_value_edited_in_place(self):
        def edit(layer):
            layer.values[0, 0, 0, 2] += 0.1
        self.edited(edit)

    def test_two_keys_that_changed_places(self):
        def edit(layer):
            layer.keys[:, :, [2, 6]] = layer.keys[:, :, [6, 2]]
        self.edited(edit)

    def test_a_key_that_was_lost_and_one_put_in(self):
        def edit(layer):
            layer.keys = torch.cat([layer.keys[:, :, 1:], layer.keys[:, :, -1:]], 2)
        self.edited(edit)

    def test_cropped(self):
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            cache.crop(-2)
            self.model(self.ids[:, 7:12], None, None, cache)
        self.refuse("cropped from 9 tokens to 7", run)

    def test_cropped_and_filled_with_others(self):
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            cache.crop(-2)
            self.model.model.forward(self.ids[:, :2], past_key_values=cache)
        self.refuse("outside of a forward", run)

    def test_one_layer_without_its_oldest_keys(self):
        if self.attention == "eager":
            return  # Its mask does not fit the keys, which transformers says.
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            for layer in cache.layers[1:]:
                layer.keys, layer.values = layer.keys[:, :, 2:], layer.values[:, :, 2:]
            self.model(self.ids[:, 9:10], past_key_values=cache)
        self.refuse("layer 1 is given 8 keys where 10 tokens were fed", run)

    def test_generating_without_a_cache(self):
        self.refuse("fed the tokens once more .* allow the cache", lambda: generate(self.model, self.ids, use_cache=False))
        with self.record(lambda: generate(self.model, self.ids, use_cache=True)) as trace:
            self.assertTrue(trace.complete)

    def test_a_single_forward_without_a_cache(self):
        with self.record(lambda: self.model(self.ids, use_cache=False)) as trace:
            self.assertEqual((trace.num_tokens, trace.complete), (self.count, True))

    def test_a_second_sequence(self):
        def run():
            self.model(self.ids[:, :9])
            self.model(self.ids[:, 9:])
        self.refuse("second sequence", run)

    def test_a_cache_that_is_passed_by_position_and_began_inside(self):
        cache = self.cache()

        def run():
            for begin, end in ((0, 9), (9, 20), (20, 21), (21, self.count)):
                self.model(self.ids[:, begin:end], None, None, cache)
        with self.record(run) as trace:
            self.assertEqual(trace.tokens.tolist(), self.ids[0].tolist())
            whole = self.record(lambda: self.model(self.ids), layers=[0])
            np.testing.assert_allclose(trace.lse(0)[:], whole.lse(0)[:], atol=1e-5)


class WrongPastsWithSdpa(WrongPasts):
    attention = "sdpa"


class WrongMasks(Case):
    def causal(self, rows=None):
        return torch.tril(torch.ones(self.count, self.count, dtype=torch.bool))[None, None]

    def as_given(self, shown):
        if self.attention == "sdpa":
            return shown
        return torch.zeros(shown.shape).masked_fill(~shown, torch.finfo(torch.float32).min)

    def test_one_past_key_hidden_in_one_row(self):
        for row, key in ((9, 3), (self.count - 1, 0), (17, 16)):
            mask = self.causal()
            mask[0, 0, row, key] = False
            self.refuse(f"hides token {key} from token {row}", lambda: self.model(self.ids, attention_mask=self.as_given(mask)))

    def test_one_later_key_shown_in_one_row(self):
        mask = self.causal()
        mask[0, 0, 7, 8] = True
        self.refuse("shows token 8 to token 7", lambda: self.model(self.ids, attention_mask=self.as_given(mask)))

    def test_everything_shown(self):
        mask = torch.ones_like(self.causal())
        self.refuse("shows token 1 to token 0", lambda: self.model(self.ids, attention_mask=self.as_given(mask)))

    def test_numbers_added_to_the_logits(self):
        bias = -0.1 * (torch.arange(self.count)[:, None] - torch.arange(self.count)).clamp_min(0).float()
        mask = bias.masked_fill(~self.causal()[0, 0], torch.finfo(torch.float32).min)[None, None]
        self.refuse("mask of layer 0 adds numbers to the logits", lambda: self.model(self.ids, attention_mask=mask))

    def test_one_head_alone(self):
        mask = self.causal().repeat(1, self.model.config.num_attention_heads, 1, 1)
        mask[0, -1, 12, 4] = False
        self.refuse("hides token 4 from token 12", lambda: self.model(self.ids, attention_mask=self.as_given(mask)))

    def test_its_own_mask_where_it_is_causal(self):
        with self.record(lambda: self.model(self.ids, attention_mask=self.as_given(self.causal()))) as trace:
            self.assertEqual(trace.num_tokens, self.count)

    def test_packed_by_positions(self):
        positions = torch.cat([torch.arange(20), torch.arange(self.count - 20)])[None]
        self.refuse("hides token 0 from token 20", lambda: self.model(self.ids, position_ids=positions, use_cache=False))

    def test_positions_that_leap_within_one_sequence(self):
        """They turn queries and keys elsewhere, which is what is recorded; nothing is hidden."""
        positions = torch.arange(self.count)[None] * 2
        with self.record(lambda: self.model(self.ids, position_ids=positions, attention_mask=torch.ones_like(self.ids))) as trace:
            self.assertEqual(trace.num_tokens, self.count)

    def test_padding_on_the_right_and_holes(self):
        for at in (slice(-3, None), slice(4, 6)):
            mask = torch.ones_like(self.ids)
            mask[0, at] = 0
            self.refuse("leaves tokens out that do not stand before", lambda: self.model(self.ids, attention_mask=mask))

    def test_a_mask_of_the_new_tokens_alone(self):
        cache = self.cache()

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            self.model(self.ids[:, 9:15], attention_mask=torch.ones(1, 6), past_key_values=cache)
        self.refuse("mask of layer 0 is not causal: it hides token 6 from token 9", run)

    def test_a_mask_that_forgets_the_past_later(self):
        cache = self.cache()
        mask = torch.ones(1, 10)
        mask[0, 2] = 0

        def run():
            self.model(self.ids[:, :9], past_key_values=cache)
            self.model(self.ids[:, 9:10], attention_mask=mask, past_key_values=cache)
        self.refuse("hides token 2 from token 9", run)

    def test_a_model_that_was_told_to_see_both_ways(self):
        for layer in self.model.model.layers:
            layer.self_attn.is_causal = False
        self.model.config.is_causal = False
        try:
            self.refuse("later tokens too|shows token 1 to token 0", lambda: self.model(self.ids))
        finally:
            del self.model.config.is_causal
            for layer in self.model.model.layers:
                layer.self_attn.is_causal = True


class WrongMasksWithSdpa(WrongMasks):
    attention = "sdpa"


class LeftPadding(Case):
    """Tokens of padding are left out; what stands is what transformers computes of the others."""
    PADS = 3

    def setUp(self):
        super().setUp()
        self.padded = torch.cat([torch.full((1, self.PADS), 2), self.ids], 1)
        self.mask = torch.ones_like(self.padded)
        self.mask[:, : self.PADS] = 0

    def check(self, run, tokens, **options):
        with self.record(run, **options) as trace, self.alone() as alone:
            self.assertEqual(trace.tokens.tolist()[: self.count], self.ids[0].tolist())
            self.assertEqual((trace.num_tokens, trace.complete), (tokens, True))
            self.assertEqual(trace.chunks[0], alone.chunks[0])
            for layer in trace.layers:
                for name in ("lse", "v"):  # Turned by other angles, q and k have the same products.
                    stored, expected = (np.asarray(getattr(one, name)(layer)) for one in (trace, alone))
                    np.testing.assert_allclose(stored[:, : self.count], expected[:, : self.count], atol=2e-5)

    def alone(self):
        self.path = scratch(f"{self.id()}.alone.h5")
        return self.record(lambda: self.model(self.ids))

    def generate(self, **options):
        return self.model.generate(self.padded, attention_mask=self.mask, max_new_tokens=4, do_sample=False, eos_token_id=None,
                                   pad_token_id=2, **options)

    def test_one_forward(self):
        self.check(lambda: self.model(self.padded, attention_mask=self.mask), self.count)

    def test_by_position(self):
        self.check(lambda: self.model(self.padded, self.mask), self.count)

    def test_generating(self):
        self.check(self.generate, self.count + 3)
        with kvloupe.open(scratch(f"{self.id()}.h5")) as trace:
            with torch.no_grad():
                fed = self.generate()[0, self.PADS :].tolist()
            self.assertEqual(trace.tokens.tolist(), fed[:-1])

    def test_generating_in_a_static_cache(self):
        self.check(lambda: self.generate(cache_implementation="static"), self.count + 3)

    def test_a_row_of_a_batch(self):
        others = torch.cat([self.padded.flip(1), self.padded])
        masks = torch.cat([torch.ones_like(self.mask), self.mask])
        self.check(lambda: self.model(others, attention_mask=masks), self.count, batch_index=1)

    def test_a_turn_that_is_given_its_new_tokens_alone(self):
        """As generate takes it beside a cache, or all of the text: the recording is the same."""
        turn, told = self.ids.flip(1)[:, :7], []
        for alone in (False, True):
            cache = transformers.DynamicCache(config=self.model.config)
            first = generate(self.model, self.ids, steps=3, past_key_values=cache)
            whole = torch.cat([first, turn], 1)
            cache = transformers.DynamicCache(config=self.model.config)

            def run(cache=cache, whole=whole, alone=alone):
                generate(self.model, self.ids, steps=3, past_key_values=cache)
                given = whole[:, cache.get_seq_length() :] if alone else whole
                self.model.generate(given, attention_mask=torch.ones_like(whole), past_key_values=cache, max_new_tokens=4, do_sample=False,
                                    eos_token_id=None, pad_token_id=0)
            with self.record(run) as trace:
                told.append((trace.tokens.tolist(), trace.complete))
            with h5py.File(self.path) as file:
                told[-1] += (file["tokens/generated"][:].tolist(),)
        self.assertEqual(*told)

    def test_a_row_that_ends_before_the_others(self):
        """It is recorded as it would be alone: what is fed for the others' sake is no part of it."""
        both = torch.cat([self.ids, self.ids.flip(1)])

        def answers(ids, **options):
            with torch.no_grad():
                return self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0, **options)

        first, second = answers(both, eos_token_id=None)[:, self.count :].tolist()
        end = next(token for token in first[1:5] if token not in second and token not in first[:1])
        for row, ids in ((0, self.ids), (1, self.ids.flip(1))):
            told = []
            config = transformers.GenerationConfig(max_new_tokens=8, eos_token_id=end, pad_token_id=0)
            for run, index in ((lambda ids=ids: answers(ids, eos_token_id=end), 0), (lambda: answers(both, eos_token_id=[end]), row),
                               (lambda: self.model.generate(both, config, attention_mask=torch.ones_like(both)), row)):
                with self.record(run, batch_index=index) as trace:
                    self.assertTrue(trace.complete)
                    told.append((trace.tokens.tolist(), [tuple(chunk) for chunk in trace.chunks]))
                with h5py.File(self.path) as file:
                    told[-1] += (file["tokens/generated"][:].tolist(),)
            self.assertEqual(told[1:], told[:1] * 2)
            self.assertEqual(told[0][2], second if row else first[: first.index(end) + 1])

    def test_a_mask_of_ones_own(self):
        size = self.padded.shape[1]
        shown = torch.tril(torch.ones(size, size, dtype=torch.bool))[None, None] & self.mask[:, None, None].bool()
        mask = torch.zeros(shown.shape).masked_fill(~shown, torch.finfo(torch.float32).min)
        self.check(lambda: self.model(self.padded, attention_mask=mask), self.count)

    def test_padding_that_is_seen_later(self):
        cache = self.cache()

        def run():
            self.model(self.padded[:, :10], attention_mask=self.mask[:, :10], past_key_values=cache)
            self.model(self.padded[:, 10:], past_key_values=cache)
        self.refuse("shows the padding to token 7", run)


class LeftPaddingWithSdpa(LeftPadding):
    attention = "sdpa"


def bottom_right(module, query, key, value, attention_mask, scaling=None, position_ids=None, bias=0.0, **_):
    """As flash attention: no mask of positions, the last query at the last key; sequences are told by their positions."""
    group = query.shape[1] // key.shape[1]
    key, value = (rows.repeat_interleave(group, 1) for rows in (key, value))
    rows, keys = torch.arange(query.shape[2])[:, None] + key.shape[2] - query.shape[2], torch.arange(key.shape[2])
    hidden = keys > rows
    if position_ids is not None and query.shape[2] == key.shape[2]:
        sequence = (position_ids[0].diff(prepend=position_ids[0, :1] - 1) != 1).cumsum(0)
        hidden = hidden | (sequence[:, None] != sequence)
    logits = (query @ key.transpose(2, 3) * scaling - bias * (rows - keys)).masked_fill(hidden, float("-inf"))
    return (logits.softmax(-1) @ value).transpose(1, 2).contiguous(), None


class OfOnesOwn(Case):
    """An attention that is registered with transformers under another name, which says nothing of what it hides."""
    name = "bottom_right"

    def setUp(self):
        super().setUp()
        self.as_eager = self.record(lambda: self.model(self.ids))
        self.addCleanup(self.as_eager.close)
        self.path = scratch(f"{self.id()}.own.h5")
        self.addCleanup(setattr, self.model.config, "_attn_implementation", "eager")
        self.use(bottom_right)

    def use(self, function):
        patched = unittest.mock.patch.dict(transformers.AttentionInterface._global_mapping, {self.name: function})
        patched.start()
        self.addCleanup(patched.stop)
        self.model.config._attn_implementation = self.name

    def test_plain(self):
        cache = self.cache()

        def run():
            for begin, end in ((0, 9), (9, 20), (20, 21), (21, self.count)):
                self.model(self.ids[:, begin:end], past_key_values=cache)
        with self.record(run) as trace:
            for layer in trace.layers:
                np.testing.assert_allclose(trace.lse(layer)[:], self.as_eager.lse(layer)[:], atol=2e-5)

    def test_packed_by_positions(self):
        positions = torch.cat([torch.arange(20), torch.arange(self.count - 20)])[None]
        self.refuse("something else than softmax", lambda: self.model(self.ids, position_ids=positions, use_cache=False))

    def test_a_bias_that_nothing_tells(self):
        self.use(functools.partial(bottom_right, bias=0.1))
        self.refuse("layer 0 gives something else than softmax", lambda: self.model(self.ids))

    def test_filled_before(self):
        cache = self.cache(20)
        self.refuse("the cache has 20 tokens", lambda: self.model(self.ids[:, 20:21], None, None, cache))


class FlashOfOnesOwn(OfOnesOwn):
    """What stands where flash attention would: it has masks of keys at most."""
    name = "flash_attention_2"


if __name__ == "__main__":
    unittest.main()
