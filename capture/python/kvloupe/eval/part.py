"""--part FOLDER I/M: one worker's part of a run. What is finished is known from the folder, and the others make the same plan."""
from ..errors import KvloupeError
from ..results.parts_folder import PartsFolder, wait_until_free, write_whole


class Part:
    def __init__(self, folder, number):
        self._folder = PartsFolder(folder)
        self.index, self._count = map(int, number.split("/"))

    def wait_for_journal(self):
        """The worker before this one may not be gone yet."""
        wait_until_free(self._folder.journal(self.index))

    def own(self, named):
        """Of (method, id, sample) every M-th of those that were not finished when the parts were made."""
        try:
            finished = self._folder.finished()
            write_whole(self._folder.planned(self.index), [identity for _, identity, _ in named])
        except (OSError, ValueError) as error:
            raise KvloupeError(f"the part {self.index} of {self._folder.path} cannot be run", str(error),
                               "let all workers have this folder") from None
        waiting = [each for each in named if each[1] not in finished]
        return waiting[self.index - 1 :: self._count]
