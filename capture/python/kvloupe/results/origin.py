"""What scores depend on beside what all samples have in common: how the task scores, and files that a SPEC names. A record has a hash of
each (`task_hash`, `method_hash`). They are empty in files of an earlier version; that of a method also where it names no file."""
from ..errors import KvloupeError

KINDS = ("task", "method")
WHY = {"task": "the scores of {} in it are not those of the task's files as they are now",
       "method": "the answers of {} in it are not those of the files that it names as they are now"}


def origins(records):
    """{(kind, name of a task or method): its hashes}"""
    found = {}
    for record in records:
        for kind in KINDS:
            found.setdefault((kind, record[kind]), set()).add(record[f"{kind}_hash"])
    return found


def check_origins(path, known, now):
    """A run goes on with tasks and methods that are what they were. `now` may have several hashes of a task, which mean the same."""
    for (kind, name), hashes in known.items():
        if not hashes <= now.get((kind, name), hashes):
            raise KvloupeError(f"{path} cannot be gone on with", WHY[kind].format(name), "undo what was changed there, or give another file by -o")


def check_joined(records):
    """As above, of results that are joined. Nothing is said of a task where one does not know how it scored."""
    for (kind, name), hashes in origins(records).items():
        if len(hashes if kind == "method" else hashes - {""}) > 1:
            raise KvloupeError("these results cannot be joined", f"the files that make {name} differed between them",
                               "join results that were made with the same files")
