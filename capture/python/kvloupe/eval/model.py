"""The model class that lm-evaluation-harness knows as `kvloupe`."""
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import simple_parse_args_string

from ..errors import KvloupeError
from ..eval_engine import ENGINES, engine_of
from . import lent_tokenizer
from .methods import check_likelihoods


@register_model("kvloupe")
class KvloupeLM(LM):
    """lm_eval --model kvloupe --model_args model=PATH,method=SPEC. In a SPEC commas are written as semicolons there."""
    lends_to_ruler = True

    def __init__(self, model=None, method="dense", engine=None, chunk_size=128, device="cpu", compute="auto", threads=None,
                 max_gen_toks=256, **others):
        super().__init__()
        if not model or others:
            raise KvloupeError("the model kvloupe cannot be made",
                               f"it has no argument {sorted(others)[0]}" if others else "its argument model is missing",
                               "give model=PATH, and method, engine, chunk_size, device, compute, threads or max_gen_toks")
        engine, model = engine_of(str(model), engine)
        if engine not in ENGINES:
            raise KvloupeError(f"there is no engine {engine}", "a model is run by the program or by transformers",
                               "give engine=program or engine=transformers")
        self.model, self.method, self.max_gen_toks = model, str(method).replace(";", ","), int(max_gen_toks)
        options = dict(chunk_size=int(chunk_size), device=device, compute=compute, threads=threads)
        self.engine = _engine(engine)(model, self.method, **options)
        self.rendered = False  # whether contexts are texts of the chat template, whose special tokens are tokens
        lent_tokenizer.lend(self.engine)
        if self.lends_to_ruler:
            lent_tokenizer.lend_to_ruler()

    @classmethod
    def create_from_arg_obj(cls, arg_dict, additional_config=None):
        """The harness adds its own --device, which is a GPU by default: here the device stands in --model_args."""
        return cls(**arg_dict)

    @classmethod
    def create_from_arg_string(cls, arg_string, additional_config=None):
        return cls(**simple_parse_args_string(arg_string))

    def close(self):
        self.engine.close()

    # --- what the harness calls ----------------------------------------------------------------------------------------

    def generate_until(self, requests):
        return self._responses("generate_until", requests)

    def loglikelihood(self, requests):
        return self._responses("loglikelihood", requests)

    def loglikelihood_rolling(self, requests):
        return self._responses("loglikelihood_rolling", requests)

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        self.rendered = True
        messages = list(chat_history)
        if add_generation_prompt:
            return self.engine.render(messages, "")
        return self.engine.render(messages[:-1], messages[-1]["content"])  # The last message begins the answer.

    @property
    def tokenizer_name(self):
        return self.model

    def get_model_info(self):
        return {"kvloupe_model": self.model, "kvloupe_method": self.method, "kvloupe_engine": self.engine.name}

    # --- one request ---------------------------------------------------------------------------------------------------

    def _responses(self, kind, requests):
        if kind != "generate_until":
            check_likelihoods([self.method], [request.task_name for request in requests])
        responses = []
        for request in requests:
            response, _ = self.answer(kind, request.args)
            self.cache_hook.add_partial(kind, request.args, response)
            responses.append(response)
        return responses

    def answer(self, kind, args):
        """What the harness takes for the response, and all that the engine says of it."""
        if kind == "generate_until":
            said = self.engine.generate(args[0], *self._generation(args[1]), special=self.rendered)
            return said["text"], said
        if kind == "loglikelihood":
            said = self.engine.loglikelihood(args[0], args[1], special=self.rendered)
            return (said["loglikelihood"], said["greedy"]), said
        if not args[0]:
            return 0.0, {}
        said = self.engine.loglikelihood("", args[0])
        return said["loglikelihood"], said

    def _generation(self, options):
        options = dict(options)
        if options.get("do_sample") and options.get("temperature", 1.0):
            raise KvloupeError("a task asks for samples of the answer", "answers are greedy here",
                               "give --gen-kwargs do_sample=False, or leave the task out")
        until = options.get("until") or []
        until = [until] if isinstance(until, str) else list(until)
        return [stop for stop in until if stop], int(options.get("max_gen_toks", options.get("max_new_tokens", self.max_gen_toks)))


def _engine(name):
    if name == "program":
        from .program_engine import ProgramEngine
        return ProgramEngine
    try:
        from .transformers_engine import TransformersEngine
        return TransformersEngine
    except ImportError as error:
        raise KvloupeError("a model cannot be run here", f"{error.name} is not installed", "pip install torch transformers") from None
