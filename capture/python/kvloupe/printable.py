"""Texts of files and models on a terminal: what they hold is shown, and does nothing there."""


def printable(text):
    """On one line: line feeds as \\n, and other letters that are not shown (ESC, marks that turn the direction) as their escapes."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
