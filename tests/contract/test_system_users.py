"""Jobs as operating-system users: whose the files and processes are, and what a user can make root do (nothing)."""

import json
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gq.backends.bundles import LogName
from jupyter_gq.backends.local.accounts import UnixAccounts
from jupyter_gq.backends.local.environment import KEPT_VARIABLES
from jupyter_gq.backends.local.files import read_owned_json
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.errors import BackendError, UnusableFile
from tests.kubernetes.waiting import eventually

from .test_with_runner import bundle
from .worlds import STANDIN, LocalWorld, runs

pytestmark = pytest.mark.asyncio

#: The interpreter of the tests may lie where only root can go.
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")


@pytest.fixture(scope="module")
def users():
    """Two system users, made for this module."""
    if os.geteuid() != 0:
        pytest.skip("making system users needs root")
    if shutil.which("useradd") is None or PYTHON is None:
        pytest.skip("needs the command useradd and a Python in /usr/bin that every user may start")
    names = [f"gqtest{secrets.token_hex(3)}" for _ in range(2)]
    for name in names:
        made = subprocess.run(["useradd", "--create-home", name], capture_output=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"useradd failed: {made.stderr.decode().strip()}")
    yield names
    for name in names:
        subprocess.run(["userdel", "--remove", name], capture_output=True, check=False)


@pytest.fixture
def system(users):
    """A world whose jobs run as the first of them, in a folder that they can reach."""
    groups = os.getgroups()
    os.setgroups([0])  # as root has after a login; in a container it may have none
    folder = Path(tempfile.mkdtemp(prefix="gq-system-"))
    folder.chmod(0o711)
    standin = folder / "standin.py"
    standin.write_text(STANDIN.read_text())
    standin.chmod(0o644)
    world = LocalWorld(folder, owner=users[0], system_users=True, command=(PYTHON, "-P", str(standin)))
    yield world
    world.clean_up()
    shutil.rmtree(folder)
    os.setgroups(groups)


def as_user(name, *command):
    return subprocess.run(
        command, user=name, group=name, extra_groups=[], cwd="/", env={"PATH": os.environ["PATH"]}, capture_output=True
    )


async def test_a_job_runs_as_its_owner_and_only_the_owner_has_its_files(system, users):
    workload = system.workload()
    system.prepare(workload, {"has kernel": True}, {"cwd": "/root", "environment": {"HOME": "/root"}})
    await system.launch(workload)
    seen = await system.running(workload)
    entry = pwd.getpwnam(users[0])
    for pid in seen.pids:
        status = Path(f"/proc/{pid}/status").read_text()  # noqa: ASYNC240
        assert f"Uid:\t{entry.pw_uid}\t{entry.pw_uid}\t{entry.pw_uid}\t{entry.pw_uid}\n" in status
        assert f"Gid:\t{entry.pw_gid}\t" in status
        groups = next(line for line in status.splitlines() if line.startswith("Groups:")).split()[1:]
        assert [int(group) for group in groups] == os.getgrouplist(users[0], entry.pw_gid)
    environment = json.loads((system.task(workload) / "environment").read_text())
    assert (environment["HOME"], environment["USER"], environment["LOGNAME"]) == (
        entry.pw_dir,
        users[0],
        users[0],
    )
    assert (system.task(workload) / "cwd").read_text() == entry.pw_dir, (
        "the user may not enter the folder that the job names"
    )
    for path in [system.job(workload), *system.job(workload).rglob("*")]:
        assert path.lstat().st_uid == entry.pw_uid or path.name == "plan", path
    for path in ("bundle.json", "runs/1/0/token", "runs/1/0/log"):
        assert stat.S_IMODE((system.job(workload) / path).stat().st_mode) == 0o600, path
        assert as_user(users[0], "cat", str(system.job(workload) / path)).returncode == 0
        assert b"denied" in as_user(users[1], "cat", str(system.job(workload) / path)).stderr
    for folder in (system.job(workload).parent, system.folder / "state/runs"):
        assert b"denied" in as_user(users[0], "ls", str(folder)).stderr, "nobody sees what others run"
    assert os.geteuid() == 0
    assert system.bundles.log(workload.id, users[0], 100, run=1, tasks=range(1)) == "standin is here\n"


async def test_there_is_a_clear_answer_for_whom_this_machine_does_not_know(system):
    for owner, answer in (("nobody-of-that-name", "There is no system user"), ("root", "do not run as root")):
        with pytest.raises(BackendError, match=answer):
            system.bundles.write("job-x", owner, {}, 1000)
        assert not (system.folder / "state/jobs/job-x").exists()


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
async def test_what_a_user_plants_in_the_place_of_a_file_is_not_read(system, users, kind):
    workload = system.workload()
    await system.launch(workload, {"says": "SUCCEEDED"})
    await system.end(workload)
    secret = system.folder / "secret"
    secret.write_text(json.dumps({"outcome": "FAILED", "sentence": "root's secret"}))
    secret.chmod(0o644 if kind == "hard link" else 0o600)
    entry = pwd.getpwnam(users[0])
    for place in (system.job(workload) / "output.ipynb", system.task(workload) / "log"):
        place.unlink(missing_ok=True)
        if kind == "link":
            place.symlink_to(secret)
        elif kind == "hard link":
            place.hardlink_to(secret)
        elif kind == "pipe":
            os.mkfifo(place)
            os.chown(place, entry.pw_uid, entry.pw_gid)
        else:
            place.mkdir()
            os.chown(place, entry.pw_uid, entry.pw_gid)
    with pytest.raises(UnusableFile):
        system.bundles.executed_notebook(workload.id, users[0])
    with pytest.raises(UnusableFile):
        system.bundles.log(workload.id, users[0], 1000, run=1, tasks=range(1))
    log = LogName(job=workload.id, owner=users[0], run=1, task=0)
    for read in (lambda: system.bundles.log_part(log, 0, 1000), lambda: system.bundles.cut_log(log, 0)):
        with pytest.raises(UnusableFile):
            read()
    assert b"root's secret" in secret.read_bytes()


async def test_a_link_in_the_way_leads_a_launch_nowhere(system, users):
    precious = system.folder / "precious"
    precious.mkdir()
    precious.chmod(0o770)  # open to root's groups, which are not the user's
    for name in ("token", "result.json", "log"):
        (precious / name).write_text("root's")
    workload = system.workload()
    system.prepare(workload)
    runs_folder = system.job(workload) / "runs"
    runs_folder.mkdir()
    (runs_folder / "1").mkdir()
    (runs_folder / "1/0").symlink_to(precious)
    for path in (runs_folder, runs_folder / "1"):
        shutil.chown(path, users[0], users[0])
    with pytest.raises(BackendError, match="could not be started"):
        await system.request(workload)
    assert {file.name: file.read_text() for file in precious.iterdir()} == dict.fromkeys(
        ("token", "result.json", "log"), "root's"
    )
    assert os.geteuid() == 0


async def test_a_mark_copied_by_another_user_holds_nothing_and_is_left_alone(system, users):
    workload = system.workload()
    await system.launch(workload)
    mark = {"JUPYTER_GQ_RUN": f"{workload.id}/1/0", "PATH": os.environ["PATH"]}
    stranger = subprocess.Popen(["sleep", "60"], user=users[1], group=users[1], extra_groups=[], env=mark)  # noqa: ASYNC220
    try:
        assert stranger.pid not in (await system.running(workload)).pids
        await system.backend.stop(workload.id, 1, 0)
        system.clock.ahead += 1
        await system.end(workload)
        assert runs(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_user_cannot_name_the_process_that_is_ended(system, users):
    workload = system.workload()
    await system.launch(workload)
    forged = json.dumps({"pid": os.getpid(), "started": 0})
    done = as_user(users[0], "sh", "-c", f"echo '{forged}' > {system.task(workload)}/pid.json")
    assert done.returncode == 0
    await system.backend.stop(workload.id, 1, 60)
    await system.end(workload)
    assert (await system.observed(workload)).phase is Phase.ENDED


async def test_deleting_a_job_leaves_nothing_and_follows_no_link(system, users):
    workload = system.workload()
    await system.launch(workload, {"says": "SUCCEEDED"})
    await eventually(lambda: not runs(system.leader(workload)), "its end")
    kept = system.folder / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    (system.job(workload) / "checkpoint/link").symlink_to(kept)
    system.bundles.delete(workload.id, users[0])
    assert not system.job(workload).exists()
    assert (kept / "file").exists()


async def test_files_are_deleted_while_a_file_of_a_user_is_read(system, users):
    """The rights of one thread never become those of another one."""
    bundles, done, failed = system.bundles, threading.Event(), []
    jobs = [f"job-{number}" for number in range(40)]
    for job in (*jobs, "read"):
        bundles.write(job, users[0], {"x": ["y" * 1000] * 100}, 10**6)

    def delete():
        for job in jobs:
            try:
                bundles.delete(job, users[0])
            except OSError as error:
                failed.append(error)
        done.set()

    deleting = threading.Thread(target=delete)
    deleting.start()
    account = UnixAccounts(system_users=True).look_up(users[0])
    while not done.is_set():
        assert read_owned_json(system.folder / "state/jobs/read/bundle.json", account, limit=10**6)
    deleting.join()
    assert failed == []


async def test_a_state_folder_that_users_cannot_reach_is_named(system, users):
    system.folder.chmod(0o700)
    with pytest.raises(BackendError, match=f"{users[0]} cannot reach {system.folder}/state/jobs"):
        system.bundles.write("job-x", users[0], {}, 1000)
    assert list((system.folder / "state/jobs").iterdir()) == []


@pytest.fixture
def real(system, users, monkeypatch):
    """A world in the same folder whose jobs have the real runner."""
    packages = ":".join(path for path in sys.path if path.endswith("site-packages"))
    packages += f":{Path(__file__).parents[2]}"
    wanted = f"import sys; sys.path += {packages.split(':')!r}; import nbclient, ipykernel, jupyter_gq.runner"
    if as_user(users[0], PYTHON, "-c", wanted).returncode != 0:
        pytest.skip("the packages of the tests lie where only their owner can go")
    monkeypatch.setenv("PYTHONPATH", packages)
    command = (PYTHON, "-P", "-m", "jupyter_gq.runner")
    return LocalWorld(
        system.folder, users[0], "", system_users=True, command=command, env_keep=(*KEPT_VARIABLES, "PYTHONPATH")
    )


async def run_to_its_end(real, owner, source, **detail):
    """Run a job of that user to its end; return it, how it ended, and its log."""
    workload = replace(real.workload(), owner=owner)
    sent = bundle(pwd.getpwnam(owner).pw_dir, source)
    sent["manifest"]["kernel"]["argv"][0] = PYTHON
    real.bundles.write(workload.id, owner, sent, 10**6)
    await real.request(workload, **detail)
    end = await real.end(workload)
    await real.backend.forget(workload.id, 1)
    return workload, end, real.bundles.log(workload.id, owner, 5000, run=1, tasks=range(1))


async def test_a_job_continues_from_checkpoints_of_its_owner_and_the_system_keeps_those_of_others(real, users):
    source = "import jupyter_gq\nat = jupyter_gq.checkpoint_dir() / 'epoch'\n"
    first, end, log = await run_to_its_end(real, users[0], source + "at.write_text('17')")
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    assert real.bundles.has_checkpoints(first.id, users[0]) is True
    second, end, log = await run_to_its_end(
        real, users[0], source + "assert at.read_text() == '17'", continue_from=first.id
    )
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    original, copy = ((real.job(job) / "checkpoint/epoch").stat() for job in (first, second))
    assert (copy.st_uid, copy.st_mode) == (pwd.getpwnam(users[0]).pw_uid, original.st_mode)
    # The service never lets such a job through; if it did, the copy would have the rights of the wrong user.
    third, end, _ = await run_to_its_end(real, users[1], source, continue_from=first.id)
    assert end.outcome is Outcome.FAILED
    assert "could not be copied (" in end.sentence
    assert "Permission denied" in end.sentence
    assert list((real.job(third) / "checkpoint").iterdir()) == []


async def test_the_real_runner_and_its_kernel_run_as_the_owner(real, users):
    source = "import os\nopen('made', 'w').close()\nprint(os.getuid(), os.getcwd())"
    workload, end, log = await run_to_its_end(real, users[0], source)
    assert end.outcome is Outcome.SUCCEEDED, (end, log)
    entry = pwd.getpwnam(users[0])
    notebook = real.bundles.executed_notebook(workload.id, users[0])
    assert notebook["cells"][0]["outputs"][0]["text"] == f"{entry.pw_uid} {entry.pw_dir}\n"
    made = Path(entry.pw_dir, "made").stat()  # noqa: ASYNC240
    assert made.st_uid == entry.pw_uid
    assert b"denied" in as_user(users[1], "cat", str(real.job(workload) / "output.ipynb")).stderr
