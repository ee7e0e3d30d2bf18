"""What a SPEC says: the method's id, its parameters, what it does to keys. The library takes the text apart, nobody here does."""
import ctypes
import json

from .errors import KvloupeError
from .library import check, library


def spec_facts(spec):
    """A dict, as kvloupe_spec_facts of kvloupe.h describes it. Raises KvloupeError for a text that is no SPEC."""
    check_spec(spec)
    loaded, length = library(), ctypes.c_size_t()
    check(loaded, loaded.kvloupe_spec_facts(spec.encode(), None, 0, ctypes.byref(length)))
    text = ctypes.create_string_buffer(length.value + 1)
    check(loaded, loaded.kvloupe_spec_facts(spec.encode(), text, len(text), None))
    return json.loads(text.value)


def with_parameter(spec, name, value):
    """The SPEC with one parameter more."""
    return f"{spec}{',' if ':' in spec else ':'}{name}={value}"


def check_spec(spec):
    if not isinstance(spec, str) or "\0" in spec:
        raise KvloupeError(f"{spec!r} is no method", "a SPEC is text, such as quoka:budget_tokens=256", "kvloupe methods lists all of them")
