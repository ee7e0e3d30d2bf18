"""The one exception of this package."""


class KvloupeError(Exception):
    """One sentence: what failed; why; what to do."""

    def __init__(self, what, why, what_to_do):
        super().__init__(f"{what}; {why}; {what_to_do}")
        self.why = why
        self.parts = (what, why, what_to_do)
