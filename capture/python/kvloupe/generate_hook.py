"""Where recording learns what `generate` is asked for, and what it gives: in the model's own attribute of that name."""
import contextlib
import threading

_lock = threading.Lock()


class GenerateHook:
    """Between `install` and `remove` each call of model.generate is told: before(options), then after(result), with None where it raised.
    The hooks of one model share what stands in its place, so they may go in any order, and what stood there before comes back."""

    def __init__(self, model, before, after):
        self._model, self.before, self.after = model, before, after
        self._shared = None

    def install(self):
        if not hasattr(self._model, "generate"):
            return
        with _lock:
            found = vars(self._model).get("generate")
            self._shared = found if isinstance(found, _Shared) else _Shared(self._model)
            self._shared.hooks.append(self)
            self._model.generate = self._shared

    def remove(self):
        with _lock:
            shared, self._shared = self._shared, None
            if shared is None:
                return
            shared.hooks.remove(self)
            # Where somebody put another one over it meanwhile, that stays, and calls this one, which tells nobody any more.
            if not shared.hooks and vars(self._model).get("generate") is shared:
                shared.put_back(self._model)


class _Shared:
    def __init__(self, model):
        self.hooks = []
        self._generate, self._own = model.generate, vars(model).get("generate")

    def __call__(self, *arguments, **options):
        named = dict(zip(("inputs", "generation_config"), arguments)) | options
        result = None
        with contextlib.ExitStack() as told:  # each of them, whatever another one raises
            for hook in list(self.hooks):
                told.callback(lambda hook=hook: hook.after(result))
                hook.before(named)
            result = self._generate(*arguments, **options)
        return result

    def put_back(self, model):
        """That of the model alone, where it had one; else that of its class."""
        if self._own is None:
            del model.generate
        else:
            model.generate = self._own
