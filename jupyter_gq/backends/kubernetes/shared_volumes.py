"""Volumes that the pods of jobs have at the same path as the notebooks: homes, and read-only data."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from traitlets import Dict, List, TraitError

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

#: Stands for the name of the job's owner.
OWNER = "{username}"
_KEYS = frozenset({"claim", "path", "sub_path"})
#: Folders in which the pods of jobs have what the system and jupyter-gq put there.
_TAKEN = ("/gq", "/proc", "/sys", "/dev", "/var/run")


#: The form of names of objects, and their most characters.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LONGEST_NAME = 253
#: Most characters of a user's part in the name of an object, with a hash; see `objects.names.user_part`.
LONGEST_USER_PART = 53


def is_object_name(name: str) -> bool:
    """Return whether an object of Kubernetes can have this name for each user who takes the place of `OWNER`."""
    names = name.count(OWNER)
    longest = len(name) + names * (LONGEST_USER_PART - len(OWNER))
    return longest <= LONGEST_NAME and _NAME.fullmatch(name.replace(OWNER, "u")) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedVolume:
    """A volume claim in the training namespace, and where pods have it."""

    claim: str
    #: Absolute path in the pods, as in the notebooks.
    path: str
    #: Folder of the volume that is mounted; "" = all of it.
    sub_path: str = ""
    read_only: bool = False

    @classmethod
    def parse(cls, given: JsonMapping, *, read_only: bool) -> "SharedVolume":
        """Return the volume that an administrator describes; raise `ValueError` with a sentence if it is none."""
        if unknown := set(given) - _KEYS:
            raise ValueError(f"a volume has no {sorted(unknown)[0]!r}; it has claim, path and perhaps sub_path.")
        if not all(isinstance(value, str) for value in given.values()):
            raise ValueError("claim, path and sub_path are texts.")
        claim, given_path, sub_path = (given.get(key, "") for key in ("claim", "path", "sub_path"))
        if not is_object_name(claim):
            raise ValueError(
                f"no volume claim can have the name {claim!r}. Write small letters, digits, hyphens and dots, and "
                f"{OWNER} where the names of users go, such as homes."
            )
        path = PurePosixPath(given_path)
        if not path.is_absolute() or ".." in path.parts or ":" in given_path or not given_path.isprintable():
            raise ValueError(f"path {given_path!r} is no absolute path without '..' and ':', such as /home/jovyan.")
        if str(path) == "/" or any(path.is_relative_to(taken) for taken in _TAKEN):
            raise ValueError(f"path {given_path!r} is taken: pods have something else there. Choose another folder.")
        if sub_path.startswith("/") or ".." in sub_path.split("/") or not sub_path.isprintable():
            raise ValueError(f"sub_path {sub_path!r} is no folder of the volume, such as {OWNER}.")
        return cls(claim=claim, path=str(path), sub_path=sub_path, read_only=read_only)

    def make_volume(self, name: str, owner: str) -> JsonObject:
        """Return the volume of a pod; `owner` is the name of the job's owner as KubeSpawner writes it."""
        claim = {"claimName": self.claim.replace(OWNER, owner), "readOnly": self.read_only}
        return {"name": name, "persistentVolumeClaim": claim}

    def make_mount(self, name: str, owner: str) -> JsonObject:
        """Return the mount of a container; `owner` is the name of the job's owner as KubeSpawner writes it."""
        mount: JsonObject = {"name": name, "mountPath": self.path, "readOnly": self.read_only}
        return {**mount, "subPath": self.sub_path.replace(OWNER, owner)} if self.sub_path else mount


class VolumeOfEachUser(Dict):
    """A trait for the volume of the users' homes."""

    def validate(self, obj: object, value: object) -> JsonObject:
        """Return the dict if it describes a volume that each user has alone, or is empty; raise `TraitError`."""
        given: JsonObject = super().validate(obj, value) or {}
        if given:
            _check(self.name, given)
            if OWNER not in given["claim"] + given.get("sub_path", ""):
                raise TraitError(
                    f"c.KubernetesBackend.{self.name} = {given!r}: all users would share one home. Write {OWNER} in "
                    "claim or sub_path, where their names go."
                )
        return given


class SharedVolumes(List):  # type: ignore[type-arg]
    """A trait for volumes of data."""

    def validate(self, obj: object, value: object) -> list[JsonObject]:
        """Return the list if each entry describes a volume; raise `TraitError`."""
        given: list[JsonObject] = super().validate(obj, value) or []
        for volume in given:
            _check(self.name, volume)
        require_own_paths(SharedVolume.parse(volume, read_only=True) for volume in given)
        return given


def list_volumes(home: JsonMapping, data: Sequence[JsonMapping]) -> tuple[SharedVolume, ...]:
    """Return the volumes of these settings, which their traits have checked."""
    homes = [SharedVolume.parse(home, read_only=False)] if home else []
    return (*homes, *(SharedVolume.parse(volume, read_only=True) for volume in data))


def require_own_paths(volumes: Iterable[SharedVolume]) -> None:
    """Raise `TraitError` if two of these volumes have one path: Kubernetes would refuse every pod."""
    paths = [volume.path for volume in volumes]
    if twice := next((path for path in paths if paths.count(path) > 1), ""):
        raise TraitError(
            f"c.KubernetesBackend.home_volume and data_volumes: two volumes have the path {twice}. Give each its own."
        )


def _check(name: str | None, given: JsonMapping) -> None:
    try:
        SharedVolume.parse(given, read_only=False)
    except ValueError as error:
        raise TraitError(f"c.KubernetesBackend.{name} = {given!r}: {error}") from error
