#!/usr/bin/env python3
"""run_test.py KVLOUPE MODELS: what `kvloupe run` answers, against transformers on a tiny model of each family; its file of
answers when it is killed, resumed and given hostile lines."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import torch
import transformers

KVLOUPE, MODELS = sys.argv[1:]
FAMILIES = ["gemma3_text", "llama", "qwen3", "smollm3"]
WORDS = "the cat sat on a mat and saw the dog that ate all of the food in the house".split()


def run(*words, lines=None, code=0):
    result = subprocess.run([KVLOUPE, "run", *words, "--threads", "1"], input=lines, capture_output=True, text=True, timeout=120)
    assert result.returncode == code, (words, result.returncode, result.stderr)
    return result


def answers(model, requests, *words):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    out = run("--model", model, "--requests", "-", *words, lines=text).stdout
    found = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in found] == [request["id"] for request in requests], found
    return found


def some_text(seed, count):
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def beside_transformers(family):
    folder = os.path.join(MODELS, family)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").float().eval()
    # Raw texts get the begin token where the model's files say so; the ids that were fed are asked back by their number.
    requests, expected = [], []
    for seed in range(6):
        ids = tokenizer(some_text(seed, 8 + 5 * seed), add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            whole = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=12, do_sample=False,
                                   pad_token_id=0)[0].tolist()
        requests.append({"id": seed, "tokens": ids, "max_new_tokens": 12})
        expected.append(whole[len(ids):])
    decoding = [dict(request, decode_from=len(request["tokens"]) // 2) for request in requests]
    for given in (requests, decoding):
        for answer, tokens in zip(answers(folder, given, "--chunk-size", "16"), expected):
            assert answer["tokens"] == tokens, (family, answer, tokens)
            assert answer["finish"] == ("stop" if len(tokens) < 12 else "length"), answer
    return tokenizer, model, folder


def likelihoods(family, tokenizer, model, folder):
    pairs = [("the cat", " sat on a mat"), ("the cat ", "sat"), ("", "the dog"), (some_text(3, 30), " " + some_text(4, 20))]
    requests = [{"id": i, "context": a, "continuation": b} for i, (a, b) in enumerate(pairs)]
    adds_begin = tokenizer("the")["input_ids"][0] == tokenizer.bos_token_id

    def ids_of(text):
        return ([tokenizer.bos_token_id] if adds_begin else []) + tokenizer(text, add_special_tokens=False)["input_ids"]

    for (context, continuation), answer in zip(pairs, answers(folder, requests, "--chunk-size", "16")):
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        if context:
            whole, before = ids_of(context + continuation), len(ids_of(context))
        else:
            whole, before = [tokenizer.bos_token_id] + tokenizer(continuation, add_special_tokens=False)["input_ids"], 1
        with torch.no_grad():
            logits = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
        rows, next_ids = logits[before - 1:-1], torch.tensor(whole[before:])
        expected = rows.gather(1, next_ids[:, None]).sum().item()
        assert abs(answer["loglikelihood"] - expected) < 1e-3, (family, context, answer, expected)
        assert answer["greedy"] == bool((rows.argmax(1) == next_ids).all()), (family, context, answer)


def special_tokens(family, tokenizer, model, folder):
    """Texts of the chat template with their special tokens, and what the model reads of a request."""
    messages = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}, {"role": "user", "content": "the dog"}]
    chat = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(chat, add_special_tokens=False)["input_ids"]
    rendered, parsed, literal = answers(folder, [
        {"id": 1, "messages": messages, "tokenize": True}, {"id": 2, "prompt": chat, "raw": True, "special": True, "tokenize": True},
        {"id": 3, "prompt": chat, "raw": True, "tokenize": True}])
    assert (rendered["text"], rendered["prompt_tokens"]) == (chat, len(ids)), rendered
    assert parsed["prompt_tokens"] == len(ids) < literal["prompt_tokens"], (parsed, literal)
    given, answer = answers(folder, [{"id": 4, "messages": messages, "max_new_tokens": 6}, {"id": 5, "prompt": chat, "raw": True, "special": True, "max_new_tokens": 6}])
    assert given["tokens"] == answer["tokens"], (given, answer)
    whole = ids + tokenizer("the food", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    expected = logits[len(ids) - 1:-1].gather(1, torch.tensor(whole[len(ids):])[:, None]).sum().item()
    answer, = answers(folder, [{"id": 6, "context": chat, "continuation": "the food", "special": True}])
    assert abs(answer["loglikelihood"] - expected) < 1e-3 and answer["prompt_tokens"] == len(whole) - 1, (family, answer, expected)
    for wrong in ({"special": True}, {"raw": True, "special": 1}, {"tokenize": "yes"}):
        answer, = answers(folder, [{"id": 7, "prompt": "the cat", **wrong}])
        assert answer["error"].count(";") == 2, answer


def hostile_lines(model):
    lines = [b'{"id": 1, "prompt": "the cat", "raw": true, "max_new_tokens": 3}', b"\xff\xfe", b"null", b'{"id": 2}', b"[" * 100000,
             b'{"id": 1, "prompt": "again", "raw": true}', b'{"id": 3, "tokens": [5, 100000]}', b'{"id": 4, "prompt": "a\x00b"}',
             b'{"id": 5, "prompt": "\\ud800", "raw": true}', b"", b'{"id": 6, "prompt": "' + b"the cat " * 2000 + b'", "raw": true}',
             b'{"id": 7, "prompt": "the cat", "raw": true, "max_new_tokens": 3}']
    result = subprocess.run([KVLOUPE, "run", "--model", model, "--requests", "-"], input=b"\n".join(lines), capture_output=True)
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["id"] for answer in found] == [1, None, None, 2, None, 1, 3, None, None, 6, 7], found
    assert ["error" in answer for answer in found] == [False] + 9 * [True] + [False], found
    assert found[0]["tokens"] == found[-1]["tokens"]


def refusals(model, folder):
    requests = os.path.join(folder, "requests.jsonl")
    with open(requests, "w") as file:
        file.write('{"id": 1, "prompt": "the cat", "raw": true, "max_new_tokens": 3}\n')
    common = ["--model", model, "--requests", requests]
    refused = [
        (2, ["--requests", requests]), (2, ["--model", model]), (2, [*common, "--resume"]), (2, [*common, "--resume", "-o", "/dev/null"]),
        (2, [*common, "--closed-loop", "nonsense"]), (2, [*common, "--chunk-size", "0"]), (1, [*common, "-o", requests]),
        (1, [*common, "-o", os.path.join(model, "model.safetensors")]), (1, ["--model", "never", "--requests", requests]),
        (1, ["--model", model, "--requests", folder]), (1, ["--model", model, "--requests", os.path.join(folder, "never")]),
        (1, [*common, "-o", os.path.join(folder, "never", "answers")]), (1, [*common, "--resume", "-o", __file__])]
    for code, words in refused:
        result = run(*words, code=code)
        assert result.stdout == "" and result.stderr.splitlines()[-1].startswith("error: "), (words, result)
        assert result.stderr.splitlines()[-1].count(";") >= 2, (words, result)


def killed_and_resumed(model, folder):
    requests, whole, cut = (os.path.join(folder, name) for name in ("many.jsonl", "whole.jsonl", "cut.jsonl"))
    with open(requests, "w") as file:
        for i in range(300):
            file.write(json.dumps({"id": f"r{i}", "prompt": some_text(i, 30), "raw": True, "max_new_tokens": 8}) + "\n")
        file.write("no JSON\nnor this\n")
    words = ["run", "--model", model, "--requests", requests, "--threads", "1"]
    subprocess.run([KVLOUPE, *words, "-o", whole], check=True, capture_output=True)

    def without_times(path):
        found = [json.loads(line) for line in open(path)]
        return [{key: value for key, value in answer.items() if not key.endswith("_s")} for answer in found]

    expected, dice, kills = without_times(whole), random.Random(1), 0
    assert len(expected) == 302
    for attempt in range(6):
        last = attempt == 5
        process = subprocess.Popen([KVLOUPE, *words, "-o", cut, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = os.path.getsize(cut) if os.path.exists(cut) else 0
        while not last and process.poll() is None and (os.path.getsize(cut) if os.path.exists(cut) else 0) <= before:
            time.sleep(0.005)
        if not last:
            time.sleep(dice.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL if attempt % 2 == 0 else signal.SIGINT)
            kills += process.wait() in (-signal.SIGKILL, 130)
            with open(cut, "a") as file:  # as a kill in the midst of a write leaves it
                file.write('{"id": "r299", "te')
    assert process.wait() == 0 and kills > 0
    assert without_times(cut) == expected


def answers_come_at_once(model):
    process = subprocess.Popen([KVLOUPE, "run", "--model", model, "--requests", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    for i in range(3):
        process.stdin.write(json.dumps({"id": i, "prompt": "the cat", "raw": True, "max_new_tokens": 2}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == i
    process.send_signal(signal.SIGINT)  # while it waits
    assert process.wait(timeout=20) == 130


def main():
    for family in FAMILIES:
        theirs = beside_transformers(family)
        likelihoods(family, *theirs)
        special_tokens(family, *theirs)
    model = os.path.join(MODELS, "llama")
    hostile_lines(model)
    answers_come_at_once(model)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        refusals(model, folder)
        killed_and_resumed(model, folder)


if __name__ == "__main__":
    main()
