#!/usr/bin/env python3
"""memory_limit_test.py KVLOUPE MAKE_WINDOW_TRACE

Resident memory of `compare` and `select` on a trace several times as large as --memory-limit: at most twice the limit
above what the same command takes for one chunk of one layer. Without the limit it is far more, else this shows nothing.
"""
import os
import subprocess
import sys
import tempfile

LIMIT_MIB = 64
TOKENS, LAYERS, HEAD_DIM = 4096, 18, 64  # 15 MiB of fp32 a layer


def resident_mib(kvloupe, *words):
    """The most that the command held, as the system saw it."""
    # The C library keeps some of what is freed, the more the larger the freed blocks were before. With a fixed threshold
    # every block of 128 KiB goes back at once, so that what is seen is what the program holds.
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(128 << 10), MALLOC_TRIM_THRESHOLD_=str(128 << 10))
    process = subprocess.Popen([kvloupe, *words, "--threads", "2", "--quiet"], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)} failed: {process.returncode}")
    return usage.ru_maxrss / 1024


def check(kvloupe, name, words, one_cell):
    baseline = resident_mib(kvloupe, *one_cell)
    bounded = resident_mib(kvloupe, *words, "--memory-limit", f"{LIMIT_MIB}MiB")
    free = resident_mib(kvloupe, *words)
    print(f"{name}: {baseline:.0f} MiB for one layer, {bounded:.0f} MiB within {LIMIT_MIB} MiB, {free:.0f} MiB without a limit")
    if bounded > baseline + 2 * LIMIT_MIB:
        sys.exit(f"{name} holds {bounded - baseline:.0f} MiB more than its baseline")
    if free < baseline + 3 * LIMIT_MIB:
        sys.exit(f"{name} holds too little without a limit for this to show anything")


def main():
    kvloupe, make_trace = sys.argv[1:]
    with tempfile.TemporaryDirectory(dir=".") as folder:
        trace = os.path.join(folder, "large.h5")
        subprocess.run([make_trace, trace, str(TOKENS), str(LAYERS), str(HEAD_DIM)], check=True)
        method = ["--method", "quoka:budget_tokens=256"]
        check(kvloupe, "compare", ["compare", trace, *method, "--method", "streaming_llm:budget_tokens=256"],
              ["compare", trace, *method, "--layers", "0"])
        check(kvloupe, "select", ["select", trace, *method],
              ["select", trace, *method, "--layer", "0", "--chunk", str(TOKENS // 128 - 1)])


if __name__ == "__main__":
    main()
