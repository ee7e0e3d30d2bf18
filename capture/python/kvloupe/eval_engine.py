"""What runs a model of an evaluation: the program, or transformers, which hf:FOLDER asks for."""
from .errors import KvloupeError

ENGINES = ("program", "transformers")
OF_TRANSFORMERS = "hf:"


def engine_of(model, engine=None):
    """(engine, model without the prefix)"""
    if not model.startswith(OF_TRANSFORMERS):
        return engine or ENGINES[0], model
    if engine == "program":
        raise KvloupeError(f"{model} cannot be run by the program", f"{OF_TRANSFORMERS}FOLDER is a folder that transformers runs",
                           "leave one of both out")
    return "transformers", model.removeprefix(OF_TRANSFORMERS)
