#!/usr/bin/env python3
"""same_output.py OLD NEW TRACE [--all] [--text] [--only TEXT] [--keep DIR]    whether two builds print the same bytes

Runs each command below with both programs (build/release/bin/kvloupe of two builds) on one trace: what they
print as JSON and CSV, and what they export as CSV and NPY of all views and methods; with --text what they print
for people instead. Names those that differ;
exit code 1 if any does. What a recipe of a change must leave as it was is checked so before it is merged.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile


def output_of(program, arguments):
    done = subprocess.run([program, *arguments], capture_output=True, check=False)
    return done.returncode, done.stdout


# One of each kind: token, page, lane and block methods, and eviction.
FEW = ("quoka", "quest", "aqua", "flash_prefill", "h2o")


def commands(program, trace, all_methods):
    """Lists of arguments; a file to be written is called OUT."""
    methods = [method["id"] for method in json.loads(output_of(program, ["methods", "--json"])[1])["methods"]]
    views = json.loads(output_of(program, ["views", "--json"])[1])["views"]
    listed = [["info", trace, "--json"], ["methods", "--json"], ["views", "--json"], ["devices", "--json"], ["models", "--json"]]
    for method in methods:
        spec = spec_of(program, trace, method)
        listed.append(["select", trace, "--method", spec, "--layer", "1", "--json"])
        if not all_methods and method not in FEW:
            continue
        for view in views:
            if view["id"] in ("latency", "block_tables") or view.get("shows") == "results":  # they measure times, or show no trace
                continue
            for kind in ("csv", "npy"):
                if kind in view["formats"]:
                    listed.append(["export", trace, "--view", view["id"], "--method", spec, f"--{kind}", "OUT"])
    both = ["--method", "quoka:budget_tokens=128", "--method", "snapkv:budget_tokens=128", "--method", "streaming_llm"]
    for kind in ("--json", "--csv=-"):
        listed.append(["compare", trace, "--method", "all:budget_tokens=128", kind])
        listed.append(["compare", trace, *both, "--cells", "own", "--weights", "queries", kind])
        listed.append(["compare", trace, *both, "--span", "needle", "--scope", "layer,kv_head", kind])
        listed.append(["compare", trace, trace, *both, "--sweep", "budget_tokens=32..256", "--target", "mass_recall=0.5", kind])
    for method in ("quoka:budget_tokens=128", "quest:budget_tokens=128", "flash_prefill"):
        listed.append(["explain", trace, "--method", method, "--worst", "50", "--json"])
        listed.append(["report", trace, "--method", method, "-o", "OUT"])
    listed.append(["explain", trace, "--method", "quoka:budget_tokens=128", "--layer", "1", "--chunk", "5", "--kv-head", "0",
                   "--key", "40", "--json"])
    return listed


def texts(trace):
    """What is printed for people. Times and what a machine has are left out."""
    few = [f"{method}:budget_tokens=128" for method in ("quoka", "quest", "h2o")] + ["flash_prefill", "aqua"]
    listed = [["info", trace], ["methods"], ["views"], ["compare", trace, "--method", "all:budget_tokens=128", "--columns", "all"]]
    for method in few:
        listed.append(["select", trace, "--method", method])
        listed.append(["report", trace, "--method", method, "-o", "OUT"])
        if method != "aqua":
            listed.append(["explain", trace, "--method", method, "--worst", "10"])
    both = ["--method", "quoka:budget_tokens=128", "--method", "random:budget_tokens=128"]
    listed.append(["compare", trace, *both])
    listed.append(["compare", trace, trace, *both, "--span", "needle", "--full"])
    listed.append(["compare", trace, *both, "--method", "dense", "--sweep", "budget_tokens=32..128", "--target", "mass_recall=0.5"])
    listed.append(["explain", trace, "--method", "quoka:budget_tokens=128", "--layer", "1", "--chunk", "5", "--kv-head", "0",
                   "--key", "40"])
    return listed


def spec_of(program, trace, method):
    """With a budget where the method takes one as it stands; block methods do so with lowering=budget alone."""
    spec = f"{method}:budget_tokens=128"
    return spec if output_of(program, ["select", trace, "--method", spec, "--layer", "1", "--json"])[0] == 0 else method


def run(program, arguments, folder):
    out = pathlib.Path(folder) / "out"
    code, text = output_of(program, [str(out) if argument == "OUT" else argument for argument in arguments])
    files = sorted(path for path in [out, *out.rglob("*")] if path.is_file() and path.suffix != ".png")
    return code, text.replace(str(out).encode(), b"OUT"), b"".join(path.read_bytes() for path in files)


def compared(pair, arguments):
    with tempfile.TemporaryDirectory() as a, tempfile.TemporaryDirectory() as b:
        return arguments, run(pair[0], arguments, a), run(pair[1], arguments, b)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("trace")
    parser.add_argument("--all", action="store_true", help="export the views of every method, not of one of each kind")
    parser.add_argument("--text", action="store_true", help="compare what is printed for people")
    parser.add_argument("--only", default="", help="commands that hold this text")
    parser.add_argument("--keep", help="folder for the two outputs of each command that differs")
    given = parser.parse_args()
    listed = texts(given.trace) if given.text else commands(given.old, given.trace, given.all)
    listed = [one for one in listed if given.only in " ".join(one)]
    differing = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (arguments, old, new) in enumerate(pool.map(lambda one: compared((given.old, given.new), one), listed)):
            failed += old[0] != 0
            if old == new:
                continue
            differing += 1
            print("differs:", " ".join(arguments), f"(exit codes {old[0]} and {new[0]})", flush=True)
            if given.keep:
                for name, one in (("old", old), ("new", new)):
                    path = pathlib.Path(given.keep) / f"{number}.{name}"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(one[1] + one[2])
    print(f"{len(listed)} commands, {failed} of them refused by the old program, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
