"""Files that a job takes along, as its manifest lists them."""

import hashlib
from collections.abc import Mapping
from typing import Any

from jupyter_gq.client.files.frozen_files import PART_SIZE


def split(content: bytes) -> list[bytes]:
    return [content[start : start + PART_SIZE] for start in range(0, len(content), PART_SIZE)]


def digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


def list_frozen(files: Mapping[str, bytes], times: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Return the entries of a manifest for files of these contents; `times` has the times of change that are known."""
    return [
        {
            "path": path,
            "bytes": len(content),
            "parts": [digest(part) for part in split(content)],
            "executable": False,
            "modified_at": (times or {}).get(path),
        }
        for path, content in files.items()
    ]
