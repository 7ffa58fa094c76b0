"""The request to a job's kernel to save the variables that the job returns."""

import json
from collections.abc import Callable
from queue import Empty

from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gq.client.environment.kernel import SAVE_FILE
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.files.bundle import Bundle
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.files.results import describe_missing, read_report

from .kernel import KernelProcess

_POLL_INTERVAL = 0.25


async def save_variables(
    client: AsyncKernelClient,
    kernel: KernelProcess,
    folder: RunFolder,
    bundle: Bundle,
    seconds_left: Callable[[], float],
) -> JsonObject:
    """Let the kernel save the variables that the job returns, and return its report, with an entry for each name.

    Returns at the latest when `seconds_left` is 0 or below; names that have not been saved by then get a reason.
    """
    names = bundle.returns
    if not names:
        return refuse_variables(names, "")
    if bundle.language != "python":
        return refuse_variables(names, "Only variables of Python kernels can be brought back. Write a file instead.")
    report = folder.path / "variables.json"
    given = {
        "names": names,
        "folder": str(folder.results / "vars"),
        "report": str(report),
        "limit": bundle.max_result_bytes,
        "cwd": bundle.cwd,
    }
    # Names of the user's namespace, such as a variable `open` or `print`, must not matter: nothing is assigned there.
    code = f"__import__('runpy').run_path({str(SAVE_FILE)!r})['main']({json.dumps(given)!r})"
    message = client.execute(code, silent=True, store_history=False)
    reason = await _await_reply(client, kernel, message, seconds_left)
    return read_report(report, names, reason)


def refuse_variables(names: tuple[str, ...], reason: str) -> JsonObject:
    """Return a report in which each of the names has this reason."""
    return {"python": "", "variables": [describe_missing(name, reason) for name in names]}


async def _await_reply(
    client: AsyncKernelClient, kernel: KernelProcess, message: str, seconds_left: Callable[[], float]
) -> str:
    """Wait for the reply to a request on the shell channel; return why a value may not have been saved by then."""
    while kernel.exit_code is None:
        if seconds_left() <= 0:
            return "There was no time left to save it."
        try:
            reply = await client.get_shell_msg(timeout=_POLL_INTERVAL)
        except Empty:
            continue
        if reply["parent_header"].get("msg_id") == message:
            return "The kernel could not save it; the log has more."
    return "The kernel ended while the results were being saved."
