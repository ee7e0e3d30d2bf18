#!/usr/bin/env python3
"""times_stand_in_test.py KVLOUPE STAND_IN TRACE

What `bench` and `latency` make of the times that they get, and what they do where one has no memory on a GPU and where the
GPU fails. A stand-in gives the times (times_stand_in.cpp): nothing is measured.
"""
import json
import os
import subprocess
import sys

KVLOUPE, STAND_IN, TRACE = sys.argv[1:]
NO_MEMORY = "the GPU has not enough memory (CUDA out of memory. Tried to allocate 40.00 GiB)"
FAILED = "the GPU failed (CUDA error: an illegal memory access was encountered)"
LEFT_OUT = [{"form": "sdpa gqa", "why": "the GPU has not enough memory"}]


def run(turns, *words):
    environment = dict(os.environ, LD_PRELOAD=STAND_IN, KVLOUPE_FAKE_TIMES=turns)
    return subprocess.run([KVLOUPE, *words], capture_output=True, text=True, env=environment)


def answer(turns, exit_code, *words):
    """What it printed as JSON, and the last line of standard error."""
    result = run(turns, *words, "--json")
    assert result.returncode == exit_code, (words, result)
    return json.loads(result.stdout), (result.stderr.splitlines() or [""])[-1]


def rows_by_id(answered):
    return {row["id"]: row for row in answered["rows"]}


def bench_has_the_goals_of_the_contract():
    answered, error = answer("ok ok failure", 1, "bench")
    assert FAILED in error, error
    rows = rows_by_id(answered)
    assert list(rows) == ["attn_32k", "attn_64k", "select_floor_32k"], answered
    found = [(row["threshold"], row["value"], row["holds"]) for row in rows.values()]
    assert found == [(14, 21, True), (22, 21, False), (1.5, 1.5, True)], found
    # The larger of the two floors, and which it was.
    details = rows["select_floor_32k"]["details"]
    assert details == {"reading_k": "1.00 ms", "products": "4.00 ms", "floor": "products"}, details
    assert rows["attn_32k"]["dense_left_out"] == LEFT_OUT, rows
    assert "dense_left_out" not in rows["select_floor_32k"], rows
    machine = answered["machine"]
    assert abs(machine["read_gb_per_s"] - 134.217728) < 1e-6, machine
    assert abs(machine["fp32_gflop_per_s"] - 268.435456) < 1e-6, machine


def bench_goes_on_where_one_has_no_memory():
    rows = rows_by_id(answer("memory ok failure", 1, "bench")[0])
    for row in ("attn_32k", "select_floor_32k"):
        assert rows[row]["value"] is None and NO_MEMORY in rows[row]["reason"], rows
    assert rows["attn_64k"]["value"] == 21, rows

    rows = rows_by_id(answer("memory " + 6 * "ok " + "memory", 0, "bench", "--suite", "paged")[0])
    assert len(rows) == 7 * 4 + 3, rows
    without = [name for name, row in rows.items() if NO_MEMORY in row.get("reason", "")]
    assert without == [f"paged_8k_c1024_s{dropped}" for dropped in (70, 80, 90, 95)] + ["compact_flash_prefill_32k_c1024"], without
    goal = rows["paged_64k_c1024_s90"]
    assert (goal["threshold"], goal["value"], goal["holds"]) == (8.5, 9, True), goal
    assert goal["dense_left_out"] == LEFT_OUT, goal

    answered, error = answer("ok memory ok failure", 1, "bench", "--suite", "lengths")
    assert FAILED in error, error
    assert [NO_MEMORY in row.get("reason", "") for row in answered["rows"]] == [False, True, False], answered


def latency_blames_no_method_for_a_gpu_that_failed():
    methods = ["dense", "quoka:budget_tokens=24", "oracle:budget_tokens=24", "keydiff:budget_tokens=24"]
    words = ["latency", TRACE] + [word for method in methods for word in ("--method", method)]
    answered, _ = answer("ok memory", 0, *words)
    assert len(answered["rows"]) == 3, answered
    assert answered["rows"][0]["dense_left_out"] == LEFT_OUT, answered

    # What was timed before it stands; nothing is timed after it.
    answered, error = answer("ok memory failure", 0, *words)
    assert error.startswith("warning: oracle:") and "and what comes after it are left out" in error and FAILED in error, error
    assert [row["method"] for row in answered["rows"]] == ["dense"], answered
    reasons = {without["method"].split(":")[0]: without["reason"] for without in answered["unavailable"]}
    assert list(reasons) == ["quoka", "oracle", "keydiff"], answered
    assert NO_MEMORY in reasons["quoka"] and FAILED in reasons["oracle"] and FAILED in reasons["keydiff"], answered

    result = run("failure", *words)
    assert result.returncode == 1 and result.stdout == "" and FAILED in result.stderr, result


bench_has_the_goals_of_the_contract()
bench_goes_on_where_one_has_no_memory()
latency_blames_no_method_for_a_gpu_that_failed()
