"""Some KV heads of a model, with the query heads that share them."""
import dataclasses
import operator

from .errors import KvloupeError

# A list of more is no list of heads, and would be read to its end.
MOST_NAMED = 65536


def numbers_of_heads(heads):
    """Ascending, each once; None for all."""
    if heads is None:
        return None
    numbers = set()
    try:
        if isinstance(heads, (str, bytes)):
            raise TypeError
        for count, head in enumerate(heads):
            # A truth value of numpy has an index in its older versions.
            if type(head).__name__ in ("bool", "bool_") or str(getattr(head, "dtype", "")).endswith("bool") or count == MOST_NAMED:
                raise TypeError
            numbers.add(operator.index(head))
    except TypeError:
        raise KvloupeError("heads= cannot be used", "it is a list of numbers of KV heads", "give heads=[0, 2], say") from None
    return tuple(sorted(numbers))


def chosen_heads(numbers, num_kv_heads):
    """Those of them that are recorded of so many; () for all."""
    if numbers is None:
        return ()
    outside = [head for head in numbers if not 0 <= head < num_kv_heads]
    if outside or not numbers:
        held = f"the KV heads 0 to {num_kv_heads - 1}" if num_kv_heads > 1 else "one KV head, 0"
        raise KvloupeError(f"KV head {outside[0]} cannot be recorded" if outside else "heads=[] records nothing", f"the model has {held}", "name heads of the model")
    return numbers if len(numbers) < num_kv_heads else ()


def check_one_process(numbers, rank):
    if numbers is not None and rank:
        raise KvloupeError("some heads alone cannot be recorded", "the model is spread over processes, each of which writes the heads that it has",
                           "leave heads out, or record in one process")


class HeadChoice:
    """kv_heads: the numbers of those that are kept, ascending; none for all. group: query heads of each."""

    def __init__(self, kv_heads, group):
        self._kv = _index(kv_heads)
        self._q = _index([head * group + i for head in kv_heads for i in range(group)])

    def of_kv(self, rows):
        """Of rows [KV heads, ..]."""
        return rows[self._kv]

    def of_q(self, rows):
        """Of rows [query heads, ..]."""
        return rows[self._q]


def _index(heads):
    """A range where they are neighbours: it needs no copy."""
    if not heads:
        return slice(None)
    heads = list(heads)
    return slice(heads[0], heads[-1] + 1) if heads[-1] - heads[0] + 1 == len(heads) else heads


def shape_of_heads(shape, kv_heads):
    """The LayerShape of a layer that has these KV heads alone."""
    if not kv_heads:
        return shape
    return dataclasses.replace(shape, num_kv_heads=len(kv_heads), num_q_heads=len(kv_heads) * (shape.num_q_heads // shape.num_kv_heads))
