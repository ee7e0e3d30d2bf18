"""A sample: one document of a task, what the model answers to its requests, and what the harness's own metrics say of that."""
import dataclasses
import hashlib
import json
import math

from lm_eval.utils import handle_non_serializable

from ..errors import KvloupeError, one_line


@dataclasses.dataclass
class Sample:
    task: object
    name: str
    number: int  # of the document
    doc: dict
    requests: list

    def identity(self):
        """What makes it this one whatever else is run: the document and all that the model reads for it."""
        return [self.name, self.number, _hash(self.doc), _hash([[request.request_type, request.args] for request in self.requests])]


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=handle_non_serializable).encode()).hexdigest()


def samples_of(name, task, limit, lm, chat):
    """Each task's first `limit` documents, of each length and depth where it has several."""
    task.build_all_requests(samples=_chosen(task, limit), system_instruction=chat["system_instruction"], apply_chat_template=chat["apply_chat_template"],
                            fewshot_as_multiturn=chat["fewshot_as_multiturn"], chat_template=lm.apply_chat_template if chat["apply_chat_template"] else None,
                            tokenizer_name=lm.tokenizer_name if chat["apply_chat_template"] else "")
    numbers = _chosen(task, limit) or range(len(task.eval_docs))
    by_doc = {}
    for request in task.instances:
        by_doc.setdefault(request.doc_id, []).append(request)
    docs = {at: doc for at, doc in enumerate(task.eval_docs)}
    return [Sample(task, name, numbers[at], docs[numbers[at]], sorted(requests, key=lambda request: request.idx)) for at, requests in sorted(by_doc.items())]


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
    responses, said = [], []
    for request in sample.requests:
        try:
            response, details = lm.answer(request.request_type, request.args)
        except KvloupeError as error:
            raise KvloupeError(f"sample {sample.number} of {sample.name} was not answered: {error.parts[0]}", *error.parts[1:]) from None
        responses.append(response)
        said.append(details)
        request.resps[:] = [response] * (request.repeats or 1)
        request.filtered_resps.clear()
    try:
        metrics, filtered, target = _scored(sample)
    except Exception as error:
        raise KvloupeError(f"sample {sample.number} of {sample.name} cannot be scored", one_line(error), "check the task") from None
    kept = [details["kept"] for details in said if details.get("kept") is not None]
    doc = sample.doc if isinstance(sample.doc, dict) else {}
    depth = doc.get("depth")
    return {"task": sample.name, "doc": sample.number, "length": length_of(doc), "depth": float(depth) if isinstance(depth, (int, float)) else math.nan,
            "answer": _answer(sample, responses, filtered), "expected": _expected(sample, target), "score": _main(metrics, length_of(doc)), "metrics": metrics,
            "kept": sum(kept) / len(kept) if kept else math.nan, "prompt_tokens": max((details.get("prompt_tokens", 0) for details in said), default=0),
            "prefill_s": sum(details.get("prefill_s", 0.0) for details in said), "decode_s": sum(details.get("decode_s", 0.0) for details in said)}


def _scored(sample):
    """{"metric,filter": value}, by the filters and metrics of the task, as the harness's evaluate does."""
    for ensemble in sample.task._filters:
        ensemble.apply(sample.requests)
    metrics, first = {}, None
    for name in sample.requests[0].filtered_resps:
        filtered = [request.filtered_resps[name] for request in sample.requests]
        first = filtered if first is None else first
        for metric, value in sample.task.process_results(sample.doc, filtered).items():
            metrics[f"{metric},{name}"] = _finite(json.loads(json.dumps(value, default=handle_non_serializable)))
    # Tasks of several lengths say -1 for the others.
    return {name: value for name, value in metrics.items() if not (value == -1 and name[0].isdecimal())}, first, sample.task.doc_to_target(sample.doc)


def _finite(value):
    """JSON has no other numbers: null stands for them."""
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _main(metrics, length):
    """The task's first number, or that of the sample's length; NaN where it has none (a perplexity is no score of a sample)."""
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
    of_length = [value for name, value in numbers.items() if name.split(",")[0] == str(length)]
    return next(iter(of_length or numbers.values()), math.nan)


def _answer(sample, responses, filtered):
    if sample.requests[0].request_type == "generate_until":
        return str(responses[0])
    if sample.task.OUTPUT_TYPE == "multiple_choice":
        best = max(range(len(responses)), key=lambda at: responses[at][0])
        return str(sample.requests[best].args[-1])
    return ""


def _expected(sample, target):
    if sample.task.OUTPUT_TYPE == "multiple_choice" and isinstance(target, int):
        choices = sample.task.doc_to_choice(sample.doc)
        return str(choices[target]) if 0 <= target < len(choices) else ""
    if sample.task.OUTPUT_TYPE == "loglikelihood_rolling":
        return ""
    return ", ".join(map(str, target)) if isinstance(target, list) else str(target)
