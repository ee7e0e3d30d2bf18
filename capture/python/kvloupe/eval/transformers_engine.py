"""A folder's model run by transformers: densely as it is, or by kvloupe.sparse. Needs torch and transformers."""
import contextlib
import time
import types

import torch
import transformers

from .. import estimate, record, sparse
from ..errors import KvloupeError
from ..record_folder import load, load_model, run
from ..text_spans import find_spans
from ..token_text import TokenText
from .refused import RequestRefused

# Beside what the files of a model ask for: its most probable token is taken as it is.
GREEDY = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "use_cache": True}


class TransformersEngine:
    name = "transformers"

    def __init__(self, model, method, *, chunk_size=128, device="cpu", compute="auto", threads=None):
        options = types.SimpleNamespace(model=model, compute=compute, device=device, attention=None)
        if threads:
            torch.set_num_threads(int(threads))
        self.spec, self._chunk_size = method, chunk_size
        self._tokenizer = load(options, transformers.AutoTokenizer.from_pretrained, model)
        self._model = load_model(options)
        if method != "dense":
            with sparse(self._model, method, chunk_size=chunk_size, tokenizer=self._tokenizer) as run:  # A method that cannot be run is refused at once.
                self.spec = run.spec and method

    def generate(self, context, until, max_new_tokens, special=False):
        ids = self._ids(context, special)
        self._check_room(ids.shape[1] + max_new_tokens)
        with self._block() as run:
            watch = Watch(run, self._tokenizer, ids.shape[1], until)
            if max_new_tokens > 0:
                whole = self._model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, **GREEDY,
                                             logits_processor=[watch.look], stopping_criteria=[watch.stops], pad_token_id=self._pad())[0]
            else:
                whole = ids[0]
                watch.look(ids, self._model(ids).logits[:, -1])
        text = self._tokenizer.decode(whole[ids.shape[1]:], skip_special_tokens=True)
        for stop in until:
            text = text.split(stop)[0]
        return {"text": text, "prompt_tokens": ids.shape[1], "kept": watch.kept(), **watch.seconds()}

    def loglikelihood(self, context, continuation, special=False):
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        if context:
            ids = self._ids(context + continuation, special)
            begin = self._ids(context, special).shape[1]
        else:
            ids, begin = self._ids_alone(continuation), 1
        if begin >= ids.shape[1]:
            raise RequestRefused("a continuation has no tokens of its own", "together with its context it has no more than the context alone",
                                 "give a longer one")
        self._check_room(ids.shape[1])
        with self._block() as run:
            watch = Watch(run, self._tokenizer, ids.shape[1], ())
            logits = self._model(ids[:, :-1]).logits[0, begin - 1 :]
            watch.look(ids, logits)
        rows, next_ids = logits.double().log_softmax(-1), ids[0, begin:]
        return {"loglikelihood": rows.gather(1, next_ids[:, None]).sum().item(), "greedy": bool((rows.argmax(1) == next_ids).all()),
                "prompt_tokens": ids.shape[1] - 1, "kept": watch.kept(), **watch.seconds()}

    def count(self, text):
        return len(self._tokenizer(text)["input_ids"])

    def render(self, messages, prefix):
        if self._tokenizer.chat_template is None:
            raise KvloupeError("a chat template cannot be applied", "this model's files have none", "leave --apply-chat-template out")
        try:
            return self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) + prefix
        except Exception as error:  # A template is a program: it raises what it likes.
            raise KvloupeError("the chat template failed", " ".join(str(error).split()), "leave --apply-chat-template out") from None

    def bytes_of_trace(self, text, special):
        return estimate(self._model, self._ids(text, special).shape[1], chunk_size=self._chunk_size)["bytes"]

    def record(self, path, text, named, special, alone):
        """A trace of what is read; named: {name of a span: its text}; alone: without context."""
        ids, texts = self._ids_alone(text) if alone else self._ids(text, special), TokenText(self._tokenizer)
        spans = find_spans(named, [texts.bytes_of(id) for id in ids[0].tolist()])
        with torch.inference_mode(), record(self._model, path, tokenizer=self._tokenizer, chunk_size=self._chunk_size, spans=spans, force=True):
            run(self._model, ids, self._chunk_size, 0, needs_logits=False)

    def close(self):
        self._model = None

    def _ids(self, text, special):
        begin = self._tokenizer.bos_token
        again = special and begin is not None and text.startswith(begin)
        return torch.tensor([self._tokenizer(text, add_special_tokens=not again)["input_ids"]], device=self._model.device)

    def _ids_alone(self, text):
        """A text without context comes after the begin token, whether the tokenizer adds it or not."""
        first = self._tokenizer.bos_token_id if self._tokenizer.bos_token_id is not None else self._tokenizer.eos_token_id
        rest = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return torch.tensor([rest if rest[:1] == [first] else [first, *rest]], device=self._model.device)

    @contextlib.contextmanager
    def _block(self):
        with torch.inference_mode():
            if self.spec == "dense":
                yield None
            else:
                with sparse(self._model, self.spec, chunk_size=self._chunk_size, tokenizer=self._tokenizer) as run:
                    yield run

    def _check_room(self, tokens):
        room = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if room is not None and tokens > room:
            raise RequestRefused(f"a prompt and its answer of {tokens:,} tokens do not fit", f"the model's context has room for {room:,}",
                                 "choose shorter tasks by --lengths")

    def _pad(self):
        return self._tokenizer.pad_token_id if self._tokenizer.pad_token_id is not None else self._tokenizer.eos_token_id


class Watch:
    """Looks at each forward of one request: what was kept, how long it took, whether a stop text stands in the answer."""

    def __init__(self, run, tokenizer, prompt_tokens, until):
        self._run, self._tokenizer, self._prompt_tokens, self._until = run, tokenizer, prompt_tokens, until
        self._keys = self._rows = 0
        self._times = [time.monotonic()]

    def look(self, ids, scores):
        self._times.append(time.monotonic())
        for cells in (self._run.cells if self._run is not None else {}).values():
            for kept, _ in cells:
                if not kept.flag:
                    self._keys += sum(len(row) for row in kept.rows)
                    self._rows += len(kept.rows)
        return scores

    def stops(self, ids, scores, **_):
        text = self._tokenizer.decode(ids[0, self._prompt_tokens:], skip_special_tokens=True)
        return torch.full((1,), any(stop in text for stop in self._until), device=ids.device)

    def kept(self):
        return self._keys / self._rows if self._rows else None

    def seconds(self):
        return {"prefill_s": self._times[1] - self._times[0], "decode_s": self._times[-1] - self._times[1]}
