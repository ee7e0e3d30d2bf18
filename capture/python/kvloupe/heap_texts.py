"""Texts of variable length, read from HDF5's global heap with bounds checks of our own: a library follows references unchecked."""
import mmap
import os

import numpy as np

from .stored import BYTES_PER_STORED_BYTE, FREE_BYTES, MOST_TEXT, Defect

# Of a text as it is stored: `length` bytes in object `index` of the collection at `address`.
REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
HEADER = 16  # bytes of a collection's header, and of an object's
MOST_OF_COLLECTION = 64 << 20


SIGNATURE = b"GCOL\1"


class RawFile:
    """The open file below the library. What is read of it is in proportion to its size, however often it is referred to."""

    def __init__(self, file):
        if file.id.get_create_plist().get_sizes() != (8, 8):
            raise Defect("its addresses are not of 8 bytes")
        self._descriptor, self._base = file.id.get_vfd_handle(), file.userblock_size
        self.size = os.fstat(self._descriptor).st_size - self._base
        self._left = FREE_BYTES + BYTES_PER_STORED_BYTE * max(0, self.size)

    def read(self, address, count):
        if not 0 <= address <= self.size or not 0 <= count <= self.size - address:
            raise Defect("it refers to what is not in the file")
        self.spend(count)
        found = os.pread(self._descriptor, count, self._base + address)
        if len(found) != count:
            raise Defect("it refers to what is not in the file")
        return found

    def spend(self, count):
        self._left -= count
        if self._left < 0:
            raise Defect("its texts claim more than the file holds")


class HeapTexts:
    def __init__(self, raw):
        self._raw, self._collections = raw, {}

    def text(self, length, address, index):
        if length == 0:
            return ""
        if length > MOST_TEXT:
            raise Defect(f"a text in it is said to have {length:,} bytes")
        if address not in self._collections:
            self._collections[address] = _objects(self._collection(address))
        value = self._collections[address].get(index)
        if value is None or length > len(value):
            raise Defect("a text of it is not in the file")
        self._raw.spend(length)
        return bytes(value[:length]).partition(b"\0")[0].decode("utf-8", "replace")

    def _collection(self, address):
        header = self._raw.read(address, HEADER)
        size = int.from_bytes(header[8:], "little")
        if header[:5] != SIGNATURE or not HEADER <= size <= MOST_OF_COLLECTION:
            raise Defect("a text of it is not in the file")
        return memoryview(self._raw.read(address, size))


def _objects(collection):
    """{number: bytes}; of two with one number the first counts."""
    objects, at = {}, HEADER
    while at + HEADER <= len(collection):
        index, size = int.from_bytes(collection[at : at + 2], "little"), int.from_bytes(collection[at + 8 : at + 16], "little")
        at += HEADER
        if index == 0 or size > len(collection) - at:
            break
        objects.setdefault(index, collection[at : at + size])
        at += (size + 7) // 8 * 8
    return objects


def check_collections(path):
    """To be called before the library opens the file: over a collection whose free space is said to have no bytes it never ends."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        left, begin = len(content) // 8, content.find(SIGNATURE)  # Headers that do not overlap are fewer.
        while begin >= 0:
            end, at = begin + int.from_bytes(content[begin + 8 : begin + 16], "little"), begin + HEADER
            while at + HEADER <= min(end, len(content)):
                index, size = int.from_bytes(content[at : at + 2], "little"), int.from_bytes(content[at + 8 : at + 16], "little")
                left -= 1
                if left < 0 or (index == 0 and size == 0):
                    raise Defect("its texts overlap or have no end")
                at += HEADER + (size + 7) // 8 * 8 if index else size
            begin = content.find(SIGNATURE, begin + 1)
