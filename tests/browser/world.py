"""A real hub for the browser, with notebooks that are short enough to watch."""

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import jupyter_gq
from jupyter_gq.demo.command import USERS
from jupyter_gq.demo.processes import DemoHub, find_packaged_folder
from jupyter_gq.demo.story import make_notebook, set_epochs, write_story_config
from jupyter_gq.domain.json_types import JsonObject
from tests.kept_logs import LOGS
from tests.patience import eventually
from tests.ports import claim_port

#: Warned after ten seconds; the countdown is long enough for a picture and a click on a machine that is busy.
WARNED_SOON = {"after": 130, "warning": 120, "grace": 4}
#: Warned after five seconds, and lent soon after: the countdown is long enough to be seen. A notebook that has been
#: idle for `after` when a job arrives is lent without a countdown, so `after` is longer than it takes to send a job.
LENT_SOON = {"after": 25, "warning": 20, "grace": 4}
#: Notebooks and jobs share one GPU, and each user may have all of it.
ONE_GPU = """
c.SimulatedDevices.devices = "1x A100-40GB"
c.Pools.pools = {}
c.Pools.build = c.Pools.train = ""
c.FixedQuota.default, c.FixedQuota.groups = "1", {}
"""


@contextlib.asynccontextmanager
async def running_demo(
    epochs: int, *, idle_rule: Mapping[str, float] | None = None, settings: str = "", python: str = sys.executable
) -> AsyncIterator[DemoHub]:
    """The demo's hub in a temporary folder; no process of it is left afterwards.

    `idle_rule`: seconds instead of minutes, such as `WARNED_SOON`. `settings`: more lines of its configuration.
    `python`: the interpreter of the hub, the service and the servers of users.
    """
    folder = Path(tempfile.mkdtemp(prefix="jupyter-gq-browser-"))
    config = find_packaged_folder("hub_config") / "jupyterhub_config_local.py"
    if idle_rule is not None or settings:
        config = write_story_config(config, folder, idle_rule or {})
        config.write_text(config.read_text() + settings)
    hub = DemoHub(folder=folder, port=claim_port(), config=config, users=USERS, python=python)
    LOGS.add("hub", folder, "jupyterhub.log", "state/jobs/*/runs/*/*/log")
    hub.start()
    try:
        for user in USERS:
            notebook = folder / "homes" / user / "digits.ipynb"
            notebook.write_text(json.dumps(set_epochs(json.loads(notebook.read_text()), epochs)))
            show_extension_of_checkout(folder / "homes" / user)
        await hub.wait_until_ready()
        yield hub
    finally:
        await asyncio.shield(hub.stop())
        LOGS.release("hub", folder)
        shutil.rmtree(folder, ignore_errors=True)


def show_extension_of_checkout(home: Path) -> None:
    """Let the user's JupyterLab and Notebook load the extension of this checkout, not an installed one.

    JupyterLab does not ask whether it needs a build.
    """
    extensions = home / ".labextensions"
    extensions.mkdir()
    (extensions / "jupyter-gq").symlink_to(Path(jupyter_gq.__file__).parent / "labextension")
    config = home / ".jupyter/jupyter_server_config.py"
    config.parent.mkdir(exist_ok=True)
    config.write_text(f"c.LabServerApp.extra_labextensions_path = [{str(extensions)!r}]\n")
    # Else each page that is opened lets JupyterLab start Node twice, to ask whether its own sources need a build.
    page = home / ".jupyter/labconfig/page_config.json"
    page.parent.mkdir()
    page.write_text(json.dumps({"buildCheck": False}))


def read_cells(notebook: Path) -> list[JsonObject]:
    """Return the cells of a notebook that a server saves; none while the server writes the file."""
    try:
        cells: list[JsonObject] = json.loads(notebook.read_text())["cells"]
    except (ValueError, FileNotFoundError):  # a server moves the file away for a moment
        return []
    return cells


async def read_saved_cells(notebook: Path) -> list[JsonObject]:
    """Return the cells of a notebook, once a server that may be saving it has done so."""
    return list(await eventually(lambda: read_cells(notebook), f"the cells of {notebook.name}"))


def write_notebook(file: Path, *sources: str, kind: str = "code") -> None:
    """Write a notebook with a cell for each source: code cells, or raw or Markdown ones by `kind`."""
    notebook = make_notebook("")
    (code,) = notebook["cells"]
    cell = code if kind == "code" else {"metadata": {}}
    notebook["cells"] = [
        {**cell, "cell_type": kind, "id": f"cell-{number}", "source": source} for number, source in enumerate(sources)
    ]
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(notebook))
