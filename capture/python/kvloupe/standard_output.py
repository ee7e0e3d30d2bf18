"""Results on standard output, which may be full or have nobody who reads it."""
import os
import sys

from .errors import KvloupeError


def put(text):
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # What is left is not tried again when the process ends.
        raise KvloupeError("standard output cannot be written", error.strerror or str(error), "read all of it, or write to a place with room") from None
