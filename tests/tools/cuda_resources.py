#!/usr/bin/env python3
"""What the CUDA kernels take of a multiprocessor, as compiled: registers, spills, shared memory.

    tests/tools/cuda_resources.py           writes core/cuda/resources.csv
    tests/tools/cuda_resources.py --check   exits 1 where the sources give another table, 77 where nvcc is of another version

It needs nvcc (NVCC, or on the path), no GPU. Kernels are those of core/cuda/*.cu. Dynamic shared memory is asked for at the launch and not
here.
"""
import csv
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "core/cuda/resources.csv"
TARGETS = ("sm_80", "sm_90", "sm_100")
NVCC = os.environ.get("NVCC", "nvcc")
COLUMNS = ("kernel", "target", "registers", "spilled_bytes", "static_shared_bytes", "barriers")


def compiled(source, target):
    with tempfile.TemporaryDirectory() as folder:
        command = [NVCC, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-diag-suppress=20012,20208", f"-I{ROOT}",
                   f"-arch={target}", "-cubin", "-Xptxas=-v", str(source), "-o", f"{folder}/out.cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return subprocess.run(["c++filt"], input=done.stderr, capture_output=True, text=True, check=True).stdout


def kernels_in(text, target):
    for part in text.split("Compiling entry function '")[1:]:
        name = re.match(r"(?:void )?(?:\w+::|\(anonymous namespace\)::)*(\w+(?:<[^>]*>)?)", part).group(1)
        name = re.sub(r"\(int\)|\w+::|\(anonymous namespace\)::", "", name).replace(", ", " ")
        number = lambda pattern: int((re.search(pattern, part) or [0, 0])[1])
        yield {"kernel": name, "target": target, "registers": number(r"Used (\d+) registers"),
               "spilled_bytes": number(r"(\d+) bytes spill stores"), "static_shared_bytes": number(r"(\d+) bytes smem"),
               "barriers": number(r"used (\d+) barriers")}


def version():
    return re.search(r"V([\d.]+)", subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout).group(1)


def table():
    rows = [row for source in sorted((ROOT / "core/cuda").glob("*.cu")) for target in TARGETS
            for row in kernels_in(compiled(source, target), target)]
    rows.sort(key=lambda row: (row["kernel"], TARGETS.index(row["target"])))
    text = io.StringIO(f"# nvcc {version()}\n")
    text.seek(0, io.SEEK_END)
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def main():
    checks = "--check" in sys.argv[1:]
    if checks and TABLE.read_text().splitlines()[0] != f"# nvcc {version()}":
        print(f"nvcc {version()} is not the one of {TABLE}")
        sys.exit(77)
    now = table()
    if not checks:
        TABLE.write_text(now)
    elif TABLE.read_text() != now:
        print(f"{TABLE} is not what the sources give:\n{now}", file=sys.stderr)
        sys.exit(1)


main()
