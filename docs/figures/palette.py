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
    nearest = {}  # by five bits a channel: the rest are the shades of smoothed edges
    for colour in counts:
        if colour in index:
            continue
        coarse = tuple(c >> 3 for c in colour)
        if coarse not in nearest:
            nearest[coarse] = min(range(len(kept)),
                                  key=lambda i: sum((a - b) ** 2 for a, b in zip(kept[i], colour)))
        index[colour] = nearest[coarse]
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
    pixels = [list(zip(row[0::4], row[1::4], row[2::4])) for row in unfiltered(raw, 4 * width, height)]
    kept, index = palette_of(Counter(colour for row in pixels for colour in row))
    with open(path, "wb") as file:
        file.write(png(width, height, kept, [bytes(index[c] for c in row) for row in pixels]))


for name in sys.argv[1:]:
    rewrite(name)
