"""The bundle of a job: the manifest and its cells, paired. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.client.bundle import CellsMissing, CellToRun, pair_cells
from jupyter_gq.client.files.user_files import LARGE_FILE, read_json
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.runner.problems import BundleError

#: Bytes that the variables of a job may take if its bundle, of an earlier release, does not say.
DEFAULT_RESULT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectFile:
    """A file that the job takes along, as it was when the job was sent."""

    #: Below the working folder, with slashes.
    path: str
    bytes: int
    #: SHA-256 of each of its parts, as hex.
    parts: tuple[str, ...]
    executable: bool
    #: When its content last changed, in seconds since the epoch; None if that is not known.
    modified_at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CarriedPickle:
    """Variables of the notebook in one pickle."""

    names: tuple[str, ...]
    bytes: int
    #: SHA-256 of each of its parts, as hex.
    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """The cells of a job and the command of their kernel."""

    #: nbformat 4, without outputs; the ids of its cells are unique.
    notebook: JsonObject
    #: Cells in the order in which they run.
    cells: tuple[CellToRun, ...]
    #: Working folder of the kernel.
    cwd: str
    kernel_name: str
    language: str
    argv: tuple[str, ...]
    #: Environment variables of the kernelspec that the bundle has values for; those of a newer bundle have names only.
    env: dict[str, str]
    #: Names of the variables that are read from the kernelspec on this machine, and its folder if that is known.
    env_names: tuple[str, ...] = ()
    resource_dir: str = ""
    #: Names of the secrets that the cells find in variables.
    secrets: tuple[str, ...] = ()
    #: Names of the variables to save after the last cell, and the bytes that they may take together.
    returns: tuple[str, ...] = ()
    max_result_bytes: int = DEFAULT_RESULT_BYTES
    #: Files that the job takes along.
    files: tuple[ProjectFile, ...] = ()
    #: Whether the job runs in a folder of its own, in place of `cwd`; with files it always does.
    own_folder: bool = False
    #: Paths that the cells write and do not read: the folder of the job has no links to them.
    written: tuple[str, ...] = ()
    #: Folders that the job has as its own, since the cells write into them.
    folders: tuple[str, ...] = ()
    #: Variables that the kernel has before its first cell, with the minor version of Python that made them, and the
    #: versions of the packages that they need.
    carried: tuple[CarriedPickle, ...] = ()
    carried_python: str = ""
    carried_packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def replayed(self) -> tuple[CellToRun, ...]:
        """The cells that run before the targets."""
        return tuple(cell for cell in self.cells if cell.role == "prefix")

    @property
    def targets(self) -> tuple[CellToRun, ...]:
        """The cells that the user asked to run."""
        return tuple(cell for cell in self.cells if cell.role == "target")


def read_bundle(path: Path) -> Bundle:
    """Read a job's bundle; raise `BundleError` with a sentence if it cannot be run."""
    try:
        document = read_json(path, limit=LARGE_FILE)
        if document is None:
            raise BundleError("The job's bundle is gone, so the job cannot run.")
        manifest, notebook = document["manifest"], document["notebook"]
        kernel, carried = manifest["kernel"], manifest.get("carried") or {}
        return Bundle(
            notebook=notebook,
            cells=pair_cells(manifest, notebook),
            cwd=manifest["cwd"],
            kernel_name=kernel["name"],
            language=kernel.get("language", ""),
            argv=tuple(kernel["argv"]),
            env=dict(kernel.get("env", {})),
            env_names=tuple(kernel.get("env_names", ())),
            resource_dir=str(kernel.get("resource_dir", "")),
            secrets=tuple(manifest.get("secrets", ())),
            returns=tuple(manifest.get("returns", ())),
            max_result_bytes=int(document.get("max_result_bytes", DEFAULT_RESULT_BYTES)),
            files=tuple(_read_file(file) for file in manifest.get("files", ())),
            own_folder=has_own_folder(manifest),
            written=tuple(map(str, manifest.get("written", ()))),
            folders=tuple(map(str, manifest.get("folders", ()))),
            carried=tuple(_read_pickle(entry) for entry in carried.get("pickles", ())),
            carried_python=str(carried.get("python", "")),
            carried_packages=dict(carried.get("packages", {})),
        )
    except UnusableFile as error:
        raise BundleError(f"The job's bundle could not be read. {error}") from error
    except CellsMissing as error:
        raise BundleError(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"The job's bundle is damaged ({type(error).__name__}: {error}).") from error


def has_own_folder(manifest: JsonMapping) -> bool:
    """Return whether a job with this manifest runs in a folder of its own."""
    return bool(manifest.get("files") or manifest.get("own_folder"))


def _read_file(file: JsonMapping) -> ProjectFile:
    """Return a file that the manifest lists; raise `KeyError`, `TypeError` or `ValueError` if it is damaged."""
    return ProjectFile(
        path=str(file["path"]),
        bytes=int(file["bytes"]),
        parts=tuple(file["parts"]),
        executable=bool(file.get("executable")),
        modified_at=None if file.get("modified_at") is None else float(file["modified_at"]),
    )


def _read_pickle(entry: JsonMapping) -> CarriedPickle:
    """Return a pickle that the manifest lists; raise `KeyError`, `TypeError` or `ValueError` if it is damaged."""
    return CarriedPickle(
        names=tuple(str(name) for name in entry["names"]), bytes=int(entry["bytes"]), parts=tuple(entry["parts"])
    )
