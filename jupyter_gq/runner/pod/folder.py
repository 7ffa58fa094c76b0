"""Lays the files of a job out in a pod as they lie on one machine, so that the same runner finds them.

The numbers of output go on after `last_seq`, and what earlier runs have shown is there as their executed notebook:
a run in a fresh pod knows of them what a run on the same machine knows.
"""

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_gq.client.variables import of_manifest
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.problems import BundleError, disk_sentence

from .service import Granted

log = logging.getLogger(__name__)

#: Key of the service's answer beside those of the bundle.
EXECUTED = "executed"
#: Variables of the notebook server that are the pod's own: its places, its share, its part in a gang.
_OF_THE_POD = (
    *("HOME", "USER", "LOGNAME", "TMPDIR", "HOSTNAME", "PYTHONUNBUFFERED", "KUBERNETES_*"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("XLA_CLIENT_MEM_FRACTION", "TF_FORCE_GPU_ALLOW_GROWTH", "CUPY_GPU_MEMORY_LIMIT"),
)


def lay_out(folder: RunFolder, document: Mapping[str, Any], granted: Granted, checkpoint: Path | None) -> None:
    """Write everything that a runner looks for; raise `BundleError` with a sentence when it cannot be."""
    try:
        bundle = {name: value for name, value in document.items() if name != EXECUTED}
        _enter_possible_folder(bundle["manifest"])
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder.job / "bundle.json").write_text(json.dumps(bundle), encoding="utf-8")
        if document.get(EXECUTED):
            folder.notebook.write_text(json.dumps(document[EXECUTED]), encoding="utf-8")
        if granted.task == 0:
            folder.spool.write_text(json.dumps({"last": granted.last_seq}) + "\n", encoding="ascii")
        _link(folder.checkpoint, checkpoint)
        _write_secret(folder.path / "token", granted.token)
    except OSError as error:
        raise BundleError(disk_sentence(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"The job's bundle is damaged ({type(error).__name__}: {error}).") from error


def variables_of(document: Mapping[str, Any]) -> dict[str, str]:
    """What the notebook server's environment adds to the pod's."""
    return of_manifest(document["manifest"].get("environment"), _OF_THE_POD)


def _enter_possible_folder(manifest: dict[str, Any]) -> None:
    """The notebook's folder lies on a volume that is not here: an empty one takes its place, else the home."""
    wanted = str(manifest["cwd"])
    try:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        usable = os.access(wanted, os.R_OK | os.X_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        manifest["cwd"] = str(Path(os.environ.get("HOME") or "/").resolve())
        log.info("The notebook's folder %s is not in this pod; the cells run in %s.", wanted, manifest["cwd"])


def _link(place: Path, checkpoint: Path | None) -> None:
    if checkpoint is None:
        place.mkdir(mode=0o700, exist_ok=True)
        return
    checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(dir=checkpoint, prefix=".gq-")  # to know it before the cells run for hours
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        raise BundleError(
            f"The volume for checkpoints at {checkpoint} cannot be written by the user {os.getuid()} of this pod "
            f"({error.strerror or error}), so nothing was run. Ask your administrator to let the group of the pods "
            "write it, or to set KubernetesBackend.checkpoint_url instead."
        ) from error
    if not place.is_symlink():
        place.symlink_to(checkpoint, target_is_directory=True)


def _write_secret(path: Path, content: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="ascii") as file:
        file.write(content)
