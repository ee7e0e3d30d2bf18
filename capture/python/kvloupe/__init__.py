"""Records what attention sees in a transformers model, and reads KVLoupe traces.

    with kvloupe.record(model, "t.h5", tokenizer=tokenizer):
        model.generate(**inputs)

    trace = kvloupe.open("t.h5")
    trace.attention(layer=3, q_head=0, begin=100, end=101)
"""
from .errors import KvloupeError
from .reader import Trace
from .reader import open_trace as open

__all__ = ["KvloupeError", "Trace", "merge", "open", "record"]


# Only these two need more than numpy and h5py to be imported, or are not needed by most.
def record(model, path, **options):
    """See kvloupe.recorder.Recorder, whose options these are."""
    from .recorder import Recorder
    return Recorder(model, path, **options)


def merge(parts, path, *, force=False):
    """Joins the parts that the ranks of one model wrote to one trace."""
    from .join import merge_parts
    merge_parts(parts, path, force=force)
