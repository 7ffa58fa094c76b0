"""The plan for the files of one job: which go along, what stays, and in which folder the job runs."""

import asyncio
import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jupyter_gq.client.files.frozen_files import MOST_FILES, MOST_LINKS, explain_unsafe_path
from jupyter_gq.client.models import FileStore, FrozenFile, Manifest
from jupyter_gq.client.problems import ServiceError
from jupyter_gq.domain.plain_text import quoted, strip_controls
from jupyter_gq.lab.bundle.outside import explain_missing
from jupyter_gq.lab.effects.effects import find_effects
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.code_reading import read_code
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest, FilesPlan, PlannedFile
from jupyter_gq.lab.requests import StayingFile as ShownStayingFile

from .freezing import FileService, freeze, send_parts
from .ignored import IGNORE_FILE, Ignored
from .needed import Caps, Code, Needed, NeededFile, StayingFile, find_needed
from .outside_modules import OutsideModule
from .patterns import explain_pattern, leads_out, names_hidden, write_pattern

COMPUTED = "Paths that the code computes are not seen: add a pattern for such files."
CUT_SHORT = (
    "The search for files took too long and ended early. Name a missing file by its path in the cell, or move the "
    "notebook to a folder with fewer files."
)
#: Most modules that are told.
_MOST_MODULES = 20
#: Most folders that a sentence names.
_MOST_REACHED = 3
_COMES_BACK = "What it writes there comes back as its results"
_LINKS = "; what it writes through a link changes your file."
_NO_STORE = "The scheduler service takes no files along."
EMPTY_FOLDER = "No file goes along, and the job does not reach this folder: it begins in an empty one."


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """The files of one job."""

    #: Where the files are.
    folder: Path
    #: Where the job begins, as the user named it; None = in `folder`.
    named: Path | None
    needed: Needed
    left_out: frozenset[str]
    #: None if the service takes no files.
    store: FileStore | None
    caps: Caps
    #: Whether the user chose the live folder.
    is_live: bool
    #: Why the job runs in the notebook's folder if it writes and takes no file along, as a clause; "" = it does not.
    needs_live: str

    @property
    def has_rest(self) -> bool:
        """Whether the job reaches the folder `named`, or `folder` if none was named.

        A job with a folder of its own then finds the rest of the reached folder as links; any other job begins in the
        reached folder itself. If that is not reached, the job begins without it. True if the service takes no files.
        """
        return self._is_reached(self.named or self.folder)

    @property
    def going(self) -> list[NeededFile]:
        """The files that go along, by path."""
        return [file for path, file in sorted(self.needed.going.items()) if path not in self.left_out]

    @property
    def has_own_folder(self) -> bool:
        """Whether the job runs in a folder of its own."""
        return bool(self.going) or (self.needed.writes and not (self.is_live or self.needs_live))

    def describe_folder(self, manifest: Manifest) -> None:
        """Set the fields of a manifest that say what the folder of the job's own looks like."""
        if self.has_own_folder:
            manifest.own_folder = True
            manifest.written = self._list_safe(self.needed.written)
            manifest.folders = self._list_safe(self.needed.folders)

    def _list_safe(self, paths: Iterable[str]) -> list[str]:
        """Return those of these paths that a bundle can hold beside files that go along."""
        normal = dict.fromkeys(map(posixpath.normpath, paths))
        safe = [path for path in normal if path not in self.needed.going and not explain_unsafe_path(path)]
        return safe[:MOST_FILES]

    def describe(self, modules: Iterable[OutsideModule] = ()) -> FilesPlan:
        """Return the plan as the dialog shows it; files that the user leaves out are listed as well.

        `modules` are those that the code imports from elsewhere.
        """
        return FilesPlan(
            going=[
                PlannedFile(path=file.path, bytes=file.bytes, why=file.why)
                for _, file in sorted(self.needed.going.items())
            ],
            staying=[
                *(self._describe_staying(file) for file in self.needed.staying.values()),
                *islice(map(self._describe_module, modules), _MOST_MODULES),
            ],
            notes=self._describe_folder(),
            own_folder=self.has_own_folder,
            pattern_notes=[
                *(_describe_unusable(pattern, self.folder) for pattern in self.needed.unusable),
                *(_describe_unmatched(pattern, self.folder) for pattern in self.needed.unmatched),
                *_describe_left(self.needed, self.folder),
            ],
        )

    async def send(self, service: FileService) -> list[FrozenFile]:
        """Freeze the files that go along, and send what the service lacks of them.

        Raises `RefusedRequest` if a file cannot be read, also the one that names what stays, and `ServiceError` if the
        service refuses.
        """
        if self.going and self.needed.ignore_problem:
            raise RefusedRequest("unusable_file", self._describe_ignore_problem(), field="files")
        frozen, parts = await asyncio.to_thread(freeze, self.folder, self.going, self.caps.file)
        await send_parts(service, parts)
        return frozen

    def _is_reached(self, place: Path) -> bool:
        return self.store is None or _reaches(self.store, place)

    def _has_place(self, place: Path) -> bool:
        """Return whether the job finds at this path what is there on this machine."""
        is_elsewhere = self.named is not None and not self.named.is_dir()
        has_all = self.store is None or "/" in self.store.reached  # all of the machine on which it runs
        return self._is_reached(place) and not (is_elsewhere and has_all)

    def _describe_staying(self, file: StayingFile) -> ShownStayingFile:
        is_outside = ".." in Path(file.path).parts and bool(self.going)
        is_away = is_outside or (self.named not in {None, self.folder} and not Path(file.path).is_absolute())
        has_place = self._has_place(file.place)
        reached = has_place and not is_away
        if reached:
            message = f"stays where it is, because {file.why}; the job reads it there"
        elif has_place:
            message = f"the job does not find it, because {file.why}: write its full path, or use the live folder"
        else:
            message = f"{_show(str(file.place))} is not reachable from the job, and {file.why}{self._advise(file)}"
        return ShownStayingFile(path=_show(file.path), bytes=file.bytes, message=message, reached=reached)

    def _describe_module(self, module: OutsideModule) -> ShownStayingFile:
        reached = (
            module.is_given and self._has_place(module.place) and (module.file is None or self._has_place(module.file))
        )
        folder = _show(str(module.place.parent))
        copied = "move it into the notebook's folder"
        if module.place.is_relative_to(self.folder):
            below = os.path.relpath(module.place.parent, self.folder)
            copied = f"run sys.path.insert(0, {below!r}) in a cell before"
        if reached:
            message = f"stays in {folder}, and the job imports what is there while it runs: to freeze it, {copied}"
        else:
            message = f"the job does not find it in {folder}: install it in the job's image or environment, or {copied}"
        return ShownStayingFile(path=module.name, bytes=None, message=message, reached=reached)

    def _advise(self, file: StayingFile) -> str:
        """Return the end of a sentence on how the job reads a file that it does not reach; "" for a secret."""
        if os.path.relpath(file.place, self.folder) in self.needed.secrets:
            return ""  # a note says how it goes along
        reached = [folder for folder in (self.store.reached if self.store is not None else ()) if folder != "/"]
        is_inside = file.place.is_relative_to(self.folder)
        is_small = file.bytes is not None and file.bytes <= self.caps.file
        ways = []
        if is_inside and os.path.isabs(file.path):
            ways.append("name it by its path in the notebook's folder")
        elif is_small and not is_inside:
            ways.append("copy it into the notebook's folder")
        elif reached:
            ways.append(f"put it into a folder that jobs reach ({', '.join(reached[:_MOST_REACHED])})")
        return f": {', or '.join([*ways, 'read it by a URL'])}"

    def _describe_folder(self) -> list[str]:
        """Return sentences on the folder in which the job runs, and on what was not seen."""
        if self.has_own_folder:
            told = [self._describe_own_folder(), _COMES_BACK + (_LINKS if self.has_rest else ".")]
        elif self.has_rest:
            why = f", since {self.needs_live}" if self.needed.writes and not self.is_live else ""
            place = self._name_folder("this folder itself")
            told = [f"No file goes along: the job runs in {place}, and writes there{why}."]
        else:
            told = [self._describe_empty_folder()]
        if self.store is None:
            told.append(_NO_STORE)
        if self.needed.ignore_problem:
            told.append(self._describe_ignore_problem())
        if self.needed.cut_short:
            told.append(CUT_SHORT)
        if not self.is_live:
            told.append(COMPUTED)
        return told

    def _describe_own_folder(self) -> str:
        place = self._name_folder("this folder")
        if self.going:
            rest = f"the other files of {place} are there as links" if self.has_rest else "no other file is there"
            return f"The job runs in a folder of its own with these files; {rest}."
        if self.has_rest:
            return f"The job runs in a folder of its own, with links to the files of {place}."
        return self._describe_empty_folder()

    def _describe_empty_folder(self) -> str:
        return EMPTY_FOLDER.replace("this folder", self._name_folder("this folder"))

    def _name_folder(self, usual: str) -> str:
        """Return how a sentence names the folder in which the job begins: as `usual`, unless the user named it."""
        return usual if self.named is None else f"the folder {quoted(str(self.named))}"

    def _describe_ignore_problem(self) -> str:
        return (
            f"The file {IGNORE_FILE} cannot be followed: {self.needed.ignore_problem}. Mend or delete it, or use the "
            "live folder: it is not known which files shall stay."
        )


def _show(path: str) -> str:
    """Return a path as a sentence has it: quoted if it has control characters or is not valid text."""
    return path if path == strip_controls(path) else quoted(path)


def _describe_unusable(pattern: str, folder: Path) -> str:
    effect = "keeps no file here" if pattern.startswith("!") else "takes no file along"
    return f"{quoted(pattern)} {effect}: it {explain_pattern(pattern, os.path.realpath(folder))}."


def _describe_unmatched(pattern: str, folder: Path) -> str:
    if leads_out(pattern):
        return (
            f"{quoted(pattern)} is outside of the notebook's folder, and only files in this folder go along. Copy the "
            "files there, or name them by their full path in the cell."
        )
    if why := explain_pattern(pattern, os.path.realpath(folder)):
        return f"{quoted(pattern)} takes no file along: it {why}."
    unsearched = "ignored folders" if names_hidden(pattern) else "ignored and hidden folders"
    return f"{quoted(pattern)} matches no file in the notebook's folder; {unsearched} are not searched."


def _describe_left(needed: Needed, folder: Path) -> list[str]:
    """Return sentences on hidden files and secrets that stay, and on how to take them along all the same."""
    notes = []
    hidden = [path for path in needed.hidden if path != IGNORE_FILE]
    if hidden:
        first = _show(hidden[0])
        notes.append(
            f"Hidden files stay, such as {first}: a pattern with *, ? or [ takes them along only if it names the dot."
        )
    if needed.secrets:
        notes.append(f"What may hold secrets stays, such as {_describe_secret(needed.secrets[0], folder)}")
    return notes


def _describe_secret(path: str, folder: Path) -> str:
    """Return the end of a sentence on a secret that stays, with the line that lets it go along."""
    line = f"!{write_pattern(path)}"
    rules = Ignored(os.path.realpath(folder), [line])
    if _show(path) != path or rules.problem or rules.is_secret(path):
        return f"{_show(path)}; no line in {IGNORE_FILE} can name it."
    # A line for a folder lets no file go along whose own name is that of a secret.
    what = "what is in it, but for files with names of secrets," if path.endswith("/") else "it"
    return f"{path}: the line {line} at the end of {IGNORE_FILE} lets the job take {what} along all the same."


async def find_project(
    service: FileService,
    request: CellsRequest,
    sources: Sequence[str],
    folder: Path,
    max_file_bytes: int,
    named: Path | None = None,
) -> Project:
    """Return the files that the Python in `sources` needs and that the user's patterns name; nothing is sent.

    The files are in `folder`. The job begins there or in the folder that is `named`, which may be on another machine.
    If the service keeps no files, as one of an older release, none go along.
    """
    store = await ask_for_limits(service)
    caps = Caps(file=max_file_bytes, job=store.max_job_bytes if store is not None else 0)
    needed = Needed()
    if store is not None and not request.live_folder:
        needed = await read_code(_search, folder, sources, request.file_patterns, caps)
    why_live = "it was named"
    if named in {None, folder}:
        why_live = await asyncio.to_thread(_explain_live, folder, sources, store)
    return Project(
        folder=folder,
        named=named,
        needed=needed,
        left_out=frozenset(request.left_out_files),
        store=store,
        caps=caps,
        is_live=request.live_folder or store is None,
        needs_live=why_live,
    )


def list_gaps(plan: FilesPlan) -> list[str]:
    """Return a sentence for each file that the job will lack, and those on patterns and on what stays all the same."""
    lacking = [f"{file.path}: {file.message}." for file in plan.staying if not file.reached]
    return lacking + plan.pattern_notes


def _reaches(store: FileStore, place: Path) -> bool:
    """Return whether the jobs of this service reach a place on this machine."""
    return any(place.is_relative_to(folder) for folder in store.reached)


def _explain_live(folder: Path, sources: Sequence[str], store: FileStore | None) -> str:
    """Return why a job without files must run in the notebook's folder, as a clause; "" if it need not."""
    if store is not None and "/" not in store.reached and _reaches(store, folder):  # a pod, with the user's home
        return "only that folder is kept while the job is paused"
    if store is not None and "Manifest.own_folder" not in store.fields:
        return "the scheduler service is of an older release"
    try:
        with os.scandir(folder) as entries:
            if next(islice(entries, MOST_LINKS, None), None) is not None:
                return f"more than {MOST_LINKS:,} files are in it"
    except FileNotFoundError:
        pass  # the job has an empty folder
    except OSError as error:
        return f"it cannot be listed ({error.strerror})"
    return explain_missing(sources)


async def ask_for_limits(service: FileService) -> FileStore | None:
    """Return what the service takes; None if it does not know this question. Raises other errors of the service."""
    try:
        return await service.describe_files([])
    except ServiceError as error:
        if error.status == 404:
            return None
        raise


def _search(folder: Path, sources: Sequence[str], patterns: Sequence[str], caps: Caps) -> Needed:
    """Return the files of the folder that these cells and patterns name."""
    trees = [tree for source in sources if (tree := parse_cell(source)) is not None]
    written = [effect.what for source in sources for effect in find_effects(source) if effect.kind == "writes_files"]
    return find_needed(folder, Code(trees=trees, written=written), patterns, caps)
