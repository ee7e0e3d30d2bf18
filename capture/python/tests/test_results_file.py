"""RESULTS.h5: its layout as others read it, layouts that are taken, and files that are wrong in one place."""
import json
import math
import os
import struct
import subprocess
import sys
import time
import unittest

import h5py
import numpy as np

from kvloupe.errors import KvloupeError
from kvloupe.results import planned
from kvloupe.results.record import nan_as_unknown
from kvloupe.results.results_file import read_results, write_results

from .eval_cases import hostile_copies
from .support import scratch
from .test_eval_tables import record, written

RECORDS = [record("dense", 0, 1.0, length=1024, depth=25.0, seed=7), record("quoka:budget_tokens=64", 0, 0.0, length=1024, depth=25.0, budget=64),
           record("dense", 1, math.nan, task="é", metrics={}, prefill_s=math.nan, decode_s=math.nan, trace="r.h5.traces/a.h5"),
           record("quoka:budget_tokens=64", 1, 0.5, prefill_s=math.nan)]


def good(name="layout.h5"):
    return written(name, RECORDS)


def rewritten(name, dtype, change=None, without=None, **options):
    """The file with other rows in /samples: those of its own, by the members' names."""
    path = good(name)
    with h5py.File(path, "r+") as file:
        before = file["samples"][()]
        rows = np.zeros(len(before), dtype)
        for member in set(rows.dtype.names) & set(before.dtype.names) - {without}:
            rows[member] = before[member]
        if change:
            change(rows)
        del file["samples"]
        file.create_dataset("samples", data=rows, **options)
    return path


def members(path):
    """[(name, type)]"""
    with h5py.File(path) as file:
        kind = file["samples"].dtype
        return [(name, kind[name]) for name in kind.names]


def patched(name, before, after):
    """The file with these bytes in place of those, which stand there once."""
    path = good(name)
    content = path.read_bytes()
    assert content.count(before) == 1, content.count(before)
    path.write_bytes(content.replace(before, after))
    return path


def reference(path, row, member):
    """The 16 bytes that lead to a text."""
    with h5py.File(path) as file:
        at, size = file["samples"].id.get_offset(), file["samples"].id.get_storage_size() // len(RECORDS)
    offset = {"task": 0, "method": 40, "id": 64}[member]
    return path.read_bytes()[at + row * size + offset :][:16]


def refusal(path):
    try:
        read_results(path)
    except KvloupeError as error:
        assert str(error).count("; ") == 2, str(error)
        return error.why
    raise AssertionError(f"{path} was read")


class Layout(unittest.TestCase):
    def test_as_any_program_reads_it(self):
        with h5py.File(good()) as file:
            self.assertEqual((file.attrs["format"], file.attrs["schema_version"]), ("kvloupe-results", "2.0"))
            self.assertEqual(sorted(file), ["numbers", "planned", "planned_offsets", "run", "run_offsets", "samples", "texts"])
            rows = file["samples"]
            self.assertEqual(rows.dtype.names, ("task", "length", "depth", "seed", "method", "budget", "id", "score", "seconds"))
            for name in rows.dtype.names:
                text = h5py.check_string_dtype(rows.dtype[name])
                if name in ("task", "method", "id"):
                    self.assertEqual((text.encoding, text.length), ("utf-8", None))
                else:
                    self.assertEqual(rows.dtype[name], np.float64 if name in ("depth", "score", "seconds") else np.int64)
            self.assertEqual([task.decode() for task in rows["task"]], ["t", "t", "é", "t"])
            self.assertEqual(rows["budget"].tolist(), [-1, 64, -1, -1])
            np.testing.assert_array_equal(rows["score"], [1.0, 0.0, np.nan, 0.5])
            np.testing.assert_array_equal(rows["seconds"], [3.0, 3.0, np.nan, 2.0])
            self.assertEqual(sorted(file["numbers"]), ["decode_s", "direction", "doc", "kept", "prefill_s", "prompt_tokens"])
            self.assertEqual({name for name in file["texts"] if not name.endswith("_offsets")},
                             {"sample", "answer", "expected", "refused", "metrics", "trace", "task_hash", "method_hash"})
            offsets = file["texts/trace_offsets"][()]
            self.assertEqual(offsets.tolist(), [0, 0, 0, 16, 16])
            self.assertEqual(bytes(file["texts/trace"][()]), b"r.h5.traces/a.h5")

    def test_files_of_before_the_hashes_were_written(self):
        path = good("before.h5")
        with h5py.File(path, "r+") as file:
            for name in ("task_hash", "method_hash"):
                del file[f"texts/{name}"], file[f"texts/{name}_offsets"]
        self.assertEqual({record[name] for record in read_results(path)[1] for name in ("task_hash", "method_hash")}, {""})

    def test_none(self):
        self.assertEqual(read_results(written("none.h5", []))[1], [])

    def test_texts_that_hdf5_cannot_hold(self):
        path = written("odd.h5", [record("a\0b\ud800", 0, 1.0)])
        self.assertEqual(read_results(path)[1][0]["method"], "a?b?")


class FullDisk(unittest.TestCase):
    def test_one_sentence_and_nothing_left(self):
        """In a process of its own: HDF5 ended it by a signal."""
        says = """
import json, resource, sys
from kvloupe.errors import KvloupeError
from kvloupe.results.results_file import write_results
record = json.loads(sys.argv[2])
for most in 1_000, 20_000, 60_000:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        write_results(sys.argv[1], {"model": "m"}, [{**record, "id": str(at)} for at in range(400)], {})
    except KvloupeError as error:
        print(error)
"""
        path = scratch("full-disk.h5")
        ended = subprocess.run([sys.executable, "-c", says, path, json.dumps(RECORDS[0])], stdout=subprocess.PIPE, text=True)
        sentence = f"{path} cannot be written; File too large; free some space, or name a file in a folder of yours\n"
        self.assertEqual((ended.returncode, ended.stdout), (0, 3 * sentence))
        self.assertEqual(list(path.parent.glob("full-disk.h5*")), [])


class OtherLayouts(unittest.TestCase):
    def check(self, path):
        for one, other in zip(read_results(path)[1], RECORDS, strict=True):
            self.assertEqual(nan_as_unknown(one), nan_as_unknown(other))

    def test_members_in_another_order(self):
        self.check(rewritten("order.h5", members(good())[::-1]))

    def test_members_that_nobody_knows(self):
        text = h5py.string_dtype()
        more = [("note", text), ("pair", [("a", text), ("b", "i4")]), ("many", text, (3,)), ("list", h5py.vlen_dtype(np.int32)), ("fixed", "S5")]

        def fill(rows):
            rows["note"], rows["pair"]["a"], rows["many"] = "a note", "b", "c"
            rows["list"] = [np.arange(3, dtype=np.int32)] * len(rows)
        for dtype in (more + members(good()), members(good()) + more):
            self.check(rewritten("more.h5", dtype, fill))

    def test_other_widths_and_fixed_texts(self):
        kinds = {"length": ">i4", "depth": "f4", "seed": "u8", "score": ">f8", "task": "S8", "id": "S40"}

        def encode(rows):
            rows["task"] = [record["task"].encode() for record in RECORDS]
        self.check(rewritten("widths.h5", [(name, kinds.get(name, kind)) for name, kind in members(good())], encode))

    def test_rows_with_room_between_the_members(self):
        kinds = dict(members(good()))
        self.check(rewritten("aligned.h5", np.dtype({"names": list(kinds), "formats": list(kinds.values()),
                                                     "offsets": [16 * at + 8 for at in range(len(kinds))], "itemsize": 16 * len(kinds) + 16})))

    def test_behind_a_user_block(self):
        plain, path = good("plain.h5"), scratch("block.h5")
        with h5py.File(plain) as source, h5py.File(path, "w", userblock_size=1024) as file:
            file.attrs.update(source.attrs)
            for name in source:
                source.copy(name, file)
        self.check(path)


class Hostile(unittest.TestCase):
    def test_one_sentence(self):
        for name, path in hostile_copies(good("good.h5")):
            with self.subTest(name=name):
                self.assertTrue(refusal(path))

    def test_of_schema_1(self):
        with h5py.File(good("old.h5"), "r+") as file:
            file.attrs["schema_version"] = "1.0"
        with self.assertRaisesRegex(KvloupeError, "schema 1.0.*; run the evaluation again"):
            read_results(scratch("old.h5"))

    def test_members(self):
        kinds = members(good())
        for name, kind in kinds:
            self.assertIn(f"has no member {name}", refusal(rewritten("missing.h5", [each for each in kinds if each[0] != name])))
            for other in (("i8",) if kind == np.float64 else ("f8",), ([("a", "i8")],), ("i8", (2,)), ("V8",)):
                wrong = [(each, *other) if each == name else (each, of) for each, of in kinds]
                self.assertIn(f"samples/{name} is no ", refusal(rewritten("wrong.h5", wrong, without=name)))
        self.assertIn("is no array of compound", refusal(replaced("plain.h5", np.zeros(4))))
        self.assertIn("no members", refusal(replaced("opaque.h5", np.zeros(4, "V9"))))

    def test_numbers_that_no_writer_writes(self):
        def put(name, value):
            def change(rows):
                rows[name][1] = value
            return change

        for name, value in (("depth", math.inf), ("depth", -math.inf), ("length", 2**63 + 5), ("seed", 2**64 - 1)):
            wide = [(each, "u8" if each == name and kind == np.int64 else kind) for each, kind in members(good())]
            self.assertIn(f"samples/{name} has a number that ", refusal(rewritten("numbers.h5", wide, put(name, value))))

    def test_storage(self):
        self.assertIn("in one piece", refusal(rewritten("chunked.h5", members(good()), chunks=(2,))))
        with h5py.File(good("claims.h5"), "r+") as file:
            kind = file["samples"].dtype
            del file["samples"]
            file.create_dataset("samples", (1 << 20,), kind)
        self.assertIn("in one piece", refusal(scratch("claims.h5")))
        with h5py.File(good("claims.h5"), "r+") as file:
            del file["samples"]
            file.create_dataset("samples", (1 << 40,), kind, chunks=(1024,))
        self.assertIn("too many rows", refusal(scratch("claims.h5")))

    def test_references(self):
        """A length, an address or a number of an object that leads nowhere."""
        first = reference(good("refer.h5"), 0, "task")
        length, address, index = struct.unpack("<IQI", first)
        for name, after in (("long", (0xFFFFFFF0, address, index)), ("longer", (length + 9, address, index)), ("far", (length, 1 << 60, index)),
                            ("wrap", (length, (1 << 64) - 8, index)), ("no heap", (length, 8, index)), ("number", (length, address, 60000))):
            with self.subTest(name=name):
                self.assertTrue(refusal(patched("refer.h5", first, struct.pack("<IQI", *after))))

    def test_collections(self):
        path = good("heap.h5")
        _, address, _ = struct.unpack("<IQI", reference(path, 0, "task"))
        content = path.read_bytes()
        for name, at, value in (("size", 8, 1 << 50), ("small", 8, 3), ("object", 24, 1 << 40), ("name", 0, 0)):
            with self.subTest(name=name):
                path.write_bytes(content[: address + at] + struct.pack("<Q", value) + content[address + at + 8 :])
                self.assertTrue(refusal(path))

    def test_a_collection_without_end(self):
        """The library looks for the next of its objects for ever."""
        path = good("endless.h5")
        content = bytearray(path.read_bytes())
        begin = at = content.index(b"GCOL\1")
        at += 16
        while content[at : at + 2] != b"\0\0":
            at += 16 + (int.from_bytes(content[at + 8 : at + 16], "little") + 7) // 8 * 8
        self.assertLess(at, begin + 4096)
        content[at + 8 : at + 16] = bytes(8)
        path.write_bytes(content)
        self.assertIn("have no end", refusal(path))

    def test_many_rows_of_one_long_text(self):
        """A small file that would be read as gigabytes."""
        path, count = scratch("bomb.h5"), 20_000
        write_results(path, {"model": "m"}, RECORDS, planned.joined([], RECORDS))
        with h5py.File(path, "r+") as file:
            rows = np.zeros(count, file["samples"].dtype)
            for name in ("task", "method", "id"):
                rows[name] = ""
            rows[0]["task"] = "x" * (1 << 19)
            del file["samples"]
            file.create_dataset("samples", data=rows)
            at, size = file["samples"].id.get_offset(), file["samples"].id.get_storage_size() // count
        content = bytearray(path.read_bytes())
        for row in range(1, count):
            content[at + row * size : at + row * size + 16] = content[at : at + 16]
        path.write_bytes(content)
        begin = time.monotonic()
        self.assertIn("claim more than the file holds", refusal(path))
        self.assertLess(time.monotonic() - begin, 20)
        self.assertLess(os.path.getsize(path), 4 << 20)


def replaced(name, values):
    with h5py.File(good(name), "r+") as file:
        del file["samples"]
        file.create_dataset("samples", data=values)
    return scratch(name)


if __name__ == "__main__":
    unittest.main()
