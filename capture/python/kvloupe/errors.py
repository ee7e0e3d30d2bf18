"""The one exception of this package, and how others are told."""


MOST_TOLD = 1000


def one_line(error):
    """What an exception says, on one line without control characters, however long it is."""
    text = " ".join(str(error).split())
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f"{type(error).__name__}: {text[:MOST_TOLD]}" if text else type(error).__name__


class KvloupeError(Exception):
    """One sentence: what failed; why; what to do."""
    exit_code = 1

    def __init__(self, what, why, what_to_do):
        super().__init__(f"{what}; {why}; {what_to_do}")
        self.why = why
        self.parts = (what, why, what_to_do)
