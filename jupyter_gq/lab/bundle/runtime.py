"""The runtime of a notebook: its working folder, its kernel's command, and the variables that are sent with it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async

from jupyter_gq.client.models import Kernel
from jupyter_gq.lab.jupyter_parts import KernelSpec, ServerApp
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellsRequest

from .bundle import Runtime, read_object
from .kernelspec import describe_kernel
from .software import FetchImages, Software, describe_portable_kernel, find_software, list_kernels

#: Drives of JupyterLab whose paths are those of this server: that of jupyter-collaboration.
_DRIVES = frozenset({"RTC"})


async def find_runtime(
    app: ServerApp, server: str, request: CellsRequest, environment: Mapping[str, str], fetch_images: FetchImages
) -> Runtime:
    """Return the working folder and kernel for these cells; `app` is jupyter_server's ServerApp.

    The folder is the one that the request names, or else the one in which the kernel was started that ran the cells, or
    else the notebook's. `server` is the name of this notebook server on the Hub, and `environment` are the variables
    that go along. Raises `RefusedRequest` for an unsaved notebook, a folder that is no full path, an unknown kernel or
    software that is not offered.
    """
    path = remove_drive(request.notebook_path)
    if not path:
        raise RefusedRequest(
            "unsaved_notebook",
            "This notebook has no file yet, so its job would have no folder to run in. Save it once, then send again.",
            field="notebook_path",
        )
    kernel, software = await _find_kernel(app, request, environment, fetch_images)
    chosen = request.cwd
    if chosen is not None and (not os.path.isabs(chosen) or "\0" in chosen):
        raise RefusedRequest("invalid_folder", f"{chosen!a} is not the full path of a folder.", field="cwd")
    beside = app.kernel_manager.cwd_for_path(await ensure_async(app.contents_manager.get_kernel_path(path=path)))
    started = find_started_folder(app, request.kernel_id) if request.mode == "replay" else None
    folder = chosen or started or beside
    return Runtime(
        server=server,
        cwd=folder,
        is_elsewhere=chosen is None and Path(folder) != Path(beside),
        kernel=kernel,
        environment=environment,
        software=software,
    )


def find_started_folder(app: ServerApp, kernel: str | None) -> str | None:
    """Return the folder in which a kernel of this server was started and its cells ran.

    Returns None if that is not known, if the folder is gone, or if there is no such kernel.
    The folder is not the notebook's if the notebook was moved, or uses the kernel of a notebook elsewhere.
    See docs/decisions/0480-begin-where-the-kernel-was-started.md.
    """
    if kernel is None or kernel not in app.kernel_manager:
        return None
    launched = getattr(app.kernel_manager.get_kernel(kernel), "_launch_args", None) or {}
    folder = launched.get("cwd")
    return folder if isinstance(folder, str) and os.path.isabs(folder) and os.path.isdir(folder) else None


def remove_drive(path: str) -> str:
    """Return the path without the leading slash and without the name of a drive ("RTC:folder/a.ipynb").

    Any other colon belongs to the name of a folder or a notebook.
    See docs/decisions/0211-know-the-drive-by-its-name.md.
    """
    drive, colon, rest = path.partition(":")
    return (rest if colon and drive in _DRIVES else path).strip("/")


async def _find_kernel(
    app: ServerApp, request: CellsRequest, environment: Mapping[str, str], fetch_images: FetchImages
) -> tuple[Kernel, Software]:
    """Return the kernel with which the job runs, and the software that was chosen; see `find_runtime`."""
    name, spec = await _find_spec(app, request)
    kernels = await list_kernels(app.kernel_spec_manager, spec.language)
    software = await find_software(request.software, name, spec.language, kernels, fetch_images)
    if software.is_image:
        return describe_portable_kernel(name, spec), software
    if software.name:
        name, spec = software.name, await _get_spec(app, software.name, "software")
        software = replace(software, variables=spec.env)
    return describe_kernel(name, spec, environment), software


async def _find_spec(app: ServerApp, request: CellsRequest) -> tuple[str, KernelSpec]:
    """Return name and kernelspec of the running kernel, or of the kernel that the notebook names if none is given.

    Raises `RefusedRequest` if that kernel does not run or is not installed.
    """
    if request.kernel_id is not None:
        if request.kernel_id not in app.kernel_manager:
            raise RefusedRequest(
                "unknown_kernel",
                "The kernel of this notebook is not running any more. Start it again (Kernel > Restart), then send.",
                field="kernel_id",
            )
        kernel = app.kernel_manager.get_kernel(request.kernel_id)
        return kernel.kernel_name, kernel.kernel_spec
    named = read_object(read_object(request.notebook, "metadata"), "kernelspec")
    name = str(named.get("name") or app.kernel_manager.default_kernel_name)
    return name, await _get_spec(app, name, "kernel_id")


async def _get_spec(app: ServerApp, name: str, field: str) -> KernelSpec:
    """Return a kernelspec by its name; raise `RefusedRequest` about this field of the request if there is none."""
    try:
        return await ensure_async(app.kernel_spec_manager.get_kernel_spec(name))
    except NoSuchKernel as error:
        raise RefusedRequest(
            "unknown_kernel",
            f"This notebook needs the kernel {name!r}, which is not installed here. Choose another kernel.",
            field=field,
        ) from error
