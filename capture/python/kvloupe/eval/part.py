"""--part FOLDER I/M: one worker's part of a run. What is finished is known from the folder, and the others make the same plan."""
from ..errors import KvloupeError
from ..results.parts_folder import PartsFolder, wait_until_free, write_whole


class Part:
    def __init__(self, folder, number):
        self._folder = PartsFolder(folder)
        self._index, self._count = map(int, number.split("/"))

    def wait_for_journal(self):
        """The worker before this one may not be gone yet."""
        wait_until_free(self._folder.journal(self._index))

    def own(self, ids):
        """Every M-th of those that were not finished when the parts were made, and the origins of those that were."""
        try:
            finished, origins = self._folder.finished()
            write_whole(self._folder.planned(self._index), ids)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KvloupeError(f"the part {self._index} of {self._folder.path} cannot be run", str(error),
                               "let all workers have this folder") from None
        waiting = [identity for identity in ids if identity not in finished]
        return set(waiting[self._index - 1 :: self._count]), origins
