#!/usr/bin/env python3
"""Says how far the colours of meanings, and those of causes, lie apart, for a normal eye and for one without green cones
(deuteranopia; Machado, Oliveira and Fernandes 2009), as CIEDE2000. Exits 1 where two of them are nearer than promised, or
where words in a colour of the palette are hard to read.

It reads app/widgets/palette.cpp. What lies over others in an area of its own pattern (evicted, hatched) counts by its ground.
"""

import itertools
import math
import pathlib
import re
import sys

PALETTE = pathlib.Path(__file__).resolve().parents[2] / "app/widgets/palette.cpp"
MEANINGS = ["hit", "miss", "waste", "by_rule", "evicted", "current", "dense", "dropped"]
LEAST_MEANINGS, LEAST_CAUSES = 16.0, 10.0
# Words in other colours go through widgets::ink_of (app/widgets/ink.h). `faint` is of what may be overlooked.
WORDS = ["text", "muted", "accent", "slot_b", "good", "warning", "error"]
LEAST_CONTRAST = 4.5
EYES = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def lab(color, eye):
    channels = [(color >> shift & 255) / 255 for shift in (16, 8, 0)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    seen = [min(1.0, max(0.0, c)) for c in product(eye, linear)]
    xyz = product([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]], seen)
    f = [t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (xyz[0] / 0.95047, xyz[1], xyz[2] / 1.08883)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def difference(first, second):
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    stretch = 1 + 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    turn = 0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    dl, dc, dh = l2 - l1, c2 - c1, 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    lm, cm = (l1 + l2) / 2, (c1 + c2) / 2
    hm = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + 360) / 2
    cosine = lambda degrees: math.cos(math.radians(degrees))
    t = 1 - 0.17 * cosine(hm - 30) + 0.24 * cosine(2 * hm) + 0.32 * cosine(3 * hm + 6) - 0.2 * cosine(4 * hm - 63)
    sl = 1 + 0.015 * (lm - 50) ** 2 / math.sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rotation = -math.sin(math.radians(60 * math.exp(-(((hm - 275) / 25) ** 2)))) * 2 * math.sqrt(cm**7 / (cm**7 + 25**7))
    return math.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rotation * (dc / sc) * (dh / sh))


def luminance(color):
    channels = [(color >> shift & 255) / 255 for shift in (16, 8, 0)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    """WCAG 2."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def themes():
    for name, body in re.findall(r"Palette make_(\w+)\(\) \{(.*?)\n\}", PALETTE.read_text(), re.S):
        colors = {role: int(value, 16) for role, value in re.findall(r"p\.(\w+) = rgb\(0x(\w+)\);", body)}
        series = [int(value, 16) for value in re.findall(r"rgb\(0x(\w+)\)", re.search(r"p\.series = (.*?);", body, re.S).group(1))]
        yield name, colors, {f"series {i}": value for i, value in enumerate(series)}


def main():
    bad = 0
    for theme, colors, series in themes():
        meanings = {role: colors[role] for role in MEANINGS}
        causes = {**series, "evicted": colors["evicted"]}
        for eye, matrix in EYES.items():
            for what, group, least in (("meanings", meanings, LEAST_MEANINGS), ("causes", causes, LEAST_CAUSES)):
                nearest, a, b = min(
                    (difference(lab(group[a], matrix), lab(group[b], matrix)), a, b) for a, b in itertools.combinations(group, 2))
                print(f"{theme}, {eye}: {what} differ by at least {nearest:.1f} ({a}, {b})")
                bad += nearest < least
        for role in WORDS:
            for ground in ("panel", "raised") if role in ("text", "muted") else ("panel",):
                ratio = contrast(colors[role], colors[ground])
                print(f"{theme}: words in {role} on {ground} have a contrast of {ratio:.1f}")
                bad += ratio < LEAST_CONTRAST
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
