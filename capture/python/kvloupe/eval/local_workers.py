"""Workers that are processes of this machine."""
import os
import subprocess
import sys


class LocalWorkers:
    device = None  # All have the one that was named.

    def __init__(self, count, threads):
        self.count, self.threads = count, threads or max(1, _cores() // count)
        self.where = "on this machine"
        self._running = {}

    def start(self, number, arguments, log, results):
        """A worker ends when the other end of its standard input is closed: it does not outlive this process."""
        with open(log, "wb") as said:
            process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True)
        self._running[number] = process, results

    def ended(self):
        """(number, exit code, whether it wrote its results) of those that ended since it was asked last."""
        found = [(number, process.returncode, os.path.exists(results)) for number, (process, results) in self._running.items()
                 if process.poll() is not None]
        for number, _, _ in found:
            self._running.pop(number)[0].stdin.close()
        return found

    def stop(self):
        for process, _ in self._running.values():
            process.kill()
        for process, _ in self._running.values():
            process.wait()
            process.stdin.close()
        self._running.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
