"""A sample: one document of a task, what the model answers to its requests, and what the harness's own metrics say of that."""
import collections
import dataclasses
import hashlib
import json
import math

from lm_eval.utils import handle_non_serializable

from ..errors import KvloupeError, one_line
from .data_folder import missing_of
from .refused import RequestRefused

# Aggregations whose numbers are log-likelihoods: a perplexity is of all texts together, and no score of a sample.
PERPLEXITIES = ("perplexity", "weighted_perplexity", "bits_per_byte")


@dataclasses.dataclass
class Sample:
    task: object
    name: str
    number: int  # of the document
    doc: dict
    requests: list
    identity: list  # what makes it this one whatever else is run

    @property
    def length(self):
        return length_of(self.doc)

    @property
    def asks_likelihoods(self):
        return self.requests[0].request_type != "generate_until"

    @property
    def digest(self):
        """The same for all methods, and whatever else is run."""
        return _hash(self.identity)[:32]

    @property
    def depth(self):
        depth = self.doc.get("depth") if isinstance(self.doc, dict) else None
        return float(depth) if isinstance(depth, (int, float)) else math.nan


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=handle_non_serializable).encode()).hexdigest()


def samples_of(name, task, limit, lm, chat):
    """Each task's first `limit` documents, of each length and depth where it has several."""
    templated = chat["apply_chat_template"]
    try:
        task.build_all_requests(samples=_chosen(task, limit), chat_template=lm.apply_chat_template if templated else None,
                                tokenizer_name=lm.tokenizer_name if templated else "", **chat)
        numbers, docs = _chosen(task, limit) or range(len(task.eval_docs)), list(task.eval_docs)
    except KvloupeError:
        raise
    except Exception as error:  # A task is a program: it raises what it likes.
        raise _failed(f"prompts of the task {name} cannot be made", error, "check its file, its data and its number of examples") from None
    by_doc = {}
    for request in task.instances:
        by_doc.setdefault(request.doc_id, []).append(request)
    samples, equal = [], collections.Counter()
    for at, requests in sorted(by_doc.items()):
        requests, doc = sorted(requests, key=lambda request: request.idx), docs[numbers[at]]
        # The document and all that the model reads for it. Its number is not the same where other lengths are asked for.
        text = name, _hash(doc), _hash([[request.request_type, request.args] for request in requests])
        samples.append(Sample(task, name, numbers[at], doc, requests, [*text, equal[text]]))
        equal[text] += 1
    return samples


def _failed(what, error, what_to_do):
    missing = missing_of(error)
    if missing is None:
        return KvloupeError(what, one_line(error), what_to_do)
    return KvloupeError(what, f"it needs {missing.what}, which is not on this machine", f"put it into {missing.path}, and run this again (eval: with --resume)")


def _chosen(task, limit):
    if limit is None:
        return None
    taken, counts = [], {}
    for number, doc in enumerate(task.eval_docs):
        cell = (length_of(doc), doc.get("depth")) if isinstance(doc, dict) else None
        counts[cell] = counts.get(cell, 0) + 1
        if counts[cell] <= limit:
            taken.append(number)
    return taken


def length_of(doc):
    length = doc.get("max_length", -1) if isinstance(doc, dict) else -1
    return length if isinstance(length, int) else -1


def answered(sample, lm):
    """The sample's record, without its id."""
    record = {"sample": sample.digest, "task": sample.name, "doc": sample.number, "length": sample.length, "depth": sample.depth,
              "refused": "", "trace": ""}
    responses, said = [], []
    for request in sample.requests:
        try:
            response, details = lm.answer(request.request_type, request.args)
        except RequestRefused as refusal:
            return {**record, "answer": "", "expected": "", "score": math.nan, "metrics": {}, "direction": 1, "kept": math.nan, "prompt_tokens": 0,
                    "prefill_s": math.nan, "decode_s": math.nan, "refused": str(refusal)}
        except KvloupeError as error:
            raise type(error)(f"sample {sample.number} of {sample.name} was not answered: {error.parts[0]}", *error.parts[1:]) from None
        responses.append(response)
        said.append(details)
        request.resps[:] = [response] * (request.repeats or 1)
        request.filtered_resps.clear()
    try:
        metrics = _scored(sample)
        score, direction = _main(metrics, sample)
        record |= {"answer": _answer(sample, responses), "expected": ", ".join(expected_texts(sample, target_of(sample)))}
    except Exception as error:
        raise _failed(f"sample {sample.number} of {sample.name} cannot be scored", error, "check the task") from None
    kept = [details["kept"] for details in said if details.get("kept") is not None]
    return {**record, "score": score, "metrics": metrics, "direction": direction, "kept": sum(kept) / len(kept) if kept else math.nan,
            "prompt_tokens": max((details.get("prompt_tokens", 0) for details in said), default=0),
            "prefill_s": sum(details.get("prefill_s", 0.0) for details in said), "decode_s": sum(details.get("decode_s", 0.0) for details in said)}


def _scored(sample):
    """{"metric,filter": value}, by the filters and metrics of the task, as the harness's evaluate does."""
    for ensemble in sample.task._filters:
        ensemble.apply(sample.requests)
    metrics = {}
    for name in sample.requests[0].filtered_resps:
        filtered = [request.filtered_resps[name] for request in sample.requests]
        for metric, value in sample.task.process_results(sample.doc, filtered).items():
            metrics[f"{metric},{name}"] = _finite(json.loads(json.dumps(value, default=handle_non_serializable)))
    # Tasks of several lengths say -1 for the others.
    return {name: value for name, value in metrics.items() if not (value == -1 and name[0].isdecimal())}


def _finite(value):
    """JSON has no other numbers: null stands for them."""
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _main(metrics, sample):
    """The task's first number that is no perplexity, or that of the sample's length, and whether more of it is better (1) or worse (-1)."""
    aggregations, directions = sample.task.aggregation(), sample.task.higher_is_better()
    numbers = {}
    for name, value in metrics.items():
        metric = name.split(",")[0]
        if isinstance(value, (int, float)) and getattr(aggregations.get(metric), "__name__", "") not in PERPLEXITIES:
            numbers.setdefault(metric, float(value))
    metric = str(sample.length) if str(sample.length) in numbers else next(iter(numbers), None)
    return numbers.get(metric, math.nan), -1 if directions.get(metric) is False else 1


def _answer(sample, responses):
    if not sample.asks_likelihoods:
        return str(responses[0])
    if sample.task.OUTPUT_TYPE != "multiple_choice":
        return ""
    choices = sample.task.doc_to_choice(sample.doc)
    best = max(range(len(choices)), key=lambda at: responses[at][0])  # Behind the choices a task may ask for them without the question.
    return str(choices[best] if has_contexts(sample) else sample.requests[best].args[-1])


def has_contexts(sample):
    """Whether the choices are contexts with one ending for all, as winogrande's."""
    return bool(getattr(sample.task, "multiple_input", 0))


def target_of(sample):
    """What the task expects. Of choices that are contexts the harness has the number of the right one for the text, and the ending for the target."""
    return sample.task.doc_to_text(sample.doc) if has_contexts(sample) else sample.task.doc_to_target(sample.doc)


def expected_texts(sample, target):
    """Of choices, which a task may name by their numbers, these texts."""
    if sample.task.OUTPUT_TYPE == "loglikelihood_rolling":
        return []
    targets = target if isinstance(target, list) else [target]
    if sample.task.OUTPUT_TYPE == "multiple_choice":
        choices = sample.task.doc_to_choice(sample.doc)
        targets = [choices[each] if isinstance(each, int) else each for each in targets if not isinstance(each, int) or 0 <= each < len(choices)]
    return list(map(str, targets))
