#!/usr/bin/env python3
"""browser_pictures_test.py KVLOUPE [TRACE]: the SVG of every view, and the page that `report` writes, in a browser

Chromium opens them. They look as the PNG of the same call, their words are text, and their fonts are those of the window. SVGs that
are spoilt on purpose do not pass. The views are the book's, of TRACE (the trace of the tour unless it is given) or of results. All
pictures stay in browser_pictures/ below this folder.

vector_pictures_test.cpp compares with programs that are no browsers, and says how pictures are compared.
"""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "docs" / "book"), str(ROOT / "tests" / "tools")]
import browser
import stage

OUT = pathlib.Path("browser_pictures")
SIZE = "1200x700"
# The PNG has two pixels for one of the browser's: where several cells of a map share a pixel, a browser shows their mean and a
# PNG the strongest.
SCALE = 2
# Views that look another way by their options.
FORMS = {"kv_map_dark": ["kv_map", "--theme", "dark"], "query_geometry_solid": ["query_geometry", "--dimensions", "3"],
         "heavy_tail_paper": ["heavy_tail", "--column", "17cm", "--font-size", "8"]}
# The share of boxes that may be apart. It is less than in other programs: letters are the window's, and only maps differ at all.
MOST_APART = 0.001
# The PNGs of a report have one pixel for one of the browser's.
MOST_APART_IN_REPORT = 0.02
# How much longer or shorter lines may be in the browser's fonts than they were in the window, on average.
MOST_LONGER = 0.005
# What must be noticed: the view, what is replaced in its SVG, and by what.
SPOILT = {"words_aside": ("budget_sweep", r'(<text [^>]* )x="', r'\1dx="10" x="'),
          "words_not_turned": ("budget_sweep", r" rotate\([^)]*\)", ""),
          "another_font": ("budget_sweep", "'Inter'", "'No such font'"),
          "no_words": ("budget_sweep", "<text .*?</text>", ""),
          "no_lines": ("budget_sweep", "<path [^>]*/>", ""),
          "half": ("budget_sweep", "(?s)<text .*", ""),
          "no_map": ("kv_map", "<image [^>]*/>", ""),
          "no_boxes": ("kv_map", "<rect x[^>]*/>", "")}

# The number of lines, and by how much of their length their font changes it.
LINES = """(() => {
  let told = 0, off = 0;
  for (const line of document.querySelectorAll("text[textLength]")) {
    const length = line.getAttribute("textLength");
    line.removeAttribute("textLength");
    told += Number(length);
    off += Math.abs(line.getComputedTextLength() - length);
    line.setAttribute("textLength", length);
  }
  return [document.querySelectorAll("text").length, off / (told || 1)];
})()"""

# `difference` of vector_pictures_test.cpp; the second picture may have more pixels. The page that runs it does not matter.
DIFFERENCE = """(async (...pngs) => {
  const [a, b] = await Promise.all(pngs.map(async png => {
    const bytes = Uint8Array.from(atob(png), letter => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes]));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  }));
  const scale = Math.round(b.width / a.width);
  if (Math.abs(a.width * scale - b.width) > 1 || Math.abs(a.height * scale - b.height) > 1) return 1;
  const mean = (picture, left, top, side, channel) => {
    let sum = 0;
    for (let y = top; y < top + side; ++y)
      for (let x = left; x < left + side; ++x) sum += picture.data[4 * (y * picture.width + x) + channel];
    return sum / (side * side);
  };
  let apart = 0, count = 0;
  for (let y = 0; (y + BOX) * scale <= b.height; y += BOX)
    for (let x = 0; (x + BOX) * scale <= b.width; x += BOX, ++count)
      apart += [0, 1, 2].some(channel => FAR <= Math.abs(
        mean(a, x, y, BOX, channel) - mean(b, x * scale, y * scale, BOX * scale, channel)));
  return apart / count;
})"""


def numbers_of_measure():
    """The side of a box of pixels, and the distance of colours that are far."""
    source = (ROOT / "tests" / "figure" / "vector_pictures_test.cpp").read_text()
    return [re.search(rf"\b{name} = ([0-9.]+)", source)[1] for name in ("kBox", "kFar")]


BOX, FAR = numbers_of_measure()


def fail(message):
    sys.exit(f"error: {message}; see the pictures in {OUT.resolve()}")


def output_of(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, words))} failed; it said: {done.stderr.strip()}")
    return done.stdout


def difference(chromium, *pngs):
    script = DIFFERENCE.replace("BOX", BOX).replace("FAR", FAR)
    return chromium.says(f"{script}({', '.join(json.dumps(base64.b64encode(png).decode()) for png in pngs)})")


def width_of(png):
    return int.from_bytes(png[16:20], "big")


def box_of(chromium, element):
    return chromium.says(f"(box => [box.x + scrollX, box.y + scrollY, box.width, box.height])({element}.getBoundingClientRect())")


def fault_of(chromium, svg, png):
    """What is wrong with an SVG, or None; and how far it is from the PNG, with how much longer its lines are."""
    expected = png.read_bytes()
    chromium.open(svg, 100, 100)
    if chromium.says("document.documentElement.nodeName != 'svg' || document.querySelector('parsererror') != null"):
        return "is not read", 1, 1
    # On sizes of paper the PNG has 300 dots an inch, the browser 96.
    *_, width, height = box_of(chromium, "document.documentElement")
    chromium.open(svg, round(width), round(height), width_of(expected) / SCALE / width)
    lines, longer = chromium.says(LINES)
    shown = chromium.picture(0, 0, width, height)
    svg.with_suffix(".browser.png").write_bytes(shown)
    apart = difference(chromium, shown, expected)
    fault = ("has no text" if lines < 5 else "has text in other fonts" if longer >= MOST_LONGER
             else "does not look as its PNG" if apart > MOST_APART else None)
    return fault, apart, longer


def check_views(chromium, kvloupe, trace, results):
    views = {view["id"]: view["shows"] for view in json.loads(output_of(kvloupe, "views", "--json"))["views"]}
    if len(views) < 20:
        fail(f"views lists {len(views)} views; the test knows that there are more")
    for name, (view, *options) in {**{view: [view] for view in views}, **FORMS}.items():
        svg, png = OUT / f"{name}.svg", OUT / f"{name}.png"
        methods = [word for method in stage.METHODS.get(view, []) for word in ("--method", method)]
        size = [] if "--column" in options else ["--size", SIZE]
        output_of(kvloupe, "export", results if views[view] == "results" else trace, "--view", view, *methods, *options, *size,
                  "--scale", str(SCALE), "--svg", svg, "--png", png)
        fault, apart, longer = fault_of(chromium, svg, png)
        print(f"{name}: {apart:.5f} of its boxes are apart, its lines are {longer:.4f} longer or shorter", flush=True)
        if fault:
            fail(f"{svg} {fault} in Chromium")


def check_spoilt(chromium):
    for name, (view, what, by) in SPOILT.items():
        svg = OUT / f"spoilt_{name}.svg"
        sound = (OUT / f"{view}.svg").read_text()
        svg.write_text(re.sub(what, by, sound))
        if svg.read_text() == sound:
            fail(f"the SVG of {view} has nothing to spoil for {name}")
        fault, apart, longer = fault_of(chromium, svg, OUT / f"{view}.png")
        print(f"{name}: {fault}, {apart:.5f} of its boxes are apart, its lines are {longer:.4f} longer or shorter", flush=True)
        if not fault:
            fail(f"{svg} is spoilt and passes in Chromium")


def check_report(chromium, kvloupe, trace):
    """The figures in a page, beside the PNG files that a report in a folder has."""
    for out in ("report.html", "report"):
        output_of(kvloupe, "report", trace, "--method", "quoka:budget_tokens=256", "-o", OUT / out)
    pictures = re.findall(r"\(([a-z_]+)\.png\)", (OUT / "report" / "report.md").read_text())
    chromium.open(OUT / "report.html", 1600, 900)
    if len(pictures) < 4 or chromium.says("document.querySelectorAll('svg').length") != len(pictures):
        fail(f"report.html has not the {len(pictures)} figures of the report in a folder")
    for i, name in enumerate(pictures):
        expected = (OUT / "report" / f"{name}.png").read_bytes()
        figure = f"document.querySelectorAll('svg')[{i}]"
        # Alone in the window, as large as the PNG.
        chromium.says(f"""{figure}.style = "position:fixed; left:0; top:0; width:{width_of(expected)}px; border:0"; 0""")
        shown = chromium.picture(*box_of(chromium, figure))
        chromium.says(f"{figure}.style = 'display:none'; 0")
        (OUT / "report" / f"{name}.browser.png").write_bytes(shown)
        apart = difference(chromium, shown, expected)
        print(f"report.html, {name}: {apart:.5f} of its boxes are apart", flush=True)
        if apart > MOST_APART_IN_REPORT:
            fail(f"{name} in report.html does not look as its PNG in Chromium")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if browser.PROGRAM is None:
        print("skipped: Chromium is not installed; install it by apt-get install chromium")
        sys.exit(77)
    kvloupe = sys.argv[1]
    trace = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else ROOT / "assets" / "traces" / "tour.h5")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    with browser.Browser(OUT / "chromium") as chromium:
        check_views(chromium, kvloupe, trace, ROOT / "assets" / "results" / "smollm2_needles.h5")
        check_spoilt(chromium)
        check_report(chromium, kvloupe, trace)


if __name__ == "__main__":
    main()
