#!/usr/bin/env python3
"""Compares what KVLoupe and transformers answer: the same samples of a task, dense, greedily, with the model that comes with KVLoupe.

    cmake/deps.sh fetch python eval data        packages and the model
    python3.11 -m pip install --target GGUF gguf==0.19.0
    tests/tools/same_answers.py PROGRAM GGUF FOLDER [--model FILE.gguf] [--task niah_single_1] [--length 1k] [--samples 50]

transformers reads the model's GGUF file into FOLDER/NAME, in float32; then `python -m kvloupe eval` asks both for their answers. About
10 minutes for 50 samples on two cores. Exit code 1 where an answer differs.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def folder_of(part):
    return subprocess.run([ROOT / "cmake/deps.sh", "folder", part], check=True, capture_output=True, text=True).stdout.strip()


def convert(gguf, folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config)
    plain.load_state_dict(read.state_dict())
    half = folder.with_suffix(".part")
    plain.save_pretrained(half)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(half)
    half.rename(folder)


def answers_of(results):
    import h5py

    with h5py.File(results) as file:
        texts = {}
        for name in ("answer", "sample"):
            data, ends = file[f"texts/{name}"][:].tobytes(), file[f"texts/{name}_offsets"][:]
            texts[name] = [data[begin:end] for begin, end in zip(ends, ends[1:])]
    return dict(zip(texts["sample"], texts["answer"]))


def compare(arguments):
    gguf = arguments.model or next(pathlib.Path(folder_of("data")).glob("models/*.gguf"))
    model = arguments.folder / gguf.stem
    if not model.exists():
        convert(gguf, model)
    answers = []
    for name, which in (("kvloupe", str(model)), ("transformers", f"hf:{model}")):
        results = pathlib.Path(tempfile.mkdtemp(dir=arguments.folder)) / f"{name}.h5"
        command = ["eval", "--model", which, "--tasks", arguments.task, "--lengths", arguments.length, "--limit", str(arguments.samples)]
        subprocess.run([sys.executable, "-m", "kvloupe", *command, "--method", "dense", "-o", results], check=True)
        answers.append(answers_of(results))
    ours, theirs = answers
    same = sum(answer != b"" and theirs.get(sample) == answer for sample, answer in ours.items())
    print(f"{same} of {len(ours)} answers of {arguments.task} are the same, {sum(map(len, ours.values()))} bytes")
    return 0 if same == len(ours) == len(theirs) == arguments.samples else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--task", default="niah_single_1")
    parser.add_argument("--length", default="1k")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # the packages are on the path
    arguments = parser.parse_args()
    if arguments.inside:
        return compare(arguments)
    packages = [ROOT / "capture/python", folder_of("python"), pathlib.Path(folder_of("eval")) / "site-packages", arguments.gguf]
    environment = {**os.environ, "KVLOUPE_PROGRAM": str(arguments.program.resolve()), "HF_HUB_OFFLINE": "1",
                   "PYTHONPATH": ":".join(str(pathlib.Path(path).resolve()) for path in packages)}
    python = subprocess.run([ROOT / "cmake/deps.sh", "python"], check=True, capture_output=True, text=True).stdout.strip()
    return subprocess.run([python, *sys.argv, "--inside"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
