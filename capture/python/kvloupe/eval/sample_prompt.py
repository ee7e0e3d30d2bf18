"""What the model read for a sample, as one text, and where its question and answer stand in it."""
from .scoring import expected_texts

WITH_QUESTION = ("kvloupe_niah", "kvloupe_passkey")
# A text that stands all over the prompt, as "1" does, marks nothing.
MOST_PLACES = 8


def prompt_of(sample, target):
    """Of choices: the question with the expected one."""
    request = sample.requests[_choice(sample, target)]
    return request.args[0] if request.request_type == "generate_until" else "".join(request.args)


def is_alone(sample, target):
    """Whether that text has no context."""
    request = sample.requests[_choice(sample, target)]
    return request.request_type != "generate_until" and not "".join(request.args[:-1]).strip()


def _choice(sample, target):
    """A task names it by its number, by its text, or names several."""
    if sample.task.OUTPUT_TYPE != "multiple_choice":
        return 0
    first = target[0] if isinstance(target, list) and target else target
    if isinstance(first, str):
        choices = list(map(str, sample.task.doc_to_choice(sample.doc)))
        first = choices.index(first) if first in choices else 0
    return first if isinstance(first, int) and 0 <= first < len(sample.requests) else 0


def tokens_of(sample, prompt_tokens):
    """How many that text has, by how many the model read; None where several texts were read. A last token is never read of a likelihood's."""
    if len(sample.requests) > 1:
        return None
    return prompt_tokens + (sample.requests[0].request_type != "generate_until")


def spans_of(sample, target, text):
    """{name: text}"""
    spans = {}
    for answer in dict.fromkeys(each.strip() for each in expected_texts(sample, target)):
        if answer and 1 <= text.count(answer) <= MOST_PLACES:
            spans[f"answer:{len(spans) + 1}" if spans else "answer"] = answer
    if sample.name in WITH_QUESTION:
        spans["question"] = sample.doc["input"].rpartition("\n")[2]
    return spans
