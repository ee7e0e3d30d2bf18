"""Workers that are tasks of Ray, on this machine or on a cluster whose nodes share the folder of the results."""
import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile

from ..errors import KvloupeError, one_line

PIN = "ray==2.60.0"
THREADS = 4  # of a worker, unless --threads says it
LEAST_STORE = 80 << 20  # What tasks return is two numbers; Ray takes no less than 75 MiB.
SECONDS_TO_ANSWER, SECONDS_TO_STOP = 5, 10
NAMES, BEGINNINGS = ("PYTHONPATH",), ("KVLOUPE_", "HF_", "XDG_")  # of the environment that workers have from here


class RayWorkers:
    def __init__(self, address, threads, device):
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
        except ImportError as error:
            raise KvloupeError("nothing can be given to Ray", f"{error.name} is not installed", f"pip install {PIN}") from None
        self._ray, self._running, self._folder = ray, {}, None
        self.where = f"on the Ray cluster at {address}" if address else "as tasks of Ray"
        self.device = "cuda:0" if device.startswith("cuda") else None  # A task sees the one GPU that Ray gives it.
        try:
            self._connect(address)
            self.count, self.threads = places(ray.nodes(), threads, self.device is not None)
        except BaseException:
            self._disconnect()
            raise
        self._run = ray.remote(num_cpus=self.threads, num_gpus=int(self.device is not None), max_retries=0)(_task())

    def _connect(self, address):
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if address:
                _knock(address)
                self._ray.init(address=address, **quiet)
            else:
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray would write one to the home folder.
                self._folder = tempfile.mkdtemp(prefix="kvloupe-ray-", dir="/tmp")  # A socket's path is short.
                self._ray.init(address="local", include_dashboard=False, object_store_memory=LEAST_STORE, _temp_dir=self._folder, **quiet)
        except Exception as error:  # Many kinds, by what is not there.
            if address:
                raise KvloupeError(f"no Ray cluster answers at {address}", _in_a_sentence(error),
                                   "look at `ray status` there, and set RAY_AUTH_MODE=token if it wants your token") from None
            raise KvloupeError("Ray cannot be started here", _in_a_sentence(error), "give --workers N in its place") from None

    def start(self, number, arguments, log, results):
        reference = self._run.remote(arguments, os.getcwd(), _environment(), str(log), str(results))
        self._running[reference] = number

    def ended(self):
        """(number, exit code, whether it wrote its results) of those that ended since it was asked last; a text of what ended Ray's own."""
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [(self._running.pop(reference), *self._outcome(reference)) for reference in ready]

    def _outcome(self, reference):
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise KvloupeError("a worker cannot be started", _in_a_sentence(error.cause),
                               "let all nodes have this folder and this package") from None
        except self._ray.exceptions.RayError as error:
            return type(error).__name__, False

    def stop(self):
        running, self._running = list(self._running), {}
        for reference in running:
            self._ray.cancel(reference, force=True)
        if running:
            self._ray.wait(running, num_returns=len(running), timeout=SECONDS_TO_STOP)

    def _disconnect(self):
        self._ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(self._ray.exceptions.RayError):
            self.stop()
        self._disconnect()


def _in_a_sentence(error):
    return one_line(error).replace("; ", ", ")


def _knock(address):
    """Ray itself waits for an hour where nobody listens."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()


def _task():
    """Inside a function, so that Ray sends it as it is: its own process needs no package of ours."""
    def run(arguments, folder, environment, log, results):
        import os
        import subprocess
        import sys
        with open(log, "wb") as said:
            process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                       stdout=said, stderr=said)
        return process.wait(), os.path.exists(results)
    return run


def _environment():
    return {name: value for name, value in os.environ.items() if name in NAMES or name.startswith(BEGINNINGS)}


def places(nodes, threads, with_gpu):
    """(workers, threads of each): as many as fit on the nodes, each with a GPU of its own where it needs one."""
    resources = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if with_gpu:
        resources = [of for of in resources if of.get("GPU", 0) >= 1]
    if not resources:
        raise KvloupeError("no worker can be started", f"no node of the Ray cluster has a {'GPU' if with_gpu else 'CPU'}",
                           "give --device cpu" if with_gpu else "add nodes to it")
    each = threads or int(min(THREADS, *(of["CPU"] // (of["GPU"] if with_gpu else 1) or 1 for of in resources)))
    count = sum(int(min(of["CPU"] // each, of["GPU"]) if with_gpu else of["CPU"] // each) for of in resources)
    if not count:
        raise KvloupeError("no worker can be started", f"no node of the Ray cluster has {each} CPUs", "give fewer --threads")
    return count, each
