"""Row sums in pieces against plain loops, and where prefill is cut."""
import unittest
from unittest import mock

import numpy as np
import torch

from kvloupe import softmax
from kvloupe.chunks import ChunkTable
from kvloupe.softmax_form import SoftmaxForm

from .support import plain_softmax

FORMS = [dict(), dict(window=1), dict(window=5), dict(softcap=2.0), dict(sinks=torch.tensor([0.5, -1.0, 3.0, 0.0])),
         dict(window=7, softcap=1.5, sinks=torch.tensor([2.0, 0.0, -3.0, 1.0]))]


class SumRows(unittest.TestCase):
    def test_all_rows_at_once(self):
        q, k = torch.randn(4, 20, 8), torch.randn(2, 20, 8)
        for form in FORMS:
            with self.subTest(form=form):
                p, expected = plain_softmax(q, k, 0.7, **form)
                lse, mass = softmax.sum_rows(q, k, SoftmaxForm(0.7, **form), 0, 0, True)
                np.testing.assert_allclose(lse, expected, atol=1e-5)
                np.testing.assert_allclose(mass, p.reshape(2, 2, 20, 20).sum((1, 2)), atol=1e-5)

    def test_tiles_of_every_size_give_the_same(self):
        q, k = torch.randn(4, 20, 8), torch.randn(2, 20, 8)
        for form in FORMS:
            form = SoftmaxForm(0.7, **form)
            lse, mass = softmax.sum_rows(q, k, form, 0, 0, True)
            for logits, rows in ((1, 1), (1, 7), (100, 3), (10**6, 20)):
                with mock.patch.multiple(softmax, MOST_LOGITS_OF_A_THREAD=logits, LEAST_ROWS=rows):
                    again = softmax.sum_rows(q, k, form, 0, 0, True)
                torch.testing.assert_close(again[0], lse)
                torch.testing.assert_close(again[1], mass)

    def test_later_rows_on_the_keys_that_a_window_left(self):
        q, k = torch.randn(4, 20, 8), torch.randn(2, 20, 8)
        p, expected = plain_softmax(q, k, 0.7, window=5)
        lse, mass = softmax.sum_rows(q[:, 12:], k[:, 8:], SoftmaxForm(0.7, 5), 12, 8, True)
        np.testing.assert_allclose(lse, expected[:, 12:], atol=1e-5)
        np.testing.assert_allclose(mass, p.reshape(2, 2, 20, 20)[:, :, 12:, 8:].sum((1, 2)), atol=1e-5)

    def test_what_the_model_was_allowed_does_not_reach_the_sums(self):
        q, k = torch.randn(4, 20, 8), torch.randn(2, 20, 8)
        expected = softmax.sum_rows(q, k, SoftmaxForm(0.7), 0, 0, False)[0]
        torch.set_float32_matmul_precision("medium")
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                lse = softmax.sum_rows(q, k, SoftmaxForm(0.7), 0, 0, False)[0]
            self.assertEqual(torch.get_float32_matmul_precision(), "medium")
        finally:
            torch.set_float32_matmul_precision("highest")
        self.assertTrue(torch.equal(lse, expected))


def table_of(chunk_size, forwards):
    table, chunks = ChunkTable(chunk_size), []
    for count in forwards:
        pieces = table.cut(count)
        if pieces[0].phase:
            chunks.append(table.close_open())
        chunks += table.advance(pieces)
    chunks.append(table.close_open())
    return [chunk for chunk in chunks if chunk is not None]


class Chunks(unittest.TestCase):
    def test_prefill_is_cut_from_position_0(self):
        expected = [(0, 4, 0), (4, 4, 0), (8, 2, 0)]
        for forwards in ([10], [4, 6], [3, 3, 4], [8, 2], [2, 2, 2, 2, 2]):
            self.assertEqual(table_of(4, forwards), expected, forwards)

    def test_each_later_forward_of_one_token_is_decoded(self):
        self.assertEqual(table_of(4, [6, 1, 1]), [(0, 4, 0), (4, 2, 0), (6, 1, 1), (7, 1, 1)])
        self.assertEqual(table_of(4, [1, 1]), [(0, 1, 0), (1, 1, 1)])

    def test_a_second_turn_goes_on_at_multiples(self):
        self.assertEqual(table_of(4, [5, 1, 9]), [(0, 4, 0), (4, 1, 0), (5, 1, 1), (6, 2, 0), (8, 4, 0), (12, 3, 0)])


if __name__ == "__main__":
    unittest.main()
