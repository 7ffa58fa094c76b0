"""The folder of a job's own: the files that go along, as they were, with links to the rest. Standard library only.

Variables that a job takes along come in the same pack, behind the files. They are written beside that folder.

Rules
-----
- Own folder: the job runs in its folder of results. So what it writes there comes back, and no other job sees that.
- Frozen: each file is as it was when the job was sent, in every run, with its time of change. The SHA-256 of each part
  is checked.
- Written: what the cells are known to write and not to read is not linked, also files that a computed path may name. So
  each job of a sweep writes its own file, and none of the user.
- Folders: a folder into which the cells write, and that was there when the job was sent, is the job's own, unless more
  than `MOST_LINKED` files and folders are in it or in a folder above it.
- The rest: whatever else lies in the notebook's folder, if this machine has that folder, is there as a link. Files that
  come into the notebook's folder later are not.
- No repository: `git add -A` among links would store them in the user's repository, in place of the files. So `.git`
  and the like are not linked, and git says that there is no repository.
- Once: the files are written before the first cell of the first run on this disk; later runs find what the job left.

See docs/decisions/0126-run-a-job-with-files-in-its-own-folder.md,
docs/decisions/0195-link-no-file-that-the-cells-write.md,
docs/decisions/0307-run-a-cell-that-writes-in-a-folder-of-its-own.md and docs/decisions/0319-link-no-repository.md.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BufferedReader
from itertools import islice
from pathlib import Path

from jupyter_gq.client.files.frozen_files import MOST_LINKS, PACK, PART_SIZE, explain_unsafe_path
from jupyter_gq.runner.problems import BundleError

from .bundle import Bundle, CarriedPickle, ProjectFile
from .folder import RunFolder

#: Folders that programs make beside code; they are neither linked nor results.
CACHES = frozenset({"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
#: What makes a folder a repository of files.
_REPOSITORIES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".dvc"})
#: Most links in the place of a link to one folder, so that the cells write into a folder of the job's own.
MOST_LINKED = 1000
_TOO_MANY = (
    f"The job has links to {MOST_LINKS:,} files and folders of {{folder}}. It lacks {{left:,}} more: put them into a "
    "folder of their own, which is one link, or name those that it needs as patterns."
)
_DONE = "files.done"


def prepare_project(folder: RunFolder, bundle: Bundle) -> Bundle:
    """Fill the job's own folder, once for a job and disk, and return the bundle with that working folder.

    Writes the files that go along, folders into which the cells write, links to the rest, and the pickles. A bundle
    that runs in the notebook's folder is returned unchanged. Raises `BundleError` if something is incomplete, and
    `OSError` if the disk refuses.
    """
    if not bundle.own_folder and not bundle.carried:
        return bundle
    root = folder.results / "files"
    with _only_task(folder.job / "files.lock"):
        done = folder.job / _DONE
        if not done.exists():
            _unpack(folder, root, bundle)
            if bundle.own_folder:
                root.mkdir(parents=True, exist_ok=True)
                _make_folders(Path(bundle.cwd), root, bundle.folders)
                left = _link_rest(Path(bundle.cwd), root, bundle.written)
                if left:
                    print(_TOO_MANY.format(left=left, folder=bundle.cwd), flush=True)  # noqa: T201 - this is the run's log
            done.touch(mode=0o600)
            (folder.job / PACK).unlink(missing_ok=True)
    return replace(bundle, cwd=str(root)) if bundle.own_folder else bundle


def is_unchanged(path: Path, file: ProjectFile) -> bool:
    """Return whether the file at this path is still the frozen one; False for a link.

    Raises `OSError` if there is no file, or it cannot be read.
    """
    if path.is_symlink() or path.stat().st_size != file.bytes:
        return False
    with path.open("rb") as content:
        return all(hashlib.sha256(content.read(PART_SIZE)).hexdigest() == part for part in file.parts)


@contextmanager
def _only_task(lock: Path) -> Iterator[None]:
    """Hold the lock of the job's folder in the block: its tasks may begin at one time."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unpack(folder: RunFolder, root: Path, bundle: Bundle) -> None:
    """Write the files below `root`, and the pickles, from their contents in the pack, one after the other."""
    pack = folder.job / PACK
    with pack.open("rb") if pack.exists() else open(os.devnull, "rb") as contents:
        for file in bundle.files:
            if why := explain_unsafe_path(file.path):
                raise BundleError(f"The file {file.path!r} of this job cannot be written: {why}.")
            place = root / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            _write(place, file, contents, 0o755 if file.executable else 0o644, f"file {file.path}")
            if file.modified_at is not None:
                os.utime(place, (file.modified_at, file.modified_at))
        folder.carried.mkdir(mode=0o700, exist_ok=True)
        for number, entry in enumerate(bundle.carried):
            _write(folder.carried / f"{number}.pickle", entry, contents, 0o600, f"variable {entry.names[0]}")


def _write(place: Path, content: ProjectFile | CarriedPickle, contents: BufferedReader, mode: int, what: str) -> None:
    """Write the file or pickle `content` to `place`; its parts are the next bytes of `contents`.

    Raises `BundleError`, which calls the content `what`, if a part is missing or damaged.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(place, flags, mode), "wb") as written:
        left = content.bytes
        for digest in content.parts:
            part = contents.read(min(left, PART_SIZE))
            if hashlib.sha256(part).hexdigest() != digest:
                raise BundleError(f"The {what} of this job is incomplete. Send the cell again.")
            written.write(part)
            left -= len(part)


def _make_folders(source: Path, root: Path, folders: Iterable[str]) -> None:
    """Make the folders into which the cells write; a link in the place of one would lead to the user's own.

    What is in such a folder and in those above it is linked one by one, so a folder with too much in it is left out.
    """
    for folder in folders:
        above = [source / each for each in (Path(folder), *Path(folder).parents) if each != Path()]
        if not explain_unsafe_path(folder) and all(map(_is_small, above)):
            with suppress(FileExistsError, NotADirectoryError):  # a file that goes along is in its place
                (root / folder).mkdir(parents=True, exist_ok=True)


def _is_small(folder: Path) -> bool:
    """Return whether few things are in a folder; True if this machine lacks it."""
    try:
        with os.scandir(folder) as entries:
            return sum(1 for _ in islice(entries, MOST_LINKED + 1)) <= MOST_LINKED
    except OSError:
        return True


def _link_rest(source: Path, root: Path, written: Iterable[str]) -> int:
    """Link everything in the notebook's folder that is not in the job's; do nothing if this machine lacks the folder.

    Returns how many links were left out, since there were too many.

    The `written` paths are not linked. In a folder of the job's own or with such paths, others are linked one by one.
    """
    own = {root / path for path in written if not explain_unsafe_path(path)}
    for path in own:
        if (source / path.parent.relative_to(root)).is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
    links = 0
    waiting = [(source, root)]
    while waiting:
        there, here = waiting.pop()
        try:
            entries = sorted(os.scandir(there), key=lambda entry: entry.name)
        except OSError:
            continue  # a folder that this machine lacks, or that its owner cannot read
        for entry in entries:
            link = here / entry.name
            if link.is_dir() and not link.is_symlink() and entry.is_dir():
                waiting.append((Path(entry.path), link))
            elif link in own or entry.name in CACHES | _REPOSITORIES or os.path.lexists(link):
                continue
            else:
                links += 1
                if links <= MOST_LINKS:
                    link.symlink_to(entry.path)
    return max(0, links - MOST_LINKS)
