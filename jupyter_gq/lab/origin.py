"""Finds where a notebook runs: its working folder, its kernel's command, and the variables that go along."""

import os
from collections.abc import Iterable

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async

from .bundle import Source
from .jupyter_parts import KernelSpec, ServerApp
from .kernelspec import allowed_environment, kernel_of
from .refusal import RefusedRequest
from .requests import CellsRequest


async def find_source(app: ServerApp, server: str, request: CellsRequest, patterns: Iterable[str]) -> Source:
    """What surrounds these cells; `app` is jupyter_server's ServerApp.

    Raises `RefusedRequest` for an unsaved notebook or an unknown kernel.
    """
    path = local_path(request.notebook_path)
    if not path:
        raise RefusedRequest(
            "unsaved_notebook",
            "This notebook has no file yet, so its job would have no folder to run in. Save it once, then send again.",
            field="notebook_path",
        )
    environment = allowed_environment(os.environ, patterns)
    name, spec = await _find_spec(app, request)
    folder = await ensure_async(app.contents_manager.get_kernel_path(path=path))
    return Source(
        server=server,
        cwd=app.kernel_manager.cwd_for_path(folder),
        kernel=kernel_of(name, spec, environment),
        environment=environment,
    )


def local_path(path: str) -> str:
    """Without the leading slash and JupyterLab's name of a drive ("RTC:folder/a.ipynb")."""
    drive, colon, rest = path.partition(":")
    return (rest if colon and "/" not in drive else path).strip("/")


async def _find_spec(app: ServerApp, request: CellsRequest) -> tuple[str, KernelSpec]:
    """Name and kernelspec of the running kernel; of the one that the notebook names when none is running."""
    if request.kernel_id is not None:
        if request.kernel_id not in app.kernel_manager:
            raise RefusedRequest(
                "unknown_kernel",
                "The kernel of this notebook is not running any more. Start it again (Kernel > Restart), then send.",
                field="kernel_id",
            )
        kernel = app.kernel_manager.get_kernel(request.kernel_id)
        return kernel.kernel_name, kernel.kernel_spec
    named = (request.notebook.get("metadata") or {}).get("kernelspec") or {}
    name = str(named.get("name") or app.kernel_manager.default_kernel_name)
    try:
        return name, await ensure_async(app.kernel_spec_manager.get_kernel_spec(name))
    except NoSuchKernel as error:
        raise RefusedRequest(
            "unknown_kernel",
            f"This notebook wants the kernel {name!r}, which is not installed here. Choose another kernel.",
            field="kernel_id",
        ) from error
