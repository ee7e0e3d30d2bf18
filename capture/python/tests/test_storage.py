"""What lies in the file, and how: pieces, room, the mass that is left out, the hash of the weights."""
import hashlib
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import h5py
import numpy as np
import torch
import transformers

import kvloupe
from kvloupe import known_hashes
from kvloupe.model_info import ModelInfo
from kvloupe.part_file import PartFile
from kvloupe.softmax_form import SoftmaxForm
from kvloupe.weights_hash import hash_of_folder
from kvloupe.writer import Header, Heads, TraceWriter

from .support import generate, load_model, program, prompt, scratch

LAYERS, Q_HEADS, KV_HEADS, DIM = 6, 9, 3, 64


def write_trace(path, prefill, step, decoded, capacity):
    """Without a model: `prefill` tokens, `step` at a time, in chunks of 128, then decoded ones. Returns the bytes of values."""
    model = ModelInfo("none", "llama", LAYERS, Q_HEADS, KV_HEADS, DIM, 576, 0.125, 1e4, "none", ["full"] * LAYERS)
    header = Header(model, Heads(0, Q_HEADS, 0, KV_HEADS), "float16", frozenset(("qkv", "lse", "mass")), (), True)
    writer, mass_at = TraceWriter(PartFile(path, True), header, capacity), 0
    for layer in range(LAYERS):
        writer.begin_layer(layer, SoftmaxForm(0.125))
    for begin, end, phase in [*((at, min(at + step, prefill), 0) for at in range(0, prefill, step)),
                              *((at, at + 1, 1) for at in range(prefill, prefill + decoded))]:
        writer.reserve(end)
        rows = {name: np.full((heads, end - begin, DIM), begin % 2048, np.float16) for name, heads in (("q", Q_HEADS), ("k", KV_HEADS), ("v", KV_HEADS))}
        rows["lse"] = np.full((Q_HEADS, end - begin), begin, np.float32)
        chunks = [(at, min(128, end - at), phase) for at in range(begin, end, 128)]
        masses = [np.full((KV_HEADS, at + length), at, np.float32) for at, length, _ in chunks if phase == 0]
        for layer in range(LAYERS):
            writer.write_rows(layer, begin, rows)
            at = mass_at
            for mass in masses:
                writer.write_mass(layer, at, mass)
                at += mass.size
        mass_at += sum(mass.size for mass in masses)
        writer.write_tokens(range(begin, end), [b"word "] * (end - begin))
        writer.finish_chunks(chunks)
    writer.close(True)
    tokens = prefill + decoded
    return LAYERS * (tokens * (2 * DIM * (Q_HEADS + 2 * KV_HEADS) + 4 * Q_HEADS) + 4 * mass_at) + tokens * 17


class Room(unittest.TestCase):
    def test_the_file_is_its_values(self):
        """Whether the length is known, grows by chunks or by single tokens."""
        for prefill, step, decoded, capacity in ((4096, 4096, 0, 4096), (4096, 128, 0, 4096), (4096, 128, 0, 128),
                                                 (4096, 4096, 200, 4096), (3000, 3000, 64, 3064), (5000, 128, 0, 128)):
            path = scratch("room.h5")
            payload = write_trace(path, prefill, step, decoded, capacity)
            with self.subTest(prefill=prefill, step=step, decoded=decoded, capacity=capacity):
                self.assertLess(path.stat().st_size, 1.05 * payload)
                self.assertGreater(path.stat().st_size, payload)
            with h5py.File(path) as file:
                for token in (0, 127, 128, prefill - 1, prefill + decoded - 1):
                    begin = token if token >= prefill else token // step * step
                    np.testing.assert_array_equal(file["layers/5/k"][:, token], begin % 2048)
                    np.testing.assert_array_equal(file["layers/0/lse"][:, token], begin)
                last = file["chunks/mass_offsets"][-1]
                self.assertEqual(file["layers/3/key_mass"].shape, (last,))
                ends = [begin + length for begin, length, phase in zip(*(file[f"chunks/{name}"] for name in ("begin", "length", "phase")))
                        if phase == 0]
                self.assertEqual(last, KV_HEADS * sum(ends))

    def test_pieces_of_every_dataset(self):
        """None that grows is of a few entries, however little was known at first."""
        path = scratch("pieces.h5")
        write_trace(path, 1, 1, 3000, 1)
        with h5py.File(path) as file:
            datasets = []
            grows = lambda item: isinstance(item, h5py.Dataset) and item.chunks and item.maxshape != item.shape  # noqa: E731
            file.visititems(lambda name, item: datasets.append(item) if grows(item) else None)
            self.assertGreaterEqual(len(datasets), 7 + 5 * LAYERS)
            for dataset in datasets:
                size = np.prod(dataset.chunks) * dataset.dtype.itemsize
                self.assertLessEqual(size, 256 << 10, dataset.name)
                self.assertGreaterEqual(size, 2048 if dataset.dtype.itemsize * dataset.ndim > 4 else 256, dataset.name)
                self.assertEqual(dataset.chunks[0] if dataset.ndim > 1 else 1, 1, dataset.name)

    def test_nothing_is_read_while_it_is_written(self):
        """Parts of a piece go to their place: what is there is not fetched first. At the end the last pieces are cut."""
        path, found = scratch("reads.h5"), []
        for decoded in (100, 200, 300):
            before = read_bytes()
            write_trace(path, 1024, 128, decoded, 128)
            found.append(read_bytes() - before)
        self.assertLess(max(found) - min(found), 1 << 16)


def read_bytes():
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


class Mass(unittest.TestCase):
    """Stored while it takes at most a quarter of the bytes of q, k and v, or when it is named."""

    def check(self, path):
        """Whether the rule says that the mass belongs into this trace; that it is there, or nothing of it."""
        with h5py.File(path) as file:
            model, count = file["model"].attrs, len(file["tokens/ids"])
            ends = [begin + length for begin, length, phase in zip(*(file[f"chunks/{name}"] for name in ("begin", "length", "phase")))
                    if phase == 0]
            rows = sum(file[f"layers/0/{name}"].nbytes for name in "qkv")
            due = 4 * (4 * model["num_kv_heads"] * sum(ends)) <= rows
            self.assertEqual(["key_mass" in group for group in file["layers"].values()], [due] * len(file["layers"]), count)
            self.assertEqual("mass_offsets" in file["chunks"], due)
        self.assertIn("sound", program("validate", path))
        return due

    def test_one_prefill(self):
        found = set()
        for count in range(2, 35, 8):
            for chunk in (1, 2, 4, 16):
                path, model = scratch("mass.h5"), load_model("llama")
                with kvloupe.record(model, path, chunk_size=chunk, force=True), torch.no_grad():
                    model(prompt("llama")[:, :count])
                found.add(self.check(path))
        self.assertEqual(found, {False, True})

    def test_prefill_in_pieces(self):
        """It is given up in the middle."""
        for feed in ((8, 2, 2, 2, 10, 10), (1,) + (2,) * 16, (16, 18)):
            path, model, ids = scratch("mass-pieces.h5"), load_model("llama"), prompt("llama")
            cache, at = transformers.DynamicCache(config=model.config), 0
            with kvloupe.record(model, path, chunk_size=2, dtype="float32", force=True), torch.no_grad():
                for count in feed:
                    model(ids[:, at : at + count], past_key_values=cache)
                    at += count
            self.check(path)
            with kvloupe.record(model, scratch("whole.h5"), chunk_size=2, dtype="float32", force=True), torch.no_grad():
                model(ids[:, :at])
            with kvloupe.open(path) as trace, kvloupe.open(scratch("whole.h5")) as whole:
                for layer in trace.layers:
                    np.testing.assert_allclose(trace.k(layer), whole.k(layer), atol=1e-4)
                    np.testing.assert_allclose(trace.lse(layer), whole.lse(layer), atol=1e-4)

    def test_tokens_that_generate_will_add(self):
        """They count: with them the share of the mass is smaller."""
        for steps in (0, 8, 64):
            path, model = scratch("mass-generate.h5"), load_model("llama")
            with kvloupe.record(model, path, chunk_size=2, force=True):
                generate(model, prompt("llama"), steps=steps)
            self.check(path)

    def test_named(self):
        path, model = scratch("mass-named.h5"), load_model("llama")
        with kvloupe.record(model, path, chunk_size=1, store=("qkv", "lse", "mass")), torch.no_grad():
            model(prompt("llama"))
        with h5py.File(path) as file:
            self.assertEqual(file["layers/0/key_mass"].shape, (file["model"].attrs["num_kv_heads"] * sum(range(1, 35)),))
        self.assertIn("sound", program("validate", path))


class Hashes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache, self.model = pathlib.Path(folder.name) / "cache", pathlib.Path(folder.name) / "model"
        self.model.mkdir()
        self.weights = self.model / "model.safetensors"
        self.write(b"weights", 1_000_000_000)
        environment = mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.cache))
        environment.start()
        self.addCleanup(environment.stop)

    def write(self, content, when):
        self.weights.write_bytes(content)
        os.utime(self.weights, (when, when))

    def hash(self):
        """(hash, whether the file was read for it)"""
        with mock.patch.object(hashlib, "sha256", wraps=hashlib.sha256), \
                mock.patch("kvloupe.weights_hash.hash_bytes", wraps=lambda files: hashlib.sha256(self.weights.read_bytes()).hexdigest()) as read:
            return hash_of_folder(self.model), read.called

    def now_is(self, seconds):
        """As if the last change had been so long ago."""
        return mock.patch.object(known_hashes.time, "time_ns", lambda: self.weights.stat().st_ctime_ns + int(seconds * 1e9))

    def test_it_is_computed_once(self):
        with self.now_is(10):
            expected = hashlib.sha256(b"weights").hexdigest()
            self.assertEqual([self.hash(), self.hash()], [(expected, True), (expected, False)])

    def test_a_file_that_changed(self):
        """In content alone: size and date are those of before."""
        with self.now_is(10):
            self.hash()
        self.write(b"weighty", 1_000_000_000)
        with self.now_is(10):
            self.assertEqual(self.hash(), (hashlib.sha256(b"weighty").hexdigest(), True))

    def test_a_file_that_was_just_written_is_not_kept(self):
        with self.now_is(1):
            self.hash()
        self.assertFalse(self.cache.exists())

    def test_a_file_that_changes_meanwhile_is_not_kept(self):
        with self.now_is(10), mock.patch("kvloupe.weights_hash.hash_bytes", side_effect=lambda files: self.write(b"other", 5) or "0" * 64):
            hash_of_folder(self.model)
        self.assertFalse(self.cache.exists())

    def test_a_cache_that_is_broken_or_cannot_be_written(self):
        expected = (hashlib.sha256(b"weights").hexdigest(), True)
        with self.now_is(10):
            self.hash()
            for entry in (self.cache / "kvloupe" / "weight-hashes").iterdir():
                for content in ("", "[]", '{"files": 3}', '{"hash": null}', "\0"):
                    entry.write_text(content)
                    self.assertEqual(self.hash(), expected)
            for place in ("/proc/none", str(self.weights), "", "relative"):
                with mock.patch.dict(os.environ, XDG_CACHE_HOME=place, HOME="/proc/none"):
                    self.assertEqual(self.hash(), expected)

    def test_none_is_wanted(self):
        path, model = scratch("no-hash.h5"), load_model("llama")
        with mock.patch("kvloupe.recorder.hash_of_model") as compute, torch.no_grad():
            with kvloupe.record(model, path, hash=False):
                model(prompt("llama"))
        compute.assert_not_called()
        with kvloupe.open(path) as trace:
            self.assertEqual(trace.model["file_hash"], "")
        self.assertIn("sound", program("validate", path))


if __name__ == "__main__":
    unittest.main()
