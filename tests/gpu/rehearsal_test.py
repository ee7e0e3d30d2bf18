#!/usr/bin/env python3
"""The kit for a lent GPU without a GPU.

    rehearsal_test.py sim CHECKS BUILD   all phases on `sim`: CHECKS is the kit's program in the emulator, BUILD has what
                                         pack.sh takes
    rehearsal_test.py faults             every step fails once, in each way that it can; one script stands for all programs

In both compute-sanitizer and Nsight Compute are stand-ins. Writes to the working directory.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

KIT = pathlib.Path(__file__).resolve().parent
HERE = pathlib.Path.cwd()
TESTS = ["test_cuda_parity", "test_capture_on_sim"] + [f"test_selection_on_sim_{shard}" for shard in range(4)]
STEPS = ["kernels", "racecheck", "memcheck", "synccheck", "initcheck", "devices", *TESTS, "latency_30k", "latency_128k", "bench", "paged",
         "profile"]
PREPARING = ["compile", "unpack", "synthesize"]  # others wait for these
PRINTS_JSON = [step for step in ("synthesize", *STEPS) if step != "profile" and not step.endswith("check")]

STAND_IN = r"""#!/usr/bin/env bash
# FAULT: error, wrong, nothing or hang, in the steps FAULTY.
name="$(basename "$0")"
case "$name $*" in
  nvcc*) step=compile ;;
  compute-sanitizer*) step="$2" ;;
  ncu*) step=profile ;;
  kvloupe*latency*131072*) step=latency_128k ;;
  kvloupe*latency*) step=latency_30k ;;
  kvloupe*paged*) step=paged ;;
  kvloupe*bench*) step=bench ;;
  kvloupe*devices*) step=devices ;;
  kvloupe*synthesize*) step=synthesize ;;
  test_selection*) step="${name}_$GTEST_SHARD_INDEX" ;;
  *) step="$name" ;;
esac
echo "$step" >> "$CALLS"
for last; do :; done
json=/dev/stdout log=/dev/null
[[ "$last" != --gtest_output=json:* ]] || json="${last#*json:}"
for ((i = 1; i < $#; ++i)); do [ "${!i}" != --log-file ] || { ((++i)); log="${!i}"; }; done
if [[ " $FAULTY " == *" $step "* ]]; then
  case "$FAULT" in
    error) echo "$step broke" >&2; echo "==ERROR== $step broke" > "$log"; exit 3 ;;
    nothing) exit 0 ;;
    hang) echo "$step hangs" >&2; exec sleep 600 ;;
    wrong) echo "wrong: $step" >&2; cat "$ANSWERS/$step.json" > "$json"; exit 1 ;;
  esac
fi
case "$step" in
  compile) cp "$0" "$last" ;;
  profile) cp "$ANSWERS/profile.csv" "$log" ;;
  *check) echo "========= ERROR SUMMARY: 0 errors" ;;
  *) cat "$ANSWERS/$step.json" > "$json" ;;
esac
"""


def profile_csv():
    head = "==PROF== Connected to process 7\n" + '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    launch = lambda i, name, ns: "".join(f'"{i}","{name}","S","{metric}","{unit}","{value}"\n' for metric, unit, value in (
        ("Duration", "ns", ns), ("Memory Throughput", "%", "61.25"), ("Registers Per Thread", "register/thread", "120"), ("", "", "")))
    name = "void kvloupe::cuda::(anonymous namespace)::rows<float, (int){}>(kvloupe::cuda::Problem)"
    return head + "".join(launch(i, name.format(i % 7), f"{i},000,000") for i in range(1, 15))


def write_answers(folder):
    row = {"kernel": "k", "type": "fp32", "shape": "s", "error": 0.5, "same_bits": True, "bits_of_fp32": True, "right": True}
    attention = {"case": "dense", "type": "fp32", "q_heads": 4, "kv_heads": 2, "chunk_len": 3, "past": 5, "dim": 8, "output": 1e-7, "lse": 0,
                 "key_mass": 0, "of_tolerated": 0.1, "same_bits": True, "right": True}
    counts = lambda n: {"select": n, "gather": 1, "attend": 2}
    latency = {"method": "quoka", "past": 30720, "chunk_len": 128, "total_ms": 0.2, "parts": {"select": 0.1}, "dense_ms": None,
               "dense_variant": "flash", "floor_ms": 0.01, "launches": counts(7), "host_waits": counts(1)}
    case = {"name": "a", "result": "COMPLETED", "cells_at_cut": "2"}
    answers = {
        "kernels": {"device": "a GPU", "attention": [attention], "selection": [row], "probabilities": []},
        "devices": {}, "synthesize": {},
        "latency_30k": {"device_name": "a GPU", "dtype": "f16", "rows": [latency, {**latency, "launches": None, "host_waits": None}]},
        "bench": {"rows": [{"id": "attn_32k", "value": 1.5, "median_ms": 0.1, "launches": 10.0, "host_waits": 1.0},
                           {"id": "quoka_30k", "value": None, "median_ms": None, "reason": "there was no room"}]},
    }
    answers |= {name: {"tests": 1, "failures": 0, "testsuites": [{"testsuite": [case]}]} for name in TESTS}
    answers |= {"latency_128k": answers["latency_30k"], "paged": {"rows": []}}
    for name, answer in answers.items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
    (folder / "profile.csv").write_text(profile_csv())


def stand_in(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


class Rehearsal(unittest.TestCase):
    def setUp(self):
        self.work = HERE / self.id().split(".")[-1]
        shutil.rmtree(self.work, ignore_errors=True)
        self.out, self.calls = self.work / "out", self.work / "calls"
        programs = self.work / "programs"
        for name in ("nvcc", "compute-sanitizer", "ncu"):
            stand_in(programs / name)
        (self.work / "answers").mkdir()
        write_answers(self.work / "answers")
        self.env = {**os.environ, "OUT": str(self.out), "CALLS": str(self.calls), "ANSWERS": str(self.work / "answers"), "FAULTY": "",
                    "KIT": str(self.work / "kit.tar.gz"), "NVCC": str(programs / "nvcc"), "SANITIZER": str(programs / "compute-sanitizer"),
                    "NCU": str(programs / "ncu")}

    def pack(self, word=""):
        programs = self.work / "kit/bin"
        for name in ("kvloupe", "test_cuda_parity", "test_selection_on_sim", "test_capture_on_sim"):
            stand_in(programs / name)
        (programs / "word").write_text(word)
        subprocess.run(["tar", "-C", programs.parent, "-czf", self.env["KIT"], "."], check=True)

    def run_kit(self, *phases, **more):
        self.calls.unlink(missing_ok=True)
        ended = subprocess.run([KIT / "run.sh", *phases], env={**self.env, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.page = (self.out / "page.md").read_text()
        self.assertTrue((self.out / "details.tar.gz").exists())
        self.assertFalse((self.out / "details").exists())
        self.said = self.calls.read_text().split() if self.calls.exists() else []
        return ended.returncode

    def expect_named(self, step, words):
        self.assertIn(f"- `{step}`{words}", self.page)


class OnSim(Rehearsal):
    checks, build = "", ""

    def test_all_phases_run_on_sim(self):
        subprocess.run([KIT / "pack.sh", self.build, self.env["KIT"]], check=True)
        code = self.run_kit(DEVICE="sim", KERNELS=self.checks)
        print(self.page)
        self.assertEqual(code, 0)
        self.assertIn("12 of 13 steps ended well.", self.page)
        self.expect_named("bench", " was left out: times on sim are no device's")
        for part in ("Kernels on emulator", "| test_selection_on_sim |", "| test_capture_on_sim |", "`latency` on", "launches"):
            self.assertIn(part, self.page)


class Faults(Rehearsal):
    def setUp(self):
        super().setUp()
        self.pack()

    def test_a_run_without_a_fault(self):
        self.assertEqual(self.run_kit(), 0)
        count = len(STEPS) + len(PREPARING)
        self.assertIn(f"{count} of {count} steps ended well.\n", self.page)
        self.assertEqual(sorted(self.said), sorted({*STEPS, *PREPARING} - {"unpack"}))
        self.assertIn("| dense | fp32 | 4 | 2 |", self.page)
        self.assertIn("- `memcheck`: ========= ERROR SUMMARY: 0 errors", self.page)
        self.assertIn("| test_cuda_parity | 1 | 0 | 0 | 2 |", self.page)
        self.assertIn("| quoka | 30,720 | 7 + 1 + 2 | 1 + 1 + 2 |", self.page)
        self.assertIn("| quoka | 30,720 | - | - |", self.page)
        self.assertIn("| attn_32k | 1.50  | 0.100 |  | 10 | 1 |", self.page)
        self.assertIn("| quoka_30k | there was no room |", self.page)
        # Each kernel by its longest launch.
        profiled = [line.split(" | ")[:2] for line in self.page.splitlines() if line.startswith("| rows<")]
        self.assertEqual(profiled, [[f"| rows<float, {i % 7}>", f"{i}.000"] for i in (14, 13, 12, 11, 10)])

    def test_each_step_that_breaks_is_named(self):
        self.assertEqual(self.run_kit(FAULT="error", FAULTY=" ".join(STEPS)), 1)
        for step in STEPS:
            # Nsight Compute says what went wrong in its own file.
            self.expect_named(step, f": exit 3: ==ERROR== {step} broke" if step == "profile" else f": exit 3: {step} broke")

    def test_each_step_that_runs_past_its_time_is_named(self):
        self.assertEqual(self.run_kit(FAULT="hang", FAULTY=" ".join(STEPS), LIMITS=" ".join(f"{step}=1" for step in STEPS)), 1)
        for step in STEPS:
            self.expect_named(step, ": ran past its time (124): ")

    def test_each_step_with_a_wrong_result_is_named(self):
        steps = ["kernels", *TESTS]
        self.assertEqual(self.run_kit("kernels", "program", FAULT="wrong", FAULTY=" ".join(steps)), 1)
        for step in steps:
            self.expect_named(step, f": exit 1: wrong: {step}")
        self.assertIn("| dense | fp32 | 4 | 2 |", self.page)

    def test_each_step_that_answers_nothing_is_named(self):
        self.assertEqual(self.run_kit(FAULT="nothing", FAULTY=" ".join([*PRINTS_JSON, "profile"])), 1)
        for step in PRINTS_JSON:
            if not step.startswith("latency"):
                self.expect_named(step, ": gave no whole JSON")
        self.expect_named("profile", " has no kernel in profile.csv")
        self.run_kit("bench", FAULT="nothing", FAULTY="latency_30k latency_128k")
        for step in ("latency_30k", "latency_128k"):
            self.expect_named(step, ": gave no whole JSON")

    def test_tests_that_are_all_skipped_are_named(self):
        answer = self.work / "answers/test_cuda_parity.json"
        answer.write_text(answer.read_text().replace("COMPLETED", "SKIPPED"))
        self.assertEqual(self.run_kit("program"), 1)
        self.expect_named("test_cuda_parity", " skipped all of its tests")

    def test_an_answer_of_another_form_is_named(self):
        (self.work / "answers/bench.json").write_text("{\"row\": []}")
        self.assertEqual(self.run_kit("bench"), 1)
        self.assertIn("- what stands under `benches` cannot be read: KeyError('rows')", self.page)

    def test_sources_that_do_not_compile_are_named(self):
        for fault, words in (("error", "exit 3: compile broke"), ("hang", "ran past its time (124): ")):
            self.assertEqual(self.run_kit("kernels", "racecheck", "profile", FAULT=fault, FAULTY="compile", LIMITS="compile=1"), 1)
            self.expect_named("compile", f": {words}")
            self.assertEqual(set(self.said), {"compile"})
        self.assertEqual(self.run_kit("kernels", NVCC="/bin/false"), 1)
        self.expect_named("compile", ": exit 1: it said nothing")
        self.assertEqual(self.run_kit("kernels", NVCC="/nowhere/nvcc"), 1)
        self.expect_named("compile", ": exit 127: timeout: failed to run command")

    def test_a_trace_that_is_not_made_is_named(self):
        for fault, words in (("error", "exit 3: synthesize broke"), ("hang", "ran past its time (124): ")):
            self.assertEqual(self.run_kit("bench", FAULT=fault, FAULTY="synthesize", LIMITS="synthesize=1"), 1)
            self.expect_named("synthesize", f": {words}")
            self.assertNotIn("latency_30k", self.said)

    def test_a_damaged_archive_is_named(self):
        kit = pathlib.Path(self.env["KIT"])
        kit.write_bytes(kit.read_bytes()[:100])
        self.assertEqual(self.run_kit("program", "bench"), 1)
        self.expect_named("unpack", ": exit 2: ")
        kit.unlink()
        self.assertEqual(self.run_kit(), 0)
        self.expect_named("unpack", f" was left out: there is no {kit}")

    def test_what_is_not_installed_is_left_out(self):
        self.assertEqual(self.run_kit("racecheck", "profile", SANITIZER="/nowhere/compute-sanitizer", NCU="/nowhere/ncu"), 0)
        self.expect_named("racecheck", " was left out: compute-sanitizer was not found")
        self.expect_named("profile", " was left out: ncu (Nsight Compute) was not found")

    def test_a_second_run_does_what_is_left(self):
        self.assertEqual(self.run_kit(FAULT="error", FAULTY="memcheck test_cuda_parity paged"), 1)
        self.assertEqual(self.run_kit("kernels"), 1)
        self.assertEqual(self.said, [])
        self.assertEqual(self.run_kit(), 0)
        self.assertEqual(sorted(self.said), ["memcheck", "paged", "test_cuda_parity"])
        self.pack("another program")
        self.assertEqual(self.run_kit("kernels"), 0)
        self.assertEqual(self.said, ["compile", "kernels"])
        self.assertNotIn("paged", self.page)

    def test_a_phase_alone(self):
        for phase, steps in (("racecheck", ["compile", *STEPS[1:5]]), ("kernels", ["kernels"]), ("program", ["devices", *TESTS]),
                             ("bench", ["synthesize", "latency_30k", "latency_128k", "bench", "paged"]), ("profile", ["profile"])):
            self.assertEqual(self.run_kit(phase), 0, phase)
            self.assertEqual(sorted(self.said), sorted(steps))

    def test_a_phase_that_is_none(self):
        ended = subprocess.run([KIT / "run.sh", "kernel"], env=self.env, stderr=subprocess.PIPE, text=True)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("run.sh has no phase kernel; its phases are: kernels racecheck program bench profile", ended.stderr)

    def test_a_run_that_is_ended_leaves_its_page(self):
        for phase, step in (("kernels", "kernels"), ("program", "test_cuda_parity")):
            kit = subprocess.Popen([KIT / "run.sh", phase], env={**self.env, "FAULT": "hang", "FAULTY": step}, stdout=subprocess.DEVNULL)
            said = self.out / f"details/{step}.txt"
            while not (said.exists() and "hangs" in said.read_text()):
                self.assertIsNone(kit.poll())
                time.sleep(0.05)
            kit.send_signal(signal.SIGTERM)
            self.assertEqual(kit.wait(), 143)
            self.page = (self.out / "page.md").read_text()
            self.assertIn(f"- `{step}`: was ended before it was done: {step} hangs", self.page)


if __name__ == "__main__":
    if sys.argv[1] == "sim":
        OnSim.checks, OnSim.build = sys.argv[2:]
    unittest.main(argv=[sys.argv[0], "OnSim" if sys.argv[1] == "sim" else "Faults"])
