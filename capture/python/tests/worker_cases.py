"""What the tests of workers share: a task that counts its answers, and workers that are killed."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from .eval_cases import HEAD, MODEL, texts
from .support import scratch

COUNTED = """task: tiny_counted
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{target}}"
process_results: !function counted.of
metric_list: [{metric: letters, aggregation: mean, higher_is_better: true}]
generation_kwargs: {until: ["dog"], max_gen_toks: 6, do_sample: false}
"""
# Each answer is a line; while the file `deadly` is there, the first one is the last.
COUNTER = """import os
import pathlib
import time

HERE = pathlib.Path(__file__).parent


def of(doc, results):
    if (HERE / "deadly").exists():
        os.kill(os.getpid(), 9)
    if (HERE / "slow").exists():
        time.sleep(0.05)
    with open(HERE / "answered.txt", "a") as file:
        file.write(f"{doc['number']}\\n")
    return {"letters": float(len(results[0]))}
"""
SECONDS = 300


class Counted:
    """A folder with the task tiny_counted, its command, and how often it was answered."""

    def __init__(self, name, count):
        self.folder = scratch(name)
        self.folder.mkdir()
        data = self.folder / "data.json"
        data.write_text("\n".join(json.dumps({"number": number, "text": text, "target": "the"}) for number, text in enumerate(texts(count))))
        (self.folder / "counted.py").write_text(COUNTER)
        (self.folder / "tiny_counted.yaml").write_text(HEAD.format(data=data) + COUNTED)
        self.arguments = ["eval", "--model", MODEL, "--include-path", self.folder, "--tasks", "tiny_counted", "--chunk-size", 16]

    def flag(self, name, on=True):
        if on:
            (self.folder / name).touch()
        else:
            (self.folder / name).unlink()

    def answers(self):
        """Numbers of the documents, one for each time that one was answered, since this was asked last."""
        path = self.folder / "answered.txt"
        found = [int(line) for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found


def begun(arguments, output, said):
    """The command in a process of its own, whose standard error is the file `said`."""
    with open(said, "w") as file:
        return subprocess.Popen([sys.executable, "-m", "kvloupe", *map(str, arguments), "-o", str(output)], stdout=subprocess.DEVNULL, stderr=file)


def journal_lines(output, number="*"):
    """Samples that workers have finished."""
    journals = pathlib.Path(f"{output}.parts").glob(f"{number}.h5.journal")
    return sum(max(0, journal.read_bytes().count(b"\n") - 1) for journal in journals)


def wait_for(what, process=None):
    end = time.monotonic() + SECONDS
    while not (found := what()):
        if time.monotonic() > end or (process and process.poll() is not None):
            raise AssertionError("it did not happen")
        time.sleep(0.01)
    return found


def workers_of(output):
    """{part: process id}"""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "--part" in words and words[words.index("--part") + 1] == f"{output}.parts":
            found[int(words[words.index("--part") + 2].partition("/")[0])] = int(entry.name)
    return found


def kill(number):
    os.kill(number, signal.SIGKILL)


def child_of(process):
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if parent_of(entry.name) == process:
                return int(entry.name)
        except OSError:  # It has just ended.
            continue
    return None


def parent_of(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
