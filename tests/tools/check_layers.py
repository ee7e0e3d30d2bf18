#!/usr/bin/env python3
"""Holds #include lines to the direction of the folders; exits 1 when one points the wrong way.

base <- {trace, attention, device} <- selection <- session <- replay <- {analysis, measure, calibration};
core <- capture <- app; c_api stands on selection; inside app: state <- widgets <- panels <- figure <- shell, cli and bench on top. Also: HDF5 only in
core/trace, Torch never in base, trace or the app, ImGui only in the app and never in its state; standard output only in core/base/results, tooltips only in app/widgets/tooltip. A source file
belongs to a header (CONTRIBUTING.md, Source files and headers). Files over 500 lines are listed as warnings.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG_FILE_LINES = 500

# folder -> folders of this project that it may include besides itself. The longest matching folder counts.
ORDER = ["core/base", "core/trace", "core/attention", "core/device", "core/selection", "core/session", "core/replay"]
CORE = ORDER + ["core/analysis", "core/measure", "core/calibration", "core/engine"]
APP = ["app/state", "app/widgets", "app/panels", "app/figure", "app/shell"]
ALLOWED = {
    "core/base": [],
    "core/trace": ["core/base"],
    "core/attention": ["core/base"],
    "core/device": ["core/base"],
    "core/selection": ORDER[:4],
    "core/session": ORDER[:5],
    "core/replay": ORDER[:6],
    "core/analysis": ORDER,
    "core/measure": ORDER,
    "core/calibration": ORDER,
    "core/engine": CORE,
    "core/c_api": ORDER[:5],
    "core/cuda": ["core/base", "core/attention", "core/device"],
    "capture": CORE,
    "app/state": CORE,
    "app/widgets": CORE + APP[:1],
    "app/panels": CORE + APP[:2],
    "app/figure": CORE + APP[:3],
    "app/shell": CORE + ["capture"] + APP[:4],
    "app": CORE + ["capture", "app"],
}

# Families of foreign headers and the folders, or files, that may include them.
FOREIGN = {
    "HDF5": (r"hdf5(_hl)?\.h|H5\w+\.h", ["core/trace"]),
    "Torch": (
        r"(torch|ATen|c10)/.*",
        ["core/attention", "core/device", "core/cuda", "core/c_api", "capture"] + CORE[4:],
    ),
    "ImGui": (r"(imgui|implot|implot3d|imgui_test_engine)(_internal)?(/.*|\.h)|GLFW/.*",
              ["app/widgets", "app/panels", "app/figure", "app/shell"]),
    # Its headers take ten seconds to compile.
    "CLI11": (r"CLI/.*", ["app/cli/command_line.cpp"]),
    "CUDA": (r"cuda(_\w+)?\.h|cublas.*|cub/.*", ["core/cuda"]),
}

# Standard output is written by one file, which sees to it that a result arrives or the program fails.
RESULTS = "core/base/results.cpp"
TO_STANDARD_OUTPUT = re.compile(r"\bstdout\b|\bstd::cout\b|\bfmt::print\(|\b(printf|puts|putchar)\(")

# When a tooltip appears and where is decided in one file.
TOOLTIPS = "app/widgets/tooltip.cpp"
TO_TOOLTIP = re.compile(r"\bImGui::(Set|Begin)(Item)?Tooltip\w*\(")

# Files that a list names: nothing else calls them, so they need no header.
LISTED = [
    "app/bench/*_suite.cpp", "app/cli/*_command.cpp", "app/panels/*_panel.cpp", "capture/model/families/*.cpp",
    "capture/tasks/task_*.cpp", "core/selection/methods/*.cpp",
]
# The system, or a library that was loaded, looks these up by name.
ENTRY_POINT = re.compile(r'^(int main\(|extern "C")', re.MULTILINE)

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def folder_of(path):
    """The longest folder of ALLOWED that holds the path, or None."""
    fits = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(fits, key=len, default=None)


def inside(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def has_header(path, text):
    """Whether the source file has a header of its own name, is a part of one (named after it, with a suffix) or needs none."""
    if any(fnmatch.fnmatch(path, family) for family in LISTED) or ENTRY_POINT.search(text):
        return True
    includes = [match.group(1) for match in map(INCLUDE.match, text.splitlines()) if match]
    headers = [name.removesuffix(ending) for name in includes for ending in (".h", ".cuh") if name.endswith(ending)]
    own = path.rsplit(".", 1)[0]
    return any(own == header or own.startswith(header + "_") for header in headers)


def defects_of(path, text):
    own = folder_of(path)
    if path.endswith((".cpp", ".cu")) and not has_header(path, text):
        yield f"{path}: no header has its name, nor a name that its own begins with"
    for number, line in enumerate(text.splitlines(), 1):
        if TO_STANDARD_OUTPUT.search(line) and path != RESULTS:
            yield f"{path}:{number}: standard output is for {RESULTS}"
        if TO_TOOLTIP.search(line) and path != TOOLTIPS:
            yield f"{path}:{number}: widgets::tooltip() shows tooltips"
        match = INCLUDE.match(line)
        if not match:
            continue
        include = match.group(1)
        target = folder_of(include)
        if target and target != own and not inside(include, ALLOWED[own]):
            yield f"{path}:{number}: {own} must not include {include}"
        for name, (pattern, folders) in FOREIGN.items():
            if re.fullmatch(pattern, include) and not inside(path, folders):
                yield f"{path}:{number}: {name} header {include} outside {', '.join(folders)}"


def main():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()
    files = [name for name in listed if (ROOT / name).is_file()]
    defects = []
    for name in files:
        text = (ROOT / name).read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > LONG_FILE_LINES:
            print(f"warning: {name} has {lines} lines, aim at {LONG_FILE_LINES}")
        if folder_of(name):
            defects.extend(defects_of(name, text))
    for defect in defects:
        print(defect)
    print(f"layers: {len(files)} files, {len(defects)} defects")
    return 1 if defects or not files else 0


if __name__ == "__main__":
    sys.exit(main())
