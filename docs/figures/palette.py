#!/usr/bin/env python3
"""Rewrites pictures (8-bit RGBA PNGs, as kvloupe writes them) with 256 colours: a third of the bytes.

usage: palette.py FILE.png...
"""
import struct
import sys
import zlib
from collections import Counter

COLOURS = 256


def chunks(data):
    at = 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + length]
        at += 12 + length


def unfiltered(raw, stride, height):
    """The rows behind PNG's filters; pixels have four bytes."""
    above = bytearray(stride)
    for y in range(height):
        kind, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if kind else 0):
            left = row[i - 4] if i >= 4 else 0
            corner = above[i - 4] if i >= 4 else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above[i]
            elif kind == 3:
                guess = (left + above[i]) // 2
            else:
                p = left + above[i] - corner
                _, _, guess = min((abs(p - left), 0, left), (abs(p - above[i]), 1, above[i]),
                                  (abs(p - corner), 2, corner))
            row[i] = (row[i] + guess) & 255
        yield row
        above = row


def palette_of(counts):
    """The commonest colours, and for each other one the index of the nearest of them."""
    kept = [colour for colour, _ in counts.most_common(COLOURS)]
    index = {colour: i for i, colour in enumerate(kept)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(kept)),
                                key=lambda i: sum((a - b) ** 2 for a, b in zip(kept[i], colour)))
    return kept, index


def png(width, height, kept, rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"PLTE", b"".join(bytes(colour) for colour in kept)) +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows), 9)) + chunk(b"IEND", b""))


def rewrite(path):
    with open(path, "rb") as file:
        parts = list(chunks(file.read()))
    width, height, depth, kind = struct.unpack(">IIBB", parts[0][1][:10])
    if kind == 3:
        return
    if (depth, kind) != (8, 6):
        sys.exit(f"error: {path} is not read; it is not an 8-bit RGBA picture; give one of kvloupe's")
    raw = zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT"))
    # Five bits a channel tell the shades of a smoothed edge apart.
    pixels = [[tuple(min(255, row[i + c] + 4) & 248 for c in range(3)) for i in range(0, 4 * width, 4)]
              for row in unfiltered(raw, 4 * width, height)]
    kept, index = palette_of(Counter(colour for row in pixels for colour in row))
    # White stays white.
    rows = [bytes(index[colour] for colour in row) for row in pixels]
    kept = [tuple(255 if c >= 248 else c for c in colour) for colour in kept]
    with open(path, "wb") as file:
        file.write(png(width, height, kept, rows))


for name in sys.argv[1:]:
    rewrite(name)
