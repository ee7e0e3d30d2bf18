"""How far a run is, on standard error."""
import sys
import time

SECONDS_BETWEEN_LINES = 5


class Progress:
    def __init__(self, total):
        self._total, self._done, self.passed_over = total, 0, 0
        self._begin = self._last = time.monotonic()

    def add(self):
        self.reach(self._done + 1)

    def reach(self, done):
        self._done = done
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say()

    def _say(self):
        each = (time.monotonic() - self._begin) / max(1, self._done)
        left = self._total - self.passed_over - self._done
        print(f"{self._done + self.passed_over:,} of {self._total:,} samples, {each:.2f} s each, about {left * each:,.0f} s left", file=sys.stderr)

    def end(self):
        before = f", {self.passed_over:,} of them before" if self.passed_over else ""
        print(f"{self._done + self.passed_over:,} samples{before}, {time.monotonic() - self._begin:.1f} s", file=sys.stderr)


def tell_stopped(journal):
    print(f"error: the evaluation was stopped; you pressed Ctrl+C; {len(journal.records):,} samples are in {journal.path}: go on with --resume",
          file=sys.stderr)
