"""The files of a project that a job takes along: their paths and their parts. Standard library only.

Rules
-----
- Below the folder: a path consists of names with slashes between them, without ".." and the like, so it does not lead
  out of the folder. The service and the runner both check each path.
- Parts: the content of a file travels in parts of `PART_SIZE` bytes, the last one smaller. A part is known by its
  SHA-256, so a part that the service has is not sent again. An empty file has no part.
"""

from collections.abc import Collection

#: Bytes of a part.
PART_SIZE = 4 * 1024 * 1024
#: Name of the file, in the job's folder, with the contents of all files, one after the other.
PACK = "files.pack"
#: Most MiB of one file, unless the notebook server has another limit.
MAX_FILE_MIB = 16.0
#: Most files of one job.
MOST_FILES = 10_000
#: Most links from a folder of the job's own into the notebook's folder.
MOST_LINKS = 10_000
#: Most bytes of a path and of one name in it, as Linux has them.
_LONGEST_PATH, _LONGEST_NAME = 4000, 255
#: Most names in a path: programs that walk through deeper ones fail in odd ways.
_DEEPEST = 100


def explain_unsafe_path(path: str) -> str:
    """Return why no file may be written at this path below a folder, as a clause; "" if one may."""
    names = path.split("/")
    try:
        encoded = [name.encode() for name in names]
    except UnicodeEncodeError:
        return "it is not valid text"
    if not path.isprintable():
        return "it has control characters"
    if any(name in {b"", b".", b".."} for name in encoded):
        return "it is not a path below the folder"
    if len(path.encode()) > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in encoded):
        return "it is too long"
    if len(names) > _DEEPEST:
        return f"it has more than {_DEEPEST} names"
    return ""


def find_clash(paths: Collection[str]) -> str | None:
    """Return the path of a file that is also the folder of another one; None if there is none."""
    files = set(paths)
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                return parent
            parent = parent.rpartition("/")[0]
    return None


def list_part_sizes(size: int) -> list[int]:
    """Return the size of each part of a file of `size` bytes."""
    return [min(PART_SIZE, size - start) for start in range(0, size, PART_SIZE)]
