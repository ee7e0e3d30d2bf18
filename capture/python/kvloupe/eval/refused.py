"""What an engine does not answer although it answers others."""
from ..errors import KvloupeError


class RequestRefused(KvloupeError):
    """The request itself is why, such as one that is too long: it is refused however often it is made."""
