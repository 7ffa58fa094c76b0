"""The files of a job in a pod, laid out as on one machine, so that the same runner finds them.

The numbers of output pieces continue after `last_seq`, and the outputs of earlier runs are there as an executed
notebook. So a run in a new pod finds the same state as a run on the same machine.
"""

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from jupyter_gq.client.environment.variables import (
    GANG_VARIABLES,
    JAX_FRACTIONS,
    LIMIT_VARIABLES,
    MEMORY_FRACTION,
    add_share_variables,
    select_variables,
)
from jupyter_gq.client.files.frozen_files import PACK, list_part_sizes
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.runner.files.bundle import has_own_folder
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.output.executed_notebook import write_notebook
from jupyter_gq.runner.problems import BundleError, describe_disk_error

from .service import TaskGrant

log = logging.getLogger(__name__)

#: Key of the executed notebook in the service's answer, beside the keys of the bundle.
EXECUTED = "executed"
#: Variables of the notebook server that the pod sets itself: its folders, its rank in a gang.
_POD_VARIABLES = (
    *("HOME", "USER", "LOGNAME", "TMPDIR", "HOSTNAME", "PYTHONUNBUFFERED", "KUBERNETES_*"),
    *GANG_VARIABLES,
)


def write_job_files(folder: RunFolder, document: JsonMapping, granted: TaskGrant, checkpoint: Path | None) -> None:
    """Write the files that the runner reads: bundle, token, checkpoint folder, executed notebook (if there is one).

    Task 0 also gets the spool. If the job has no folder of its own and its working folder cannot be used, the `cwd` of
    `document["manifest"]` is changed to the home folder. Raises `BundleError` if the disk refuses, the bundle is
    damaged, or the volume for checkpoints cannot be written.
    """
    try:
        bundle = {name: value for name, value in document.items() if name != EXECUTED}
        if not has_own_folder(bundle["manifest"]):
            _choose_working_folder(bundle["manifest"])
        folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder.job / "bundle.json").write_text(json.dumps(bundle), encoding="utf-8")
        if document.get(EXECUTED):
            write_notebook(folder.notebook, document[EXECUTED])
        if granted.task == 0:
            folder.spool.write_text(json.dumps({"last": granted.last_seq}) + "\n", encoding="ascii")
        _link_checkpoints(folder.checkpoint, checkpoint)
        _write_secret(folder.path / "token", granted.token)
    except OSError as error:
        raise BundleError(describe_disk_error(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"The job's bundle is damaged ({type(error).__name__}: {error}).") from error


def write_files(folder: RunFolder, document: JsonMapping, fetch: Callable[[int], bytes]) -> None:
    """Write the contents of the files and variables that the job takes along, one after the other, into one file.

    `fetch` takes the number of a part, counted from 0 over all contents, and returns the bytes of that part and of as
    many of the next parts as fit into one answer. Raises `BundleError` if the disk refuses or parts are missing.
    """
    manifest = document["manifest"]
    contents = [*manifest.get("files", ()), *(manifest.get("carried") or {}).get("pickles", ())]
    sizes = [size for content in contents for size in list_part_sizes(content["bytes"])]
    if not sizes:
        return
    try:
        with (folder.job / PACK).open("wb") as pack:
            start = 0
            while start < len(sizes):
                content = fetch(start)
                pack.write(content)
                received = len(content)
                while start < len(sizes) and received >= sizes[start]:
                    received -= sizes[start]
                    start += 1
                if received or not content:
                    raise BundleError("The files or variables of this job are incomplete. Send the cell again.")
    except OSError as error:
        raise BundleError(describe_disk_error(error)) from error


def read_variables(document: JsonMapping) -> dict[str, str]:
    """Return the notebook server's variables for the runner, without those that the pod sets itself.

    Of the memory limits of frameworks, the smaller ones of the user and of this pod are returned: they replace all of
    `LIMIT_VARIABLES` that the pod has.
    """
    given = select_variables(document["manifest"].get("environment"), _POD_VARIABLES)
    of_pod = {name: os.environ[name] for name in (*LIMIT_VARIABLES, MEMORY_FRACTION) if name in os.environ}
    newer, older = JAX_FRACTIONS
    if newer in of_pod and older in of_pod:  # the image sets the one, the share the other
        of_pod = add_share_variables({older: of_pod.pop(older)}, of_pod)
    return add_share_variables(given, of_pod)


def merge_environment(pod: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a pod, replaced and added to by those of `read_variables`.

    `LIMIT_VARIABLES` of the pod are left out: the limits of memory are those in `variables`, or there are none.
    """
    return {**{name: value for name, value in pod.items() if name not in LIMIT_VARIABLES}, **variables}


def read_secret_values(document: JsonMapping) -> list[str]:
    """Return the values of the job's secrets, which the kubelet has put into variables of this pod."""
    return [os.environ[name] for name in document["manifest"].get("secrets", ()) if name in os.environ]


def _choose_working_folder(manifest: JsonObject) -> None:
    """Set `manifest["cwd"]` to a usable folder: the notebook's, which is made if it is missing, or else the home."""
    wanted = str(manifest["cwd"])
    try:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        usable = os.access(wanted, os.R_OK | os.X_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        manifest["cwd"] = str(Path(os.environ.get("HOME") or "/").resolve())
        log.info("The notebook's folder %s is not in this pod; the cells run in %s.", wanted, manifest["cwd"])


def _link_checkpoints(place: Path, checkpoint: Path | None) -> None:
    """Make the folder for checkpoints at `place`, or a link to the volume `checkpoint` after a trial write.

    Raises `BundleError` if the volume cannot be written.
    """
    if checkpoint is None:
        place.mkdir(mode=0o700, exist_ok=True)
        return
    checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Try to write now, because an error after hours of work would be too late.
        handle, name = tempfile.mkstemp(dir=checkpoint, prefix=".gq-")
        os.close(handle)
        Path(name).unlink(missing_ok=True)  # another task may be clearing the folder, which all tasks share
    except OSError as error:
        raise BundleError(
            f"The volume for checkpoints at {checkpoint} cannot be written by the user {os.getuid()} of this pod "
            f"({error.strerror or error}), so nothing was run. Ask your administrator to give the group of the pods "
            "write access, or to set KubernetesBackend.checkpoint_url instead."
        ) from error
    if not place.is_symlink():
        place.symlink_to(checkpoint, target_is_directory=True)


def _write_secret(path: Path, content: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="ascii") as file:
        file.write(content)
