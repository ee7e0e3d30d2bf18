"""What views and commands say of a trace that has the queries of some chunks, against one that has all."""
import csv
import io
import os
import re
import subprocess
import unittest

import numpy as np
import torch

import kvloupe

from .support import CHUNK, load_model, load_tokenizer, program, program_json, scratch
from .test_queries import FAMILY, QUOKA, refused

TOKENS = 8 * CHUNK
STORED = [3, 4, 5, 7]
QUEST = "quest:budget_tokens=12,page_size=4,skip_layers=1"


def trace(name, **options):
    """Eight chunks of a text, the needle in the second."""
    path = scratch(f"query-views-{name}.h5")
    if not path.exists():
        ids = torch.from_numpy(np.random.default_rng(3).integers(5, 60, (1, TOKENS)))
        with torch.no_grad(), kvloupe.record(load_model(FAMILY), path, tokenizer=load_tokenizer(FAMILY), chunk_size=CHUNK, dtype="float32",
                                             spans={"needle": (20, 26), "question": (5 * CHUNK, 6 * CHUNK)}, **options):
            load_model(FAMILY)(ids)
    return path


def whole():
    return trace("whole")


def with_the_last(chunks):
    """These, and chunk 7 after a gap."""
    path, begun = scratch(f"query-views-{chunks}-7.h5"), scratch("query-views-begun.h5")
    if not path.exists():
        begun.write_bytes(trace(chunks, chunks=chunks).read_bytes())
        add_queries(begun, trace("odd", chunks="every:2"), 7)
        begun.rename(path)
    return path


def some():
    return with_the_last("3-5")


def add_queries(path, other, chunk):
    """Those of one more chunk, the last that is stored."""
    import h5py
    with h5py.File(path, "r+") as file, kvloupe.open(other) as source:
        offsets = file["chunks/query_offsets"][:]
        offsets[chunk + 1 :] += CHUNK
        file["chunks/query_offsets"][:] = offsets
        for layer in source.layers:
            group = file[f"layers/{layer}"]
            rows = np.concatenate([group["q"][:], source.queries(layer, chunk)], axis=1)
            attributes = dict(group["q"].attrs)
            del group["q"]
            group.create_dataset("q", data=rows).attrs.update(attributes)


def table(path, view, *options):
    said = program("export", path, "--view", view, "--csv", "-", *options)
    return list(csv.DictReader(io.StringIO(said)))


class Views(unittest.TestCase):
    def test_the_file_that_they_are_tried_on(self):
        self.assertNotIn("defect", program("validate", some()))
        self.assertEqual(program_json("info", some())["query_chunks"], STORED)
        self.assertNotIn("query_chunks", program_json("info", whole()))
        self.assertIn("of chunks 3 to 5, 7", program("info", some()))

    def test_what_pages_did_before_a_gap_is_not_known(self):
        place = ["--method", QUEST, "--goto", "layer=1,q_head=2,chunk=4"]
        found, want = table(some(), "quest_pages", *place), table(whole(), "quest_pages", *place)
        pages = [row for row in want if row["kind"] == "page"]
        self.assertEqual([{**row, "move": ""} for row in pages], found)
        self.assertGreater(len({row["move"] for row in pages}), 1)
        # Before the gap all is known, and after it nothing.
        begin = with_the_last("0-4")
        self.assertEqual([row for row in table(begin, "quest_pages", *place) if row["kind"] == "page"], pages)
        place[-1] = place[-1].replace("chunk=4", "chunk=7")
        found = table(begin, "quest_pages", *place)
        self.assertEqual({row["move"] for row in found if row["kind"] == "page"}, {""})
        self.assertLess(max(int(row["chunk"]) for row in found if row["kind"] == "step"), 5)

    def test_regrets_are_those_of_the_whole_trace(self):
        options = ["--list", "regrets", "--method", QUOKA]
        found, want = table(some(), "worst_misses", *options), table(whole(), "worst_misses", *options)
        of = lambda row: [row[name] for name in ("layer", "row", "key", "dropped_chunk", "mass_when_dropped")]  # noqa: E731
        begins = [of(row) for row in want]
        self.assertGreater(len(found), 20)
        for row in found:
            self.assertIn(of(row), begins)
            self.assertIn(int(row["dropped_chunk"]), STORED[:-1])

    def test_the_life_of_a_key_has_its_scores(self):
        place = ["--method", QUOKA, "--goto", "layer=1,q_head=2,chunk=7,key=22"]
        found, want = table(some(), "miss_inspector", *place), table(whole(), "miss_inspector", *place)
        at = lambda rows: {(row["layer"], row["row"], row["chunk"]): row for row in rows}  # noqa: E731
        self.assertEqual(sorted({int(row["chunk"]) for row in found}), STORED)
        self.assertTrue(any(row["score"] for row in found))
        for key, row in at(found).items():
            self.assertEqual(row, at(want)[key])

    def test_attention_is_that_of_the_stored_queries(self):
        for chunk in STORED:
            place = ["--goto", f"layer=1,q_head=2,chunk={chunk}"]
            found, want = (table(path, "attention_map", *place) for path in (some(), whole()))
            self.assertEqual(found, want)
            self.assertEqual(len(found), sum(chunk * CHUNK + row + 1 for row in range(CHUNK)))
            program("export", some(), "--view", "attention_map", *place, "--svg", scratch("attention.svg"), "--force")

    def test_numbers_say_of_which_chunks_they_are(self):
        figure = scratch("numbers.svg")
        for scope, words in (("question", "from the question on (chunks 5, 7)"), ("1-4", "chunks 3 to 4"), ("2-7", "chunks 3 to 5, 7")):
            program("export", some(), "--view", "worst_misses", "--method", QUOKA, "--numbers", scope, "--svg", figure, "--force")
            shown = " ".join(re.findall("<text[^>]*>([^<]*)</text>", figure.read_text()))
            self.assertIn(words, shown)
            for view, options in (("layer_head_overview", ["--metric", "mass_recall"]), ("method_compare", []), ("budget_sweep", [])):
                program("export", some(), "--view", view, "--method", QUOKA, *options, "--numbers", scope, "--svg", figure, "--force")
        options = ["--metric", "mass_recall", "--method", QUOKA, "--numbers"]
        self.assertEqual(table(some(), "layer_head_overview", *options, "1-4"), table(whole(), "layer_head_overview", *options, "3-4"))
        self.assertRegex(refused("export", some(), "--view", "method_compare", "--method", QUOKA, "--numbers", "0-2", "--svg", figure),
                         "the queries of chunk|its queries are not in the trace")

    def test_a_chunk_without_queries_is_refused(self):
        for view in ("token_strip", "selected_vs_true"):
            self.assertRegex(refused("export", some(), "--view", view, "--method", QUOKA, "--goto", "chunk=6", "--csv", "-"), "chunk 6 cannot be computed")

    def test_tables_and_frames_of_all_chunks_are_of_those(self):
        rows = table(some(), "selected_vs_true", "--method", QUOKA, "--all-chunks")
        self.assertEqual(sorted({int(row["chunk"]) for row in rows}), STORED)
        program("export", some(), "--view", "selected_vs_true", "--method", QUOKA, "--frames", "chunks", "--png", scratch("frame-%02d.png"))
        self.assertEqual(sorted(int(path.stem[-2:]) for path in scratch("").glob("frame-*.png")), STORED)

    def test_a_recorded_run_is_shown_everywhere_and_measured_there(self):
        paths = []
        for source in (some(), whole()):
            paths.append(scratch(f"run-{source.name}"))
            paths[-1].write_bytes(source.read_bytes())
            with kvloupe.open(paths[-1]) as one:
                one.add_run("mine", positions=np.zeros((8, len(one.layers), 1), np.int64))
        rows, all_rows = (table(path, "kv_map", "--method", "custom:mine", "--goto", "layer=1,kv_head=1") for path in paths)
        recall = [name for name in rows[0] if "recall" in name]
        self.assertTrue(recall)
        for row, want in zip(rows, all_rows, strict=True):
            known = int(row["chunk"]) in STORED
            self.assertEqual(row, want if known else {**want, **dict.fromkeys(recall, "")})
        place = ["--method", "custom:mine", "--goto", "layer=1,q_head=2,chunk=7,key=22"]
        found, want = (table(path, "miss_inspector", *place) for path in paths)
        self.assertEqual(found, [row for row in want if int(row["chunk"]) in STORED])


class Commands(unittest.TestCase):
    def test_a_report_counts_the_cells_that_there_are(self):
        page = scratch("page")
        program("report", some(), "--method", QUOKA, "-o", page)
        text = (page / "report.md").read_text()
        self.assertIn("ueries are stored of chunks 3 to 5, 7 alone, of 8", text)
        head, _, numbers = text[text.index("| mass recall |") :].splitlines()[:3]
        said = dict(zip(head.split(" | "), numbers.split(" | "), strict=True))
        self.assertEqual(said["cells chosen in"], said["all cells |"].removesuffix(" |"))

    def test_a_copy_leaves_nothing_out(self):
        done = subprocess.run([os.environ["KVLOUPE_PROGRAM"], "validate", str(some()), "--repair", str(scratch("copy.h5"))], capture_output=True,
                              text=True, timeout=120, check=True)
        self.assertIn("nothing was left out", done.stdout)
        self.assertNotIn("left out:", done.stderr)

    def test_traces_that_have_no_chunk_in_common(self):
        self.assertRegex(refused("diff", some(), trace("first", chunks="0-2"), "--method", QUOKA, "--method", QUOKA),
                         "A has the queries of chunks 3 to 5, 7, and B those of chunks 0 to 2: none is of the same tokens")

    def test_compare_says_which_chunks_have_queries(self):
        said = program_json("compare", some(), "--method", QUOKA)
        self.assertIn(f'"query_chunks": {STORED}'.replace(" ", ""), str(said).replace("'", '"').replace(" ", ""))


if __name__ == "__main__":
    unittest.main()
