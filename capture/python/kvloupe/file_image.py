"""HDF5 files that are made in memory and written by plain calls of the system: of a full disk those say so, and HDF5's own end the process."""
import os

import h5py


def image_of(fill, before=None):
    """The bytes of a new file, or of the file `before`, after fill(file). `before` itself stays as it is."""
    with h5py.File(before or "image", "r+" if before else "w", driver="core", backing_store=False) as file:
        fill(file)
        file.flush()
        return file.id.get_file_image()


def write_image(path, image):
    """Returns when it is on the disk."""
    with open(path, "wb") as file:
        file.write(image)
        file.flush()
        os.fsync(file.fileno())
