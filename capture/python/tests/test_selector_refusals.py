"""kvloupe.Selector refuses what cannot be right, in one sentence, and goes on."""
import os
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np
import torch

import kvloupe

from .selector_cases import arrays, basis, plain, with_files


class Refused(unittest.TestCase):
    def refuses(self, words, call):
        with self.assertRaisesRegex(kvloupe.KvloupeError, words) as caught:
            call()
        self.assertEqual(len(caught.exception.parts), 3)
        self.assertNotIn("\n", str(caught.exception))

    def test_methods_and_models_that_are_none(self):
        for words, spec in (("is not a method", "no_such_method"), ("budget", "quoka:budget_tokens=-1"), ("colour", "quoka:colour=red"), ("is no method", 7),
                            ("is no method", "a\0b"), ("loki has no basis; basis=auto is looked up by the hash", "loki:budget_tokens=4"),
                            ("loki has no basis; basis=self is fitted on a whole text", "loki:budget_tokens=4,basis=self"),
                            ("cannot read the basis /nowhere/b; there is no such file", "aqua:basis=/nowhere/b"), ("gate", "seer_attention"), ("nowhere", "seer_attention:gate=/nowhere/g"),
                            ("nowhere", "minference:config=/nowhere/c")):
            with self.subTest(spec=spec):
                self.refuses(words, lambda: plain(spec))
        for words, changed in (("0 layers", dict(layers=0)), ("do not share", dict(kv_heads=3)), ("-1 numbers a head", dict(head_dim=-1)), ("no number", dict(layers="3")),
                               ("no number", dict(layers=True)), ("out of range", dict(layers=1 << 40)), ("softmax_scale", dict(softmax_scale=0)),
                               ("softmax_scale", dict(softmax_scale=float("nan"))), ("softcap", dict(softcap=-1)), ("threads", dict(threads=-1)), ("window", dict(windows=[1, 2])), ("1073741824 layers", dict(layers=2**30, windows=4)),
                               ("window of layer 2 is -4", dict(windows=[0, 0, -4])), ("shape", dict(sink_logits=np.zeros((2, 4)))),
                               ("not finite", dict(sink_logits=np.full((3, 4), np.nan))), ("model of that hash", dict(spec="loki:budget_tokens=4", model_hash="0" * 64))):
            with self.subTest(changed=changed):
                self.refuses(words, lambda: plain(**changed))

    def test_the_gate_says_that_it_needs_the_rotary_embedding(self):
        gate = [spec for spec in with_files() if spec.startswith("seer_attention")][0]
        self.refuses("rotary embedding", lambda: plain(gate, head_dim=16))

    def test_a_basis_of_another_model(self):
        self.refuses("made for another model", lambda: plain(f"loki:budget_tokens=4,basis={basis('loki')}", head_dim=16, model_hash="0" * 64))
        self.refuses("channels", lambda: plain(f"loki:budget_tokens=4,basis={basis('loki')}"))

    def test_arrays_that_cannot_be_read(self):
        q, k, v = arrays()
        cases = [("q cannot be used; its numbers are <f8", q.astype(np.float64), k, v), ("k cannot be used; its numbers are <i4", q, k.astype(np.int32), v),
                 ("q cannot be used; its numbers are >f4", q.astype(">f4"), k, v), ("three axes", q[None], k, v), ("three axes", q, k[0], v), ("of type list", q.tolist(), k, v),
                 ("of type NoneType", None, k, v), ("array k .* shape is \\[2, 5, 8\\]", q, k[:, :5], v), ("array q .* shape is \\[3, 6, 8\\]", q[:3], k, v),
                 ("array k .* shape is \\[1, 6, 8\\]", q, k[:1], v), ("array v .* shape is \\[2, 6, 4\\]", q, k, np.ascontiguousarray(v[:, :, :4])),
                 ("second axis is 0", q[:, :0], k, v),
                 ("torch.float64", torch.from_numpy(q).double(), k, v), ("three axes", torch.from_numpy(q)[0], k, v), ("torch.int32", q, torch.from_numpy(k).int(), v),
                 ("complex", q.astype(np.complex64), k, v), ("object", q.astype(object), k, v)]
        for number in (np.nan, np.inf, -np.inf):
            for name, at in (("q", 0), ("k", 1), ("v", 2)):
                broken = [q.copy(), k.copy(), v.copy()]
                broken[at][1, 3, 2] = number
                cases.append((f"layer 0, head 1 of {name}, position 3 cannot be used; it holds a NaN or an infinity", *broken))
        with plain() as selector:
            for words, *given in cases:
                with self.subTest(words=words):
                    self.refuses(words, lambda: selector.select(0, *given, 0))
            # All of that changed nothing.
            self.assertEqual([row.tolist() for row in selector.select(0, q, k, v, 0)], [[], []])

    def test_arrays_in_any_order_of_memory_are_copied(self):
        def unaligned(array):
            return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)

        def transposed(array):
            return np.ascontiguousarray(array.transpose(0, 2, 1)).transpose(0, 2, 1)

        def of_torch(array):
            return torch.from_numpy(transposed(array))

        def bfloat16(array):
            return torch.from_numpy(transposed(array)).bfloat16()
        orders = [np.asfortranarray, transposed, unaligned, of_torch, lambda array: of_torch(array).half(),
                  lambda array: np.repeat(array, 2, axis=2)[:, :, ::2], lambda array: np.asfortranarray(array.astype(np.float16)),
                  lambda array: np.ascontiguousarray(array[:, ::-1])[:, ::-1], lambda array: np.ascontiguousarray(array[:, :, ::-1])[:, :, ::-1],
                  bfloat16, lambda array: of_torch(array)[:, :, :1].expand(-1, -1, array.shape[2])]
        q, k, v = arrays()
        k2, v2 = (np.concatenate([rows, -rows[:, ::-1]], 1) for rows in (k, v))
        for order in orders:
            given = [order(array) for array in (q, k2, v2)]
            plainly = [np.array(array, order="C") if isinstance(array, np.ndarray) else array.contiguous() for array in given]
            with plain() as one, plain() as other:
                rows = []
                for selector, (queries, keys, values) in ((one, given), (other, plainly)):
                    selector.select(0, queries, keys[:, :6], values[:, :6], 0)
                    rows.append([row.tolist() for row in selector.select(0, queries, keys, values, 6)])
                self.assertEqual(*rows)
                self.assertTrue(all(0 < len(row) < 6 for row in rows[0]), rows)

    def test_arrays_of_dlpack_that_are_elsewhere(self):
        import ctypes
        from kvloupe.borrowed import _DLTensor
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        q, k, v = arrays()

        class Lent:
            def __init__(self, array, device=1, code=2):
                self.array, self.shape = array, (ctypes.c_int64 * 3)(*array.shape)
                self.tensor = _DLTensor(array.ctypes.data, device, 0, 3, code, 32, 1, self.shape, None, 0)

            def __dlpack__(self):
                return new(ctypes.addressof(self.tensor), b"dltensor", None)

        class Broken:
            def __dlpack__(self):
                raise BufferError("on strike\nand more")

        with plain() as selector:
            self.refuses("q cannot be used; it is not in the memory of the CPU", lambda: selector.select(0, Lent(q, device=2), k, v, 0))
            self.refuses("q cannot be used; its numbers are", lambda: selector.select(0, Lent(q, code=1), k, v, 0))
            self.refuses("q cannot be used; DLPack does not give it: BufferError: on strike and more", lambda: selector.select(0, Broken(), k, v, 0))
            self.assertEqual(len(selector.select(0, Lent(q), Lent(k), Lent(v), 0)), 2)  # no strides: row after row

    def test_arrays_of_a_gpu_are_copied(self):
        import types
        q, k, v = (torch.from_numpy(array) for array in arrays())

        class OfTorch:
            """A tensor that says that it lies elsewhere."""
            device, asked = types.SimpleNamespace(type="cuda"), 0

            def __init__(self, tensor):
                self.tensor = tensor

            def detach(self):
                return self

            def cpu(self):
                OfTorch.asked += 1
                return self.tensor.clone()

            def __dlpack__(self, **options):
                raise AssertionError("its memory is not to be read")

        class OfAnother:
            """An array of DLPack 1.0 that lies elsewhere."""
            asked = []

            def __init__(self, array, error=None):
                self.array, self.error = array, error

            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, *, dl_device=None, copy=None):
                OfAnother.asked.append((dl_device, copy))
                if self.error:
                    raise self.error
                return self.array.clone().__dlpack__()

        class Old(OfAnother):
            def __dlpack__(self):
                raise BufferError("of another device")

        k2, v2 = (torch.cat([rows, rows.flip(1)], 1) for rows in (k, v))
        with plain() as here, plain() as there:
            for past, keys, values in ((0, k, v), (6, k2, v2)):
                want = [row.tolist() for row in here.select(0, q, keys, values, past)]
                self.assertEqual([row.tolist() for row in there.select(0, OfTorch(q), OfAnother(keys), OfTorch(values), past)], want)
            self.assertEqual((OfTorch.asked, OfAnother.asked), (4, [((1, 0), True)] * 2))
            self.refuses("q cannot be used; DLPack does not give it: BufferError: no room", lambda: here.select(1, OfAnother(q, BufferError("no room")), k, v, 0))
            self.refuses("q cannot be used; DLPack does not give it: BufferError: of another device; pass a copy", lambda: here.select(1, Old(q), k, v, 0))
            self.refuses("q cannot be used; DLPack does not give it: NotImplementedError", lambda: here.select(1, q.to("meta"), k, v, 0))
            self.assertEqual(len(here.select(1, q, k, v, 0)), 2)

    def test_a_nan_of_float16_and_in_a_later_chunk(self):
        q, k, v = arrays(6, 6, np.float16)
        with plain() as selector:
            selector.select(0, q, k[:, :6], v[:, :6], 0)
            k[1, 8, 0] = np.inf
            self.refuses("layer 0, head 1 of k, position 8", lambda: selector.select(0, q, k, v, 6))

    def test_chunks_and_layers_out_of_order(self):
        (q, k, v), (_, k2, v2) = arrays(), arrays(6, 6)
        with plain() as selector:
            self.refuses("the first chunk there begins at 0", lambda: selector.select(0, q, k2, v2, 6))
            selector.select(1, q, k, v, 0)
            self.refuses("layer 0 cannot take .* layer 1 comes after it", lambda: selector.select(0, q, k, v, 0))
            self.refuses("the next chunk there begins at 6", lambda: selector.select(1, q, k, v, 0))
            self.refuses("layer 2 cannot take .* another layer took a prefill chunk of 6 tokens", lambda: selector.select(2, q[:, :3], k[:, :3], v[:, :3], 0))
            self.refuses("is a decode chunk", lambda: selector.select(2, q, k, v, 0, "decode"))
            selector.select(1, q, k2, v2, 6)
            self.refuses("layer 1 comes before it|begins at 0", lambda: selector.select(2, q, k2, v2, 6))
            selector.select(2, q, k, v, 0)
            for layer in (-1, 3):
                self.refuses(f"there is no layer {layer}", lambda: selector.select(layer, q, k, v, 0))
            self.refuses("no phase", lambda: selector.select(2, q, k2, v2, 6, "verify"))
            self.refuses("no number", lambda: selector.select(2, q, k2, v2, 6.0))
            self.refuses("shape", lambda: selector.select(2, q, k, v, 6))
            self.refuses("cannot come before", lambda: selector.select(2, q, k, v, -6))
            self.refuses("cannot come before", lambda: selector.select(2, q, k, v, 1 << 62))
            self.refuses("keeps no set alive", lambda: selector.alive(2))
        with plain("tidal_decode:budget_tokens=4,first_layer=1,correction_layer=0") as selector:
            self.refuses("reuses the set of layer 1", lambda: selector.select(2, q, k, v, 0))
        with plain("h2o:budget_tokens=4") as selector:
            self.refuses("nothing is alive in layer 2", lambda: selector.alive(2))

    def test_what_infinipot_needs_beside_arrays(self):
        q, k, v = arrays()
        novelty = np.r_[np.inf, np.ones(5)]
        with plain("infinipot:budget_tokens=4") as selector:
            self.refuses("needs -log P of each token", lambda: selector.select(0, q, k, v, 0))
            self.refuses("needs the queries of a probe text", lambda: selector.select(0, q, k, v, 0, novelty=novelty))
            self.refuses("novelty cannot be used; its shape", lambda: selector.select(0, q, k, v, 0, novelty=novelty[:3], probe_q=q))
            self.refuses("novelty cannot be used; it holds a NaN", lambda: selector.select(0, q, k, v, 0, novelty=novelty * np.nan, probe_q=q))
            self.refuses("array probe_q .* shape", lambda: selector.select(0, q, k, v, 0, novelty=novelty, probe_q=q[:2]))
            selector.select(0, q, k, v, 0, novelty=novelty, probe_q=q)
            self.assertEqual([len(row) for row in selector.alive(0)], [4, 4])

    def test_numbers_of_torch_that_numpy_does_not_have(self):
        q, k, v = arrays()
        numbers = torch.tensor([[1.0, -2.0, 3.0, 0.5]] * 3)
        for given in (numbers, numbers.bfloat16()):
            with plain(sink_logits=given) as selector:
                self.assertEqual(len(selector.select(0, q, k, v, 0)), 2)
        alive = []
        for novelty in (torch.arange(6.0), torch.arange(6.0).bfloat16()):
            with plain("infinipot:budget_tokens=4") as selector:
                selector.select(0, q, k, v, 0, novelty=novelty, probe_q=q)
                alive.append([row.tolist() for row in selector.alive(0)])
        self.assertEqual(*alive)

    def test_values_where_they_are_read(self):
        q, k, _ = arrays(m=6)
        with plain(f"aqua_h2o:basis={basis('aqua')}", head_dim=16) as selector:
            wide = np.concatenate([q, q], axis=2), np.concatenate([k, k], axis=2)
            self.refuses("aqua_h2o cannot select; it reads values", lambda: selector.select(0, *wide, None, 0))
            selector.select(0, *wide, wide[1], 0)
        with plain() as selector:
            self.assertEqual(len(selector.select(0, q, k, None, 0)), 2)

    def test_a_selector_that_was_closed_or_copied(self):
        import copy
        selector = plain()
        self.refuses("cannot be copied", lambda: copy.deepcopy(selector))
        selector.close()
        selector.close()
        for call in (lambda: selector.select(0, *arrays(), 0), selector.reset, selector.fork, lambda: selector.alive(0), lambda: selector.dense_reason):
            self.refuses("it was closed", call)

    @unittest.skipUnless(hasattr(os, "fork"), "processes cannot be forked here")
    def test_a_forked_child_is_told(self):
        """Also where another thread is in a call at that moment, whose lock the child has for good."""
        selector, held, done = plain(), threading.Event(), threading.Event()

        def be_in_a_call():
            with selector._open():
                held.set()
                done.wait()

        thread = threading.Thread(target=be_in_a_call)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a lock that is waited for
            code = 1
            try:
                for call in (lambda: selector.select(0, *arrays(), 0), selector.reset, selector.fork, lambda: selector.dense_reason):
                    self.refuses("cannot be used in this process; .* forked; make a selector after the fork", call)
                selector.close()
                code = 0
            finally:
                os._exit(code)
        ended = os.waitpid(child, 0)[1]
        done.set()
        thread.join()
        self.assertEqual(ended, 0)
        self.assertEqual(len(selector.select(0, *arrays(), 0)), 2)

    def test_libraries_that_are_none(self):
        for file, words in (("/nowhere/libkvloupe.so", "cannot be used"), (os.environ["KVLOUPE_PROGRAM"], "cannot be used")):
            code = "import kvloupe\ntry: kvloupe.Selector('dense', layers=1, q_heads=1, kv_heads=1, head_dim=8)\nexcept kvloupe.KvloupeError as error: print(error)"
            done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "KVLOUPE_LIBRARY": file}, capture_output=True, text=True, timeout=120, check=True)
            self.assertIn(words, done.stdout)

    def test_a_package_near_the_root_of_the_file_system(self):
        from kvloupe import installed, library
        environment = {name: value for name, value in os.environ.items() if name not in ("KVLOUPE_PROGRAM", "KVLOUPE_LIBRARY")}
        for folder in ("/kvloupe", "/no-such-folder/kvloupe", "/no-such-folder/python/kvloupe"):
            with mock.patch.object(installed, "__file__", f"{folder}/installed.py"), mock.patch.dict(os.environ, {**environment, "PATH": "/nowhere"}, clear=True):
                self.refuses("kvloupe cannot be asked; it was not found", installed.program)
                self.refuses("libkvloupe.so was not found", library._file)

if __name__ == "__main__":
    unittest.main()
