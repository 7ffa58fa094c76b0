"""The check of pickled variables before they are sent: a new process of the kernel's Python loads them.

The server itself unpickles nothing. The process belongs to the user, as the kernel does.
"""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.client.environment.kernel import CARRY_FILE
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

#: Seconds that loading all variables may take in the new process.
CHECK_TIMEOUT = 120.0
#: Most new processes: each one that dies names one more culprit.
MOST_DEATHS = 10
_CODE = "import runpy, sys; runpy.run_path(sys.argv[1])['call']('check', sys.stdin.read())"
#: Stands in the report of the process for its versions of Python and packages, beside the files of pickles.
ENVIRONMENT = ""
_TOO_SLOW = f"A new process has not loaded it within {CHECK_TIMEOUT:.0f} s."


@dataclass(frozen=True, kw_only=True, slots=True)
class Python:
    """The Python of a kernel."""

    executable: str
    environment: Mapping[str, str]


async def find_unloadable(python: Python, folder: Path, report: JsonMapping) -> dict[str, str]:
    """Return the files of those pickles that a new process cannot load, each with its reason as a sentence.

    `report` names the pickles, and the versions of Python and packages that made them.
    """
    bad: dict[str, str] = {}
    pickles: Sequence[JsonObject] = report["pickles"]
    for _ in range(MOST_DEATHS):
        begun, reasons, status = await _load_all(python, folder, report, list(bad))
        if ENVIRONMENT in reasons:
            return dict.fromkeys((each["file"] for each in pickles), f"Variables stay: {reasons[ENVIRONMENT]}.")
        bad |= {file: f"A new process cannot load it: {why}." for file, why in reasons.items() if why}
        died = [file for file in begun if file not in reasons]
        if not died and status == 0:
            return bad
        why = _TOO_SLOW if status is None else f"A new process that loaded it ended with status {status}."
        bad |= dict.fromkeys(died, why)
        if not died or status is None:
            break
    rest = [each["file"] for each in pickles if each["file"] not in reasons and each["file"] not in bad]
    return bad | dict.fromkeys(rest, "It could not be checked in a new process.")


async def _load_all(
    python: Python, folder: Path, made: JsonMapping, skipped: list[str]
) -> tuple[list[str], dict[str, str], int | None]:
    """Load the pickles in a new process.

    Return the files that it began with, the reasons of those that it has finished, "" for a success, and its exit
    status, None if it took too long. The reason of `ENVIRONMENT` says how its environment differs.
    """
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        report = Path(empty).with_suffix(".report")
        own = {"folder": str(folder), "skipped": skipped, "report": str(report)}
        request = {**own, **{key: made[key] for key in ("pickles", "python", "packages")}}
        status = await _run(python, empty, json.dumps(request))
    lines = _read_lines(report)
    report.unlink(missing_ok=True)
    begun = [line["file"] for line in lines if line["state"] == "begun"]
    return begun, {line["file"]: line["reason"] for line in lines if line["state"] == "done"}, status


async def _run(python: Python, cwd: str, request: str) -> int | None:
    """Run the check; return its exit status, None if it was ended because it took too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(python.executable, "-c", _CODE, str(CARRY_FILE)),
            cwd=cwd,
            env={**python.environment, "CUDA_VISIBLE_DEVICES": ""},  # the check takes no memory of the share
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return 127
    try:
        await asyncio.wait_for(process.communicate(request.encode()), CHECK_TIMEOUT)
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return process.returncode


def _read_lines(report: Path) -> list[dict[str, str]]:
    """Return the lines that the process has written; a last one that is not whole is left out."""
    try:
        text = report.read_text(encoding="utf-8")
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]
