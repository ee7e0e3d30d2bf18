"""`import`: what arrays of another program say is what the program reads, and what they cannot say is refused."""
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import unittest
import zipfile

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

import kvloupe
from kvloupe import array_files
from kvloupe.__main__ import main

from .support import program, program_json, recorded, scratch
from .test_own_method import copy_of


def said(*arguments):
    """(exit code, standard error) of python -m kvloupe import."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        try:
            code = main(["import", *map(str, arguments)])
        except SystemExit as error:
            code = error.code
    return code, told.getvalue()


class Case(unittest.TestCase):
    def assertRefused(self, arguments, why, code=1):
        got, told = said(*arguments)
        self.assertEqual(got, code, told)
        self.assertRegex(told, why)
        self.assertEqual(told.count("\n"), 1, told)
        self.assertGreaterEqual(told.count("; "), 2, told)


class Selections(Case):
    """One selection of each token, row and layer, drawn at random, in every form."""

    def setUp(self):
        self.path = copy_of("llama", self._testMethodName)
        with kvloupe.open(self.path) as trace:
            self.chunks, self.layers, self.tokens = trace.chunks, trace.layers, trace.num_tokens
            self.kv_heads, self.q_heads = trace.model["num_kv_heads"], trace.model["num_q_heads"]
        random = np.random.default_rng(7)
        self.mask = np.zeros((self.tokens, len(self.layers), self.q_heads, self.tokens), bool)
        for token in range(self.tokens):
            self.mask[token, :, :, : token + 1] = random.random((len(self.layers), self.q_heads, token + 1)) < 0.1

    def union_of(self, chunk, layer, row):
        """What a chunk's row keeps, by a plain loop."""
        kept = set()
        for token in range(chunk.begin, chunk.end):
            kept |= {int(key) for key in np.flatnonzero(self.mask[token, layer, row]) if key < chunk.begin}
        return sorted(kept)

    def padded(self, mask):
        k = mask.sum(axis=-1).max()
        out = np.full((*mask.shape[:-1], k), -1, np.int32)
        for at in np.ndindex(mask.shape[:-1]):
            kept = np.flatnonzero(mask[at])
            out[at][: len(kept)] = kept[::-1]  # engines do not sort them
        return out

    def csr(self, mask):
        kept = [np.flatnonzero(mask[at]) for at in np.ndindex(mask.shape[:-1])]
        return dict(offsets=np.cumsum([0] + [len(one) for one in kept]), positions=np.concatenate(kept).astype(np.int32))

    def by_program(self, name):
        report = program_json("select", self.path, "--method", f"custom:{name}")
        return {(layer["layer"], chunk["chunk"], i): row["selected"] for layer in report["layers"] for chunk in layer["chunks"]
                for i, row in enumerate(chunk.get("q_heads", chunk.get("kv_heads"))) if chunk["dense_reason"] is None}

    def check(self, name, arrays, suffix):
        file = scratch(f"{name}{suffix}")
        if suffix == ".npy":
            np.save(file, arrays)
        elif suffix == ".npz":
            np.savez_compressed(file, **(arrays if isinstance(arrays, dict) else {"selected": arrays}))
        else:
            safetensors.numpy.save_file(arrays if isinstance(arrays, dict) else {"selected": np.ascontiguousarray(arrays)}, file)
        self.assertEqual(said("--trace", self.path, "--name", name, file)[0], 0)
        got = self.by_program(name)
        self.assertTrue(got)
        for (layer, chunk, row), selected in got.items():
            self.assertEqual(selected, self.union_of(self.chunks[chunk], self.layers.index(layer), row), (name, layer, chunk, row))

    def test_every_form_of_tokens_in_every_kind_of_file(self):
        for suffix in (".npy", ".npz", ".safetensors"):
            self.check(f"mask{suffix[1:]}", self.mask, suffix)
            self.check(f"padded{suffix[1:]}", self.padded(self.mask), suffix)
        for suffix in (".npz", ".safetensors"):
            self.check(f"csr{suffix[1:]}", self.csr(self.mask), suffix)
        self.assertIn("sound", program("validate", self.path))

    def test_chunks_without_rows(self):
        """The last token of each chunk speaks for it, and its first head for all rows."""
        lasts = [chunk.end - 1 for chunk in self.chunks]
        by_chunk = self.mask[lasts][:, :, 0]
        with kvloupe.open(self.path) as trace:
            for name, given in (("m", by_chunk), ("p", self.padded(by_chunk)), ("c", self.csr(by_chunk))):
                run = trace.add_run(name, positions=given)
                self.assertEqual(run.row_axis, "kv_head")
                for index, chunk in enumerate(self.chunks[1:], 1):
                    want = [int(key) for key in np.flatnonzero(by_chunk[index, 1]) if key < chunk.begin]
                    self.assertEqual(run.selected(self.layers[1], index, self.kv_heads - 1).tolist(), want)

    def test_the_program_takes_them_too(self):
        file = scratch("by-program.npy")
        np.save(file, self.mask)
        self.assertIn("custom:engine", program("import", "--trace", self.path, "--name", "engine", file))
        self.assertEqual(len(self.by_program("engine")), len(self.layers) * (len(self.chunks) - 1) * self.q_heads)
        program("import", "--trace", self.path, "--name", "engine", expect=2)
        program("import", "--trace", self.path, "--name", "engine", scratch("absent.npy"), expect=1)

    def test_unsigned_positions_and_a_shape_that_says_which(self):
        """As many cells as tokens without rows have, and as chunks with rows of this number: only the shape says it."""
        with kvloupe.open(self.path) as trace:
            lasts = [chunk.end - 1 for chunk in self.chunks]
            by_chunk = self.mask[lasts][:, :, : self.kv_heads]
            csr = self.csr(by_chunk)
            csr["positions"] = csr["positions"].astype(np.uint32)
            run = trace.add_run("shaped", positions=dict(csr, shape=np.array(by_chunk.shape[:3])))
            index = len(self.chunks) - 1
            want = [int(key) for key in np.flatnonzero(by_chunk[index, 0, 1]) if key < self.chunks[index].begin]
            self.assertEqual(run.selected(self.layers[0], index, 1).tolist(), want)

    def test_offsets_without_a_shape_where_there_is_one_kv_head(self):
        """A row for the only KV head and no axis of rows are the same cells."""
        random, given = np.random.default_rng(3), []
        for name, heads in (("q", 4), ("k", 1), ("v", 1)):
            np.save(scratch(f"single-{name}.npy"), random.random((1, heads, 64, 8), np.float32))
            given += [f"--{name}", scratch(f"single-{name}.npy")]
        path, chunks = scratch("single.h5"), 4
        self.assertEqual(said(*given, "--chunk-size", 64 // chunks, "-o", path)[0], 0)
        csr = dict(offsets=np.arange(chunks + 1), positions=np.array([0, 3, 20, 40]))  # one key a chunk
        with kvloupe.open(path) as trace:
            for axis in (None, "kv_head"):
                run = trace.add_run("single", positions=csr, rows=axis)
                self.assertEqual(run.row_axis, "kv_head")
                self.assertEqual([run.selected(0, chunk, 0).tolist() for chunk in range(1, chunks)], [[3], [20], [40]])

    def test_a_window_hides_from_each_token_what_is_before_it(self):
        path = copy_of("gemma3_text", "by-token-window")
        with kvloupe.open(path) as trace:
            layer = next(layer for layer in trace.layers if trace.layer(layer).window)
            token = trace.num_tokens - 1
            first = trace.layer(layer).first_visible(token)
            self.assertGreater(first, trace.layer(layer).first_visible(trace.chunks[-1].begin) - 1)
            mask = np.zeros((trace.num_tokens, 1, trace.num_tokens), bool)
            mask[token, 0, first] = True
            trace.add_run("seen", positions=mask, layers=layer)
            mask[token, 0, first - 1] = True
            with self.assertRaisesRegex(kvloupe.KvloupeError, f"position {first - 1} of layer {layer}, row 0, token {token} .* window begins at {first}"):
                trace.add_run("hidden", positions=mask, layers=layer)

    def test_some_layers(self):
        file = scratch("one-layer.npy")
        np.save(file, self.mask[:, :1])
        self.assertRefused(("--trace", self.path, "--name", "one", file), "axis of layers is 1 long")
        self.assertEqual(said("--trace", self.path, "--name", "one", "--layers", self.layers[-1], file)[0], 0)
        self.assertEqual({layer for layer, _, _ in self.by_program("one")}, {self.layers[-1]})

    def test_what_is_no_selection_is_one_sentence_and_nothing_is_written(self):
        mask, padded, csr = self.mask, self.padded(self.mask), self.csr(self.mask)
        future, negative, twice = padded.copy(), padded.copy(), padded.copy()
        future[20, 1, 0, 0], negative[20, 1, 0, 0], twice[20, 1, 0, :2] = 21, -7, 3
        all_true = np.ones_like(mask)
        falling = dict(csr, offsets=csr["offsets"][::-1].copy())
        beyond = dict(csr, positions=csr["positions"][:-1])
        shaped = dict(csr, shape=np.array([3, 5]))
        for arrays, why in ((future, "position 21 of layer 1, row 0, token 20 .* of the future: the last key visible there is 20"),
                            (negative, "position -7 of layer 1, row 0, token 20"), (twice, "position 3 of layer 1, row 0, token 20 .* named twice"),
                            (all_true, "of the future"), (mask[:-1], "first axis is"), (mask[:, :, :3], "axis of rows is 3 long"), (mask[..., :-1], "the mask has"),
                            (padded.astype(float), "positions of float64"), (padded[0], "axis of layers|first axis|shape"), (np.array(3), "shape \\(\\)"),
                            (np.array([["a"]]), "positions of <U1"), (padded[:, :0], "axis of layers is 0 long"), (falling, "offsets do not fit"), (beyond, "offsets do not fit"),
                            (shaped, "the shape \\[3, 5\\] does not fit"), (dict(csr, offsets=csr["offsets"][:-5]), "offsets do not fit"),
                            (dict(offsets=np.array([0, 1]), positions=np.array([0])), "1 cells; .* are expected"), (dict(csr, offsets=csr["offsets"].astype(float)), "offsets of float64"),
                            (dict(a=padded, b=padded), "arrays named 'a', 'b'"), (dict(csr, shape=5), "a shape of int64 and shape \\(\\)"),
                            ({"a\nerror: x; y; z": padded, "b": padded}, r"named 'a\\nerror: x; y; z', 'b'")):
            file = scratch("bad.npz")
            np.savez(file, **(arrays if isinstance(arrays, dict) else {"selected": arrays}))
            self.assertRefused(("--trace", self.path, "--name", "bad", file), why)
        self.assertFalse(os.path.exists(f"{self.path}.runs.h5"))

    def test_files_that_are_none(self):
        good = scratch("good.npy")
        np.save(good, self.mask)
        raw = good.read_bytes()
        np.save(scratch("object.npy"), np.array([{}], dtype=object), allow_pickle=True)
        torch.save(torch.zeros(3), scratch("tensor.pt"))
        torch.save(torch.zeros(3), scratch("tensor.npz"))
        scratch("pickled.npy").write_bytes(b"\x80\x04K\x01.")
        scratch("cut.npy").write_bytes(raw[: len(raw) // 2])
        scratch("noise.npy").write_bytes(os.urandom(500))
        scratch("empty.npy").write_bytes(b"")
        scratch("huge.npy").write_bytes(raw[:128].replace(b"(", b"(99999999999, ", 1).replace(b"                ", b"", 1) + raw[128:])
        scratch("noise.npz").write_bytes(os.urandom(500))
        scratch("noise.safetensors").write_bytes(os.urandom(500))
        scratch("long.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}")
        scratch("text.txt").write_text("hello")
        with zipfile.ZipFile(scratch("bomb.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + b"\0" * 100)
        with zipfile.ZipFile(scratch("readme.npz"), "w") as archive:
            archive.writestr("README.txt", "hello")
        for name, why in (("readme.npz", "'README.txt' in it is no array"), ("object.npy", "it is a pickle"), ("tensor.pt", "it is a pickle.*weights_only"), ("tensor.npz", "it is a pickle"), ("pickled.npy", "it is a pickle"),
                          ("cut.npy", "cannot read"), ("noise.npy", "cannot read"), ("empty.npy", "cannot read"), ("huge.npy", "cannot read"), ("noise.npz", "cannot read"),
                          ("noise.safetensors", "cannot read"), ("long.safetensors", "cannot read"), ("text.txt", "does not end in"), ("bomb.npz", "cannot read"), ("absent.npy", "no such file")):
            self.assertRefused(("--trace", self.path, "--name", "bad", scratch(name)), why)
        self.assertFalse(os.path.exists(f"{self.path}.runs.h5"))

    def test_safetensors_whose_length_begins_like_a_pickle(self):
        """A header of 640 bytes, and so on: the file begins with 0x80 and the number of a protocol."""
        values, file = np.arange(6, dtype=np.float32), scratch("length.safetensors")
        header = json.dumps({"a": {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}}).encode()
        for protocol in (2, 3, 4, 5):
            length = 0x80 + 256 * protocol
            file.write_bytes(length.to_bytes(8, "little") + header.ljust(length) + values.tobytes())
            np.testing.assert_array_equal(array_files.load(str(file))["a"], values)

    def test_wrong_use(self):
        file = scratch("use.npy")
        np.save(file, self.mask)
        for arguments, why in ((("--trace", self.path, file), "needs --name"), (("--trace", self.path, "--name", "x"), "needs a file"), ((), "one of the arguments --trace --q"),
                               (("--q", file, "--k", file), "needs --v, -o T.h5"), (("--q", file, "--k", file, "--v", file, "-o", "t.h5", "--name", "x"), "does not take --name"),
                               (("--trace", self.path, "--name", "x", file, "--scale", "2"), "does not take --scale"), (("--trace", self.path, "--q", file), "not allowed"),
                               (("--trace", self.path, "--name", "x", file, "--chunk-size", "64"), "does not take --chunk-size"), (("--trace=", "--k", file, "--v", file, "-o", "t.h5"), "needs a file"),
                               (("--q", file, "--scale", "nan"), "--scale cannot take")):
            self.assertRefused(arguments, why, code=2)
        self.assertRefused(("--trace", self.path, "--name", "a b", file), "no name for a method")
        self.assertRefused(("--trace", file, "--name", "x", file), "no HDF5 file")


class Arrays(Case):
    """A recording, taken apart and put together again."""

    def parts(self):
        with kvloupe.open(recorded("qwen3")) as trace:
            # All prefill: an array says nothing of decoded tokens.
            arrays = {name: np.stack([np.asarray(trace.layer(layer).array(name)[:, :, :]) for layer in trace.layers]) for name in "qkv"}
            return arrays, trace.tokens.copy(), [trace.text(i, i + 1) for i in range(trace.num_tokens)], trace.model

    def write(self, arrays, suffix=".npy"):
        given = []
        for name, values in arrays.items():
            file = scratch(f"{name}{suffix}")
            if suffix == ".npy":
                np.save(file, values)
            elif suffix == ".npz":
                np.savez(file, **{name: values, "other": values[:1]})
            else:
                safetensors.torch.save_file({"t": torch.from_numpy(values).bfloat16()}, file)
            given += [f"--{name}", file]
        return given

    def test_selections_are_those_of_the_recording(self):
        arrays, ids, texts, model = self.parts()
        np.save(scratch("ids.npy"), ids)
        path = scratch("imported.h5")

        scratch("texts.json").write_text(json.dumps(texts))
        code, told = said(*self.write(arrays), "--ids", scratch("ids.npy"), "--texts", scratch("texts.json"), "--chunk-size", 16, "--scale", model["softmax_scale"],
                          "--rope-theta", model["rope_theta"], "--model", "mine", "-o", path)
        self.assertEqual((code, told.count("\n")), (0, 1), told)
        self.assertIn("sound", program("validate", path))
        with kvloupe.open(path) as trace, kvloupe.open(recorded("qwen3")) as old:
            self.assertEqual(trace.tokens.tolist(), ids.tolist())
            self.assertEqual(trace.text(), "".join(texts))
            for layer in trace.layers:
                for name in "qkv":
                    np.testing.assert_array_equal(trace.layer(layer).array(name)[:, :, :], old.layer(layer).array(name)[:, :, :])
            np.testing.assert_allclose(trace.attention(1, 0, 5, 6), old.attention(1, 0, 5, 6), rtol=1e-5)
        for method in ("quoka:budget_tokens=4,num_queries=4", "snapkv:budget_tokens=4", "quest:budget_tokens=8,page_size=4,skip_layers=0"):
            new, old = (program_json("select", one, "--method", method)["layers"] for one in (path, recorded("qwen3")))
            for mine, theirs in zip(new, old):
                for a, b in zip(mine["chunks"], theirs["chunks"]):
                    if b["phase"] == "prefill" and b["begin"] + b["length"] == a["begin"] + a["length"]:
                        rows = "kv_heads" if "kv_heads" in b else "q_heads"
                        self.assertEqual([row["selected"] for row in a[rows]], [row["selected"] for row in b[rows]], method)

    def test_one_layer_of_its_number_in_half_precision(self):
        arrays, *_ = self.parts()
        path = scratch("half.h5")
        self.assertEqual(said(*self.write({name: values[1].astype(np.float16) for name, values in arrays.items()}, ".npz"), "--layers", 5, "--chunk-size", 16, "-o", path)[0], 0)
        report = program_json("info", path)
        self.assertEqual((report["layers"], report["dtype"], report["model"]["num_layers"]), ([5], "f16", 6))

    def test_it_needs_no_torch(self):
        arrays, *_ = self.parts()
        path = scratch("without-torch.h5")
        code = "import sys; sys.modules.update(torch=None, transformers=None, safetensors=None); from kvloupe.__main__ import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "import", *map(str, self.write(arrays)), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sound", program("validate", path))

    def test_what_is_half_written_goes_with_a_signal(self):
        code = ("import sys, time; from kvloupe import interrupts; interrupts.end_at_signals()\n"
                "with interrupts.dropping(sys.argv[1]): open(sys.argv[1], 'w').close(); print('begun', flush=True); time.sleep(60)")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            path = scratch("half.part")
            with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "begun\n")
                process.send_signal(number)
                self.assertEqual(process.wait(20), 130)
            self.assertFalse(path.exists())

    def test_bfloat16_is_kept(self):
        arrays, *_ = self.parts()
        path = scratch("bf16.h5")
        self.assertEqual(said(*self.write(arrays, ".safetensors"), "-o", path)[0], 0)
        with kvloupe.open(path) as trace:
            want = torch.from_numpy(arrays["q"][2]).bfloat16().float().numpy()
            np.testing.assert_array_equal(trace.layer(2).array("q")[:, :, :], want)

    def test_values_of_fewer_channels(self):
        arrays, *_ = self.parts()
        path = scratch("narrow.h5")
        self.assertEqual(said(*self.write(dict(arrays, v=arrays["v"][..., :4])), "-o", path)[0], 0)
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.model["v_head_dim"], 4)
            self.assertTrue((trace.layer(0).array("v")[:, :, 4:] == 0).all())

    def test_all_in_one_file_and_values_of_more_channels(self):
        arrays, *_ = self.parts()
        wide = dict(arrays, v=np.concatenate([arrays["v"], arrays["v"]], axis=3))
        file, path = scratch("all.npz"), scratch("wide.h5")
        np.savez(file, **wide)
        all_three = ("--q", file, "--k", file, "--v", file)
        self.assertRefused((*all_three, "--rope-theta", "1e4", "-o", path), "v has more channels than q")
        self.assertRefused((*all_three, "-o", file, "--force"), "one of the files that are read")
        self.assertEqual(said(*all_three, "-o", path)[0], 0)
        self.assertIn("sound", program("validate", path))
        with kvloupe.open(path) as trace:
            dim = arrays["q"].shape[3]
            self.assertAlmostEqual(trace.model["softmax_scale"], dim**-0.5)
            np.testing.assert_array_equal(trace.layer(1).array("v")[:, :, :], wide["v"][1])
            self.assertTrue((trace.layer(1).array("q")[:, :, dim:] == 0).all())

    def test_what_is_no_q_k_and_v_is_one_sentence_and_nothing_is_written(self):
        arrays, ids, *_ = self.parts()
        q, k, v = arrays["q"], arrays["k"], arrays["v"]
        wrong_nan, large = q.copy(), q.copy()
        wrong_nan[1, 0, 3, 2], large[1, 0, 3, 2] = np.nan, 1e6
        turned = {name: values.transpose(0, 2, 1, 3) for name, values in arrays.items()}
        path = scratch("never.h5")
        bad_ids, many_ids, text_ids = scratch("bad_ids.npy"), scratch("many_ids.npy"), scratch("text_ids.npy")
        np.save(bad_ids, np.where(np.arange(len(ids)) == 2, -4, ids))
        np.save(many_ids, np.append(ids, 1))
        np.save(text_ids, ids.astype(str))
        scratch("few.json").write_text('["a"]')
        for one, more, why in ((dict(arrays, k=k[:-1]), (), "axis of layers of k"), (dict(arrays, v=v[:, :, :-1]), (), "axis of tokens of v"), (dict(arrays, k=k[..., :-2]), (), "axis of channels of k"),
                               (dict(arrays, v=v[:, :1]), (), "axis of heads of v"), (turned, (), "axis of tokens of k"), (dict(arrays, k=q[:, :3], v=q[:, :3]), (), "each KV head belongs"),
                               (dict(arrays, q=wrong_nan), (), "q of layer 1, head 0, token 3 .* not finite"), (dict(arrays, q=large), ("--dtype", "float16"), "no number so large"),
                               (dict(arrays, q=q.astype(int)), (), "q of int64"), (dict(arrays, q=q[0, 0]), (), "axes layers, heads"), (dict(arrays, q=q[:, :, :0]), (), "an axis is empty"),
                               (arrays, ("--layers", "0-1"), "2 layers are named"), (arrays, ("--ids", bad_ids), "the id -4"), (arrays, ("--ids", many_ids), "one for each of"),
                               (arrays, ("--ids", text_ids), "ids of <U"), (arrays, ("--texts", scratch("few.json")), "no list of"), (arrays, ("--texts", text_ids), "cannot read")):
            self.assertRefused((*self.write(one), *more, "-o", path), why)
            self.assertFalse(path.exists() or os.path.exists(f"{path}.part"), why)
        self.assertRefused((*self.write(arrays), "-o", recorded("qwen3")), "exists")
        self.assertRefused((*self.write(arrays), "-o", scratch("."), "--force"), "it is no regular file")
        self.assertRefused((*self.write(arrays), "--layers", "2,1,3", "-o", path), "ascending order", code=2)
        self.assertRefused((*self.write(arrays), "-o", scratch("no/folder/t.h5")), "there is no folder")


if __name__ == "__main__":
    unittest.main()
