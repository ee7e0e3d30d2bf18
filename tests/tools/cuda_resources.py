#!/usr/bin/env python3
"""What the CUDA kernels take of a multiprocessor, as compiled: registers, spills, shared memory.

    tests/tools/cuda_resources.py BUILD           writes core/cuda/resources.csv
    tests/tools/cuda_resources.py BUILD --check   exits 1 where BUILD's kernels give another table, 77 where nvcc is of another version

It reads what ptxas said when the plug-in was built in the folder BUILD, such as build/release (cmake/nvcc.sh keeps it), so
it needs no GPU; nvcc (NVCC, or on the path) is asked for its version. Dynamic shared memory is asked for at the launch and
not here.
"""
import csv
import io
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "core/cuda/resources.csv"
TARGETS = ("sm_80", "sm_90", "sm_100")
NVCC = os.environ.get("NVCC", "nvcc")
COLUMNS = ("kernel", "target", "registers", "spilled_bytes", "static_shared_bytes", "barriers")


def said(source, build):
    path = build / "core/cuda" / f"{source.name}.o.resources"
    if not path.exists():
        raise SystemExit(f"{path} is missing; the CUDA plug-in writes it when it is built; build the target kvloupe_cuda")
    return subprocess.run(["c++filt"], input=path.read_text(), capture_output=True, text=True, check=True).stdout


def kernels_in(text):
    for part in text.split("Compiling entry function '")[1:]:
        name = re.match(r"(?:void )?(?:\w+::|\(anonymous namespace\)::)*(\w+(?:<[^>]*>)?)", part).group(1)
        name = re.sub(r"\(int\)|\w+::|\(anonymous namespace\)::", "", name).replace(", ", " ")
        number = lambda pattern: int((re.search(pattern, part) or [0, 0])[1])
        yield {"kernel": name, "target": re.search(r"' for '(sm_\d+)'", part).group(1), "registers": number(r"Used (\d+) registers"),
               "spilled_bytes": number(r"(\d+) bytes spill stores"), "static_shared_bytes": number(r"(\d+) bytes smem"),
               "barriers": number(r"used (\d+) barriers")}


def version():
    return re.search(r"V([\d.]+)", subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout).group(1)


def table(build):
    rows = [row for source in sorted((ROOT / "core/cuda").glob("*.cu")) for row in kernels_in(said(source, build))]
    rows.sort(key=lambda row: (row["kernel"], TARGETS.index(row["target"])))
    text = io.StringIO(f"# nvcc {version()}\n")
    text.seek(0, io.SEEK_END)
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 1:
        sys.exit("cuda_resources.py takes the folder of a build; none is given; see the head of the file")
    checks = "--check" in sys.argv[1:]
    if checks and TABLE.read_text().splitlines()[0] != f"# nvcc {version()}":
        print(f"nvcc {version()} is not the one of {TABLE}")
        sys.exit(77)
    now = table(pathlib.Path(words[0]).resolve())
    if not checks:
        TABLE.write_text(now)
    elif TABLE.read_text() != now:
        print(f"{TABLE} is not what the sources give:\n{now}", file=sys.stderr)
        sys.exit(1)


main()
