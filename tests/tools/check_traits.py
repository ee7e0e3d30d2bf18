#!/usr/bin/env python3
"""Holds properties of methods to the methods' own files; exits 1 where one is read off a name elsewhere.

Outside core/selection/methods/ and core/selection/spec/method_spec.cpp no parameter of a MethodSpec is read by a literal
name (spec.integer("page_size")) and no method is told by its id (spec.id() == "quest"): what others need to know of a
method is in its Traits. Readers with accessors of the same names (gguf metadata, task SPECs) live in capture/model and
capture/tasks, which know nothing of methods and are left out as long as they include nothing of core/selection.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FREE = ("core/selection/methods/", "core/selection/spec/method_spec.cpp")
OTHER_READERS = ("capture/model/", "capture/tasks/")

ACCESSOR = re.compile(r'(?:\.|->)\s*(?:has|integer|real|flag|text)\(\s*"(\w+)"\s*\)')
METHOD_ID = re.compile(r'(?:\.|->)\s*id\(\)\s*[!=]=\s*"(\w+)"')

# What the patterns must find and must leave alone, looked at before every run.
PLANTED = {
    'if (spec.has("dim_ratio")) return;': True,
    'const auto size = request.spec->integer(\n      "page_size");': True,
    'choice->text( "basis" ) == "self"': True,
    'if (spec.id() == "quest") return 16;': True,
    'file.text("general.architecture")': False,
    "spec.integer(param.name)": False,
    'ImGui::text("kept")': False,
    'has("lowering")': False,
}


def defects_of(path, text):
    if path.startswith(FREE):
        return
    if path.startswith(OTHER_READERS) and "core/selection/" not in text:
        return
    for pattern, what in ((ACCESSOR, "reads the parameter"), (METHOD_ID, "asks for the method")):
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: {what} '{match.group(1)}' by name; see Traits"


def main():
    for text, is_defect in PLANTED.items():
        if bool(list(defects_of("core/replay/planted.cpp", text))) != is_defect:
            print(f"the check itself is wrong about: {text}")
            return 1
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "core/*.h", "core/*.cpp", "app/*.h", "app/*.cpp",
         "capture/*.h", "capture/*.cpp"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()
    files = [name for name in listed if (ROOT / name).is_file()]
    defects = [defect for name in files for defect in defects_of(name, (ROOT / name).read_text(encoding="utf-8"))]
    for defect in defects:
        print(defect)
    print(f"traits: {len(files)} files, {len(defects)} defects")
    return 1 if defects or not files else 0


if __name__ == "__main__":
    sys.exit(main())
