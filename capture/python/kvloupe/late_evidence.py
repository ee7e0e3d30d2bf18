"""Evidence for a method (infinipot) that decides when all layers have seen a chunk. Needs torch and transformers."""
import numpy as np

from .calls import positions_of
from .losses import Losses
from .probe import Prober, probe_text


class LateEvidence:
    """How probable the model found each token, and the queries of the probe after the last chunk."""

    def __init__(self, model, modules, tokenizer):
        self._prober = Prober(model, modules, probe_text(tokenizer), 0)
        self.install, self.remove = self._prober.install, self._prober.remove
        self.forget()

    def forget(self):
        self._losses = Losses(0)
        self.novelty = np.empty(0, np.float32)  # -log P [tokens]
        self.queries = {}  # layer -> [q heads, probe tokens, D]; none after a decoded token

    @property
    def text(self):
        return self._prober.text

    @property
    def is_running(self):
        """Whether the model reads the probe, which is no part of the text."""
        return self._prober.is_running

    def begin(self, calls, past, count):
        self._prober.begin(past, count, 0, positions_of(calls))

    def take(self, output, ids, probed_at):
        """After the forward of a chunk. probed_at: its end, or None for a chunk that is not probed."""
        self.novelty = np.concatenate([self.novelty, self._losses.take(output, ids)])
        self.queries = {} if probed_at is None else self._prober.run(probed_at)
