"""Methods on the tasks of lm-evaluation-harness. Importing this registers the harness's model class `kvloupe`."""
from .model import KvloupeLM

__all__ = ["KvloupeLM"]
