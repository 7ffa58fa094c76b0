"""Volumes that the pods of jobs have at the same path as the notebooks: homes, and read-only data."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from traitlets import Dict, List, TraitError

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

#: Stands for the name of the job's owner.
OWNER = "{username}"
_KEYS = frozenset({"claim", "path", "sub_path"})


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
        if not all(isinstance(value, str) for value in given.values()) or not given.get("claim"):
            raise ValueError("claim, path and sub_path are texts, and claim names a volume claim.")
        path, sub_path = PurePosixPath(given.get("path", "")), given.get("sub_path", "")
        if not path.is_absolute() or ".." in path.parts or path.is_relative_to("/gq") or str(path) == "/":
            raise ValueError("path is an absolute path, such as /home/jovyan, and does not lie in /gq.")
        if sub_path.startswith("/") or ".." in sub_path.split("/"):
            raise ValueError("sub_path is a folder of the volume, such as {username}.")
        return cls(claim=given["claim"], path=str(path), sub_path=sub_path, read_only=read_only)

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
                    f"{self.name}: claim or sub_path must have {OWNER}, or all users would share one home."
                )
        return given


class SharedVolumes(List):  # type: ignore[type-arg]
    """A trait for volumes of data."""

    def validate(self, obj: object, value: object) -> list[JsonObject]:
        """Return the list if each entry describes a volume; raise `TraitError`."""
        given: list[JsonObject] = super().validate(obj, value) or []
        for volume in given:
            _check(self.name, volume)
        return given


def list_volumes(home: JsonMapping, data: Sequence[JsonMapping]) -> tuple[SharedVolume, ...]:
    """Return the volumes of these settings, which their traits have checked."""
    homes = [SharedVolume.parse(home, read_only=False)] if home else []
    return (*homes, *(SharedVolume.parse(volume, read_only=True) for volume in data))


def _check(name: str | None, given: JsonMapping) -> None:
    try:
        SharedVolume.parse(given, read_only=False)
    except ValueError as error:
        raise TraitError(f"{name}: {error}") from error
