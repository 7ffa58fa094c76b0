"""The requests to a job's kernel to load the variables that the job took along, and to restore them."""

import contextlib
from pathlib import Path
from queue import Empty

from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gq.client.environment.kernel import make_carry_call
from jupyter_gq.client.files.user_files import SMALL_FILE
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.files.bundle import Bundle
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.problems import KernelError

from .kernel import KernelProcess

_POLL_INTERVAL = 0.25
_SENTENCES = {
    "load": (
        "The variables of the notebook could not be loaded, so no cell was run: {why}. Send the cell again without "
        "them, so that the cells before run in the job instead."
    ),
    "restore": (
        "The variables of the notebook could not be loaded again after the cells that ran first: {why}. Send the cell "
        "again without them, so that all cells before run in the job instead."
    ),
}


async def load_variables(client: AsyncKernelClient, kernel: KernelProcess, folder: RunFolder, bundle: Bundle) -> None:
    """Let the kernel define the variables that the job took along; raise `KernelError` with a sentence if that fails.

    Values are unpickled in the kernel only, never in this process.
    """
    if not bundle.carried:
        return
    if bundle.language != "python":
        raise KernelError(_SENTENCES["load"].format(why="only kernels of Python can load them"))
    request: JsonObject = {
        "folder": str(folder.carried),
        "python": bundle.carried_python,
        "packages": dict(bundle.carried_packages),
        "pickles": [{"names": entry.names, "file": f"{n}.pickle"} for n, entry in enumerate(bundle.carried)],
        "replays": bool(bundle.replayed),
    }
    await _ask(client, kernel, folder, "load", request)


async def restore_variables(
    client: AsyncKernelClient, kernel: KernelProcess, folder: RunFolder, bundle: Bundle
) -> None:
    """Let the kernel give the loaded variables their values back after the replayed cells, which may have changed them.

    Does nothing if no cell was replayed. Raises `KernelError` with a sentence if that fails.
    """
    if bundle.carried and bundle.replayed:
        await _ask(client, kernel, folder, "restore", {})


async def _ask(
    client: AsyncKernelClient, kernel: KernelProcess, folder: RunFolder, step: str, request: JsonObject
) -> None:
    """Let the kernel do this step; raise `KernelError` with its sentence if that fails."""
    report = folder.path / "carried.txt"
    with contextlib.suppress(FileNotFoundError):
        report.unlink()
    code = make_carry_call("load", {**request, "step": step, "report": str(report)})
    message = client.execute(code, silent=True, store_history=False)
    why = await _await_reply(client, kernel, message) or _read(report)
    if why:
        raise KernelError(_SENTENCES[step].format(why=why))


async def _await_reply(client: AsyncKernelClient, kernel: KernelProcess, message: str) -> str:
    """Wait for the reply to a request on the shell channel; return why there is none if the kernel has ended."""
    while True:
        try:
            reply = await client.get_shell_msg(timeout=_POLL_INTERVAL)
        except Empty:
            if kernel.exit_code is None:
                continue
            return f"the kernel {kernel.describe_exit()} meanwhile"
        if reply["parent_header"].get("msg_id") == message:
            return ""


def _read(report: Path) -> str:
    """Return the kernel's reason for a failure; "" if it has loaded the variables."""
    try:
        with report.open(encoding="utf-8", errors="replace") as file:
            return " ".join(file.read(SMALL_FILE).split())
    except OSError:
        return "the kernel failed; the log has more"
