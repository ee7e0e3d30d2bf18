"""Why an engine does not answer, where that matters to who asked."""
from ..errors import KvloupeError


class RequestRefused(KvloupeError):
    """The request itself is why, such as one that is too long: it is refused however often it is made."""


class ProgramKilled(KvloupeError):
    """From outside: the same request may be answered when it is asked again."""
    exit_code = 137
