"""What is done to the bytes of a sound file, or to a text, so that a reader must doubt it. Pure functions of bytes and a
random.Random: the same seed gives the same damage."""
import json

# Counts, offsets and types at their limits.
EXTREMES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 48, (1 << 63) - 1, 1 << 63,
            (1 << 64) - 1]
TOKENS = [b"null", b"true", b"-1", b"0", b"1e999", b"-0.0", b"18446744073709551616", b"\"\"", b"\"\\ud800\"", b"\"\\u0000\"",
          b"[]", b"{}", b"[[[[[[[[", b",", b":", b"\xff", b"\"a\":", b"NaN"]


def flip_bytes(data, random):
    data = bytearray(data)
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def cut(data, random):
    return data[:random.randrange(len(data))]


def set_size(data, random):
    """A field of 1, 2, 4 or 8 bytes, most of the time in the front, where headers are."""
    width = random.choice([1, 2, 4, 8])
    reach = len(data) if random.random() < 0.4 else min(len(data), 4096)
    at = random.randrange(max(1, reach - width))
    if random.random() < 0.5:
        value = random.choice(EXTREMES)
    else:
        value = int.from_bytes(data[at:at + width], "little") + random.choice([-1, 1, 8, -8, 256])
    return data[:at] + (value % (1 << (8 * width))).to_bytes(width, "little") + data[at + width:]


def duplicate_range(data, random):
    begin = random.randrange(len(data))
    end = min(len(data), begin + random.randint(1, 512))
    at = random.choice([end, random.randrange(len(data))])
    return data[:at] + data[begin:end] * random.randint(1, 3) + data[at:]


def remove_range(data, random):
    begin = random.randrange(len(data))
    return data[:begin] + data[begin + random.randint(1, 512):]


def change_token(data, random):
    """One to three tokens of a text such as JSON become others, at borders that its punctuation makes."""
    for _ in range(random.randint(1, 3)):
        borders = [i for i, byte in enumerate(data) if byte in b"{}[]:,\"= "] or [0]
        begin, end = sorted((random.choice(borders), random.choice(borders)))
        end = min(end, begin + 40)
        data = data[:begin + 1] + random.choice(TOKENS) + data[end:]
    return data


def change_value(data, random):
    """Sound JSON with one of its values replaced."""
    try:
        root = json.loads(data)
    except ValueError:
        return change_token(data, random)
    spots = []

    def walk(node):
        for key in (node if isinstance(node, dict) else range(len(node))):
            spots.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    if isinstance(root, (dict, list)):
        walk(root)
    if not spots:
        return change_token(data, random)
    node, key = random.choice(spots)
    node[key] = random.choice([None, True, -1, 0.5, 1e300, 1 << 63, "", "x" * 70000, "\x1b[2J\u202e\n", [], {}, [[]], node[key]])
    return json.dumps(root).encode()


BYTES = [flip_bytes, cut, set_size, set_size, duplicate_range, remove_range]
TEXT = [flip_bytes, cut, duplicate_range, remove_range, change_token, change_token]
JSON = TEXT + [change_value, change_value]


def change_header(data, random):
    """The JSON header of a safetensors file, its length told rightly."""
    size = int.from_bytes(data[:8], "little")
    header = random.choice(JSON)(data[8:8 + size], random)
    return len(header).to_bytes(8, "little") + header + data[8 + size:]


def damaged(data, ways, random):
    """(bytes, what was done)"""
    way = random.choice(ways)
    return way(data, random), way.__name__
