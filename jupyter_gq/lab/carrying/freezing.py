"""The pickles of variables in parts, as the files of a project travel; a part is read when it is sent."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.client.models import CarriedPickle
from jupyter_gq.domain.json_types import JsonObject


class PickleParts(Mapping[str, bytes]):
    """Parts of files by their digests. Only the part that is asked for is in memory."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path, int]] = {}

    def add(self, path: Path) -> list[str]:
        """Add the parts of a file; return their digests in order. Raises `OSError` if the file cannot be read."""
        digests = []
        with path.open("rb") as file:
            while part := file.read(PART_SIZE):
                digests.append(hashlib.sha256(part).hexdigest())
                self._places.setdefault(digests[-1], (path, file.tell() - len(part)))
        return digests

    def __getitem__(self, digest: str) -> bytes:
        path, start = self._places[digest]
        with path.open("rb") as file:
            file.seek(start)
            return file.read(PART_SIZE)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def freeze_pickles(folder: Path, pickles: Sequence[JsonObject]) -> tuple[list[CarriedPickle], PickleParts]:
    """Return the pickles with the digests of their parts, and the parts; raise `OSError` if one cannot be read."""
    parts = PickleParts()
    frozen = [
        CarriedPickle(names=each["names"], bytes=each["bytes"], parts=parts.add(folder / each["file"]))
        for each in pickles
    ]
    return frozen, parts
