"""The command `jupyter-gq demo`: the whole product on this machine, to click through or as a script."""

import argparse
import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil

from jupyter_gq.store.folder_lock import is_locked

from .person import DemoCellFailed, ProductRefused
from .processes import DemoError, DemoHub, check_port, find_packaged_folder, free_port
from .story import StepFailed, StepReport, Story, run_alongside, write_story_config

#: Modules that only the Hub or the notebook imports: without this check a missing one would show only in their logs.
_NEEDED_MODULES = ("configurable_http_proxy", "jupyterhub", "jupyterlab", "matplotlib", "sklearn")
USERS = ("ann", "bob", "carol", "dana")
_CONFIG = "jupyterhub_config_local.py"
#: Port of the Hub if the user names none.
_PORT = 8000
#: The file that every demo leaves in its folder.
_LOG = "jupyterhub.log"
#: The folder in which the service of a demo works.
_STATE = "jupyter-gq-state"

_WELCOME = """
  jupyter-gq is running:  {url}

  Log in as               ann or carol (group vision, up to 0.5 GPU)
                          bob (group nlp, up to 0.25 GPU)
                          dana (administrator); any password
  Try                     1. Log in as ann, choose 0.5 GPU, and open digits.ipynb.
                          2. Run its cells down to the training cell, then click "Send to training" on that cell.
                          3. Watch the loss curve grow under the cell.
                          4. In a private window log in as bob, send a cell to the queue nlp with 0.5 GPU,
                             and see under ann's cell that the job gives way and comes back by itself.
                          5. Stop ann's server: the job goes on.
  Devices and their use   {url}/services/jupyter-gq/
  Settings                {config}
                          (edit the quotas: a change takes effect within seconds)
  Log                     {log}

  Ctrl-C ends everything.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq demo`."""
    parser.add_argument(
        "--port", type=int, help=f"port of the hub on 127.0.0.1 (default: {_PORT}; with --script any free one)"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        help="folder for homes, databases and log, which must be empty with --script (default: "
        f"{default_folder()}; with --script a temporary folder, which is deleted if all steps succeed)",
        metavar="FOLDER",
    )
    parser.add_argument(
        "--script",
        action="store_true",
        help="play the story of the README without a browser and print what happened",
    )
    parser.add_argument("--reset", action="store_true", help="delete the files of an earlier demo in that folder first")


def default_folder() -> Path:
    """Return the folder in which the demo keeps its files between runs, below the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "jupyter-gq" / "demo"


def run(arguments: argparse.Namespace) -> int:
    """Run the demo until it is stopped, or play the story; return the exit code.

    An error of the demo, or a folder that cannot be used, is printed and gives 1.
    """
    try:
        _check_packages()
        with _hold_folder(arguments):
            return asyncio.run(_play_story(arguments) if arguments.script else _serve(arguments))
    except DemoError as error:
        print(f"\njupyter-gq demo: {error}", file=sys.stderr)
        return 1


def _check_packages() -> None:
    """Raise `DemoError` if a module is missing that the Hub or the notebook needs."""
    missing = next((name for name in _NEEDED_MODULES if find_spec(name) is None), None)
    if missing:
        raise DemoError(f"the Python module {missing} is missing: pip install 'jupyter-gq[demo]'")


def _check_folder(folder: Path) -> None:
    """Make a folder if it is missing; raise `DemoError` if that is impossible or if nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DemoError(
            f"the folder {folder} cannot be used: {error.strerror}. Choose another one with --dir."
        ) from error


@contextlib.contextmanager
def _hold_folder(arguments: argparse.Namespace) -> Iterator[None]:
    """Hold the folder of the demo during the block, from before anything starts; a temporary folder needs no holding.

    Raises `DemoError` if the folder cannot be used, or if another demo holds it or has left its service there.
    """
    if arguments.dir is None and arguments.script:
        yield
        return
    folder = (arguments.dir or default_folder()).resolve()
    _check_folder(folder)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = not is_locked(folder / _STATE)
    except BlockingIOError:
        is_free = False
    try:
        if not is_free:
            raise DemoError(
                f"the folder {folder} cannot be used: another demo runs in it{_name_hub(folder)}. End that one, or "
                "choose another folder with --dir."
            )
        yield
    finally:
        os.close(held)


def _name_hub(folder: Path) -> str:
    """Return the process of the Hub that works in the folder, in brackets; "" if none is seen.

    After `kill -9` of a demo its Hub goes on, and nothing on the screen tells where. Other programs may work in the
    folder as well, such as the user's shell.
    """
    at_work = (each.info for each in psutil.process_iter(["cwd", "cmdline", "pid"]))
    hubs = [each for each in at_work if each["cwd"] == str(folder) and "jupyterhub" in (each["cmdline"] or ())]
    return f" (its Hub is process {min(hub['pid'] for hub in hubs)})" if hubs else ""


async def _serve(arguments: argparse.Namespace) -> int:
    """Run the Hub until a signal comes, end it with all that it started, and return 0.

    Raises `DemoError` if the Hub does not start or ends by itself.
    """
    folder = (arguments.dir or default_folder()).resolve()
    port = _PORT if arguments.port is None else arguments.port
    check_port(port)
    if arguments.reset:
        _delete_demo(folder)
    hub = DemoHub(folder=folder, port=port, config=_find_config(folder), users=USERS)
    stopped = _install_stop_event()
    print("Starting JupyterHub and the scheduler service...", flush=True)
    hub.start()
    reaping = asyncio.create_task(hub.reap())
    try:
        ready = asyncio.create_task(hub.wait_until_ready())
        await asyncio.wait({ready, asyncio.create_task(stopped.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            await ready
            print(_WELCOME.format(url=hub.url, config=hub.config, log=hub.log), flush=True)
            while hub.is_alive() and not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await stopped.wait()
            if not stopped.is_set():
                raise DemoError(f"JupyterHub ended by itself; {hub.log} says why.")
        ready.cancel()
    finally:
        reaping.cancel()
        print("\nEnding the hub, the service, all servers and jobs...", flush=True)
        await hub.stop()
    return 0


def _delete_demo(folder: Path) -> None:
    """Delete the files of an earlier demo; do nothing if there are none. The folder stays, because it is held.

    Raises `DemoError` if the folder has files but no log of a demo.
    """
    if not any(folder.iterdir()):
        return
    if not (folder / _LOG).exists():
        raise DemoError(f"{folder} is no folder of a demo, so --reset does not delete it. Delete it yourself.")
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def _prepare_story_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder for the story: a new temporary one, or the one that the user names, which must be empty.

    `--reset` first deletes an earlier demo there. Raises `DemoError` if the folder is not empty.
    """
    if arguments.dir is None:
        return Path(tempfile.mkdtemp(prefix="jupyter-gq-story-"))
    folder: Path = arguments.dir.resolve()
    if arguments.reset:
        _delete_demo(folder)
    if any(folder.iterdir()):
        raise DemoError(f"{folder} is not empty, as the story needs it. Add --reset, or choose another folder.")
    return folder


async def _play_story(arguments: argparse.Namespace) -> int:
    """Play the story and print each step; return 0, or 1 if a step failed or a signal ended the story.

    The Hub is stopped in the end. After a success, a temporary folder is deleted.
    """
    if arguments.port is not None:
        check_port(arguments.port)
    folder, stopped = _prepare_story_folder(arguments), _install_stop_event()
    config = write_story_config(find_packaged_folder("hub_config") / _CONFIG, folder)
    hub = DemoHub(folder=folder, port=arguments.port or free_port(), config=config, users=USERS)
    story = Story(hub=hub, report=_print_step)
    print(f"Starting JupyterHub on {hub.url}: a story of three people and two GPUs...\n", flush=True)
    hub.start()
    failure = ""
    try:
        if not await _finish_unless(stopped, _tell(hub, story)):
            failure = "A signal ended it."
    except (StepFailed, ProductRefused, DemoCellFailed, httpx.HTTPError) as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        await hub.stop()
    if failure:
        print(f"\nThe story stopped after {len(story.steps)} steps. {failure}\nLog: {hub.log}", file=sys.stderr)
        return 1
    if arguments.dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\nAll {len(story.steps)} steps happened as expected, in {story.steps[-1].at:.0f} s.")
    return 0


async def _tell(hub: DemoHub, story: Story) -> None:
    async with run_alongside(hub.reap()):
        await hub.wait_until_ready()
        print(f"  {'at':>7}  {'took':>7}  {'who':<6} what happened\n  {'-' * 7}  {'-' * 7}  {'-' * 6} {'-' * 60}")
        await story.play()


async def _finish_unless(stopped: asyncio.Event, work: Coroutine[object, None, None]) -> bool:
    """Await the work and return True; if `stopped` is set first, cancel the work and return False.

    Raises the error of the work.
    """
    task, stop = asyncio.create_task(work), asyncio.create_task(stopped.wait())
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        await task
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return False


def _print_step(step: StepReport) -> None:
    print(f"  {step.at:6.1f}s  {step.took:6.1f}s  {step.who:<6} {step.what}", flush=True)


def _find_config(folder: Path) -> Path:
    """Return the Hub's configuration file: the repository's own in a checkout, else a copy in `folder`.

    The copy is made once, so that the user can edit it.
    """
    shipped = find_packaged_folder("hub_config") / _CONFIG
    if os.access(shipped, os.W_OK) and (shipped.parent.parent / "pyproject.toml").exists():
        return shipped
    copy = folder / _CONFIG
    if not copy.exists():
        shutil.copy(shipped, copy)
    return copy


def _install_stop_event() -> asyncio.Event:
    """Return an event that SIGINT, SIGTERM and SIGHUP set from now on instead of ending this process."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(name, stopped.set)
    return stopped
