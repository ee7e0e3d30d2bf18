#!/usr/bin/env python3
"""stage.py PROGRAM FOLDER [TRACE]    gathers the pages of the book

Copies the Markdown of the repository, so that links from page to page hold, and writes the pages that the program knows
best: method cards, views with a picture of each, every option of every command. These pictures, and those of the guide
that redraw.py knows, are drawn from TRACE, which is the trace of the tour unless it is given. Ends with a message when a
link leads to nothing that the book has.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys

from redraw import redraw

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages that stand outside docs/.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "capture/python/README.md": "python.md",
    "core/trace/FORMAT.md": "format.md",
}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
# What a view is drawn of in the trace of the tour, where its defaults would show little.
METHODS = {"aqua_lanes": ["aqua"], "block_tables": ["compact_attention"], "quest_pages": ["quest:budget_tokens=256"],
           "method_compare": ["quoka:budget_tokens=256", "snapkv:budget_tokens=256", "streaming_llm:budget_tokens=256"],
           "budget_sweep": ["quoka:budget_tokens=256", "snapkv:budget_tokens=256"],
           "method_diff": ["quoka:budget_tokens=256", "snapkv:budget_tokens=256"]}


def fail(message):
    sys.exit(f"error: {message}")


def name_in_book(path):
    """Where a file of the repository stands in the book; None: nowhere."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return None


def with_links(text, source):
    """Links between files of the repository as links between pages."""

    def replaced(match):
        label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        path, _, anchor = target.partition("#")
        absolute = (ROOT / source).parent / path
        try:
            relative = absolute.resolve().relative_to(ROOT).as_posix()
        except ValueError:
            fail(f"{source} links to {target}; that is outside the repository; correct the link")
        if not absolute.exists():
            fail(f"{source} links to {target}; there is no such file; correct the link")
        page = name_in_book(relative)
        # A source file is named, not linked: the book stands without them.
        return f"{label}({page}{'#' + anchor if anchor else ''})" if page else label.lstrip("!")[1:-1]

    return LINK.sub(replaced, text)


def copy_pages(folder):
    for path in sorted((ROOT / "docs").glob("*.md")):
        (folder / path.name).write_text(with_links(path.read_text(), f"docs/{path.name}"))
    for source, page in PAGES.items():
        (folder / page).write_text(with_links((ROOT / source).read_text(), source))
    for images in ("images", "figures", "findings"):
        shutil.copytree(ROOT / "docs" / images, folder / images)


def output_of(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(arguments)} failed; it said: {done.stderr.strip()}; the book needs its output")
    return done.stdout


def cell(text):
    return html.escape(str(text), quote=False).replace("|", "\\|").replace("\n", " ")


def method_card(method):
    yield f"## {method['title']} {{ #{method['id']} }}\n"
    yield f"{cell(method['summary'])}\n"
    yield f"`{method['id']}` · {cell(method['paper'])}\n"
    facts = [("follows", method.get("evidence")), ("the paper's own", method.get("paper_spec") and f"`{method['paper_spec']}`"),
             ("reads", ", ".join(method.get("needs", [])))]
    facts += [("differs", deviation) for deviation in method.get("deviations", [])]
    yield "| | |\n|---|---|"
    for name, fact in facts:
        if fact:
            yield f"| {name} | {fact if fact.startswith('`') else cell(fact)} |"
    yield ""
    if method.get("parameters"):
        yield "| parameter | default | what it does |\n|---|---|---|"
        for param in method["parameters"]:
            yield f"| `{param['name']}` | `{param.get('default', '')}` | {cell(param.get('meaning', ''))} |"
        yield ""


def write_methods(program, folder):
    methods = json.loads(output_of(program, "methods", "--json"))["methods"]
    lines = ["# Method cards\n", "What `kvloupe methods --json` knows of each method.\n"]
    for method in methods:
        lines += method_card(method)
    (folder / "methods.md").write_text("\n".join(lines))


def draw(program, trace, view, folder):
    """The picture of a view, or None where this trace has nothing for it."""
    picture = folder / "views" / f"{view['id']}.png"
    arguments = ["export", str(trace), "--view", view["id"], "--png", str(picture), "--size", "1200x700"]
    for method in METHODS.get(view["id"], []):
        arguments += ["--method", method]
    output_of(program, *arguments)
    return picture.relative_to(folder).as_posix()


def write_views(program, trace, results, folder):
    (folder / "views").mkdir()
    views = json.loads(output_of(program, "views", "--json"))["views"]
    lines = ["# Views\n", "Each view as `kvloupe export` draws it of the trace of the tour, or of the needles that SmolLM2 "
             "was asked for. What the views say is in the [guide](guide.md#the-views).\n"]
    for view in views:
        lines.append(f"## {view['title']} {{ #{view['id']} }}\n")
        lines.append(f"`{view['id']}`: {cell(view['summary'])}.\n")
        lines.append(f"![{view['title']}]({draw(program, results if view['shows'] == 'results' else trace, view, folder)})\n")
        if view.get("options"):
            lines.append("| option | choices | what it does |\n|---|---|---|")
            for option in view["options"]:
                choices = ", ".join(f"`{choice}`" for choice in option["choices"])
                lines.append(f"| `{option['name']}` | {choices} | {cell(option['meaning'])} |")
            lines.append("")
    (folder / "views.md").write_text("\n".join(lines))


def write_options(program, folder):
    commands = re.findall(r"^  ([a-z][a-z-]+)\s{2,}\S", output_of(program, "--help"), re.M)
    if len(commands) < 10:
        fail(f"--help lists {len(commands)} commands; the book knows that there are more; see stage.py")
    lines = ["# Every option\n", "What the program says with `--help`.\n", "## kvloupe\n", "```", output_of(program, "--help"), "```\n"]
    for command in commands:
        lines += [f"## {command}\n", "```", output_of(program, command, "--help"), "```\n"]
    (folder / "options.md").write_text("\n".join(lines))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    trace = pathlib.Path(sys.argv[3] if len(sys.argv) == 4 else ROOT / "assets" / "traces" / "tour.h5")
    folder.mkdir(parents=True)
    copy_pages(folder)
    redraw(program, trace, folder / "images")
    write_methods(program, folder)
    write_options(program, folder)
    write_views(program, trace, ROOT / "assets" / "results" / "smollm2_needles.h5", folder)


if __name__ == "__main__":
    main()
