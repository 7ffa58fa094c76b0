"""A failed test keeps the logs of the processes that it involved, and its report names their folder."""

import re
from pathlib import Path

import pytest

from tests.kept_logs import MOST_KEPT, KeepsLogs

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
CONFTEST = """
import pytest
from tests.kept_logs import LOGS, KeepsLogs

def pytest_configure(config):
    config.pluginmanager.register(KeepsLogs(config.rootpath), "kept-logs")

@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    (folder / "hub.log").write_text("the hub is up")
    LOGS.add("hub", folder, "*.log")
    yield folder / "hub.log"
    LOGS.release("hub", folder)

@pytest.fixture
def server(tmp_path):
    (tmp_path / "servers").mkdir()
    LOGS.add("server", tmp_path, "servers/*/log")
    yield tmp_path / "servers"
    LOGS.release("server", tmp_path)
    for file in tmp_path.rglob("log"):
        file.unlink()
"""


@pytest.fixture
def tier(pytester, monkeypatch):
    """Run the tests of a tier that has the plugin; return the results of the run."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("JUPYTER_GQ_TEST_RESULTS", raising=False)
    folder = pytester.path / "tests/hub"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text(CONFTEST)

    def run(code, *options):
        (folder / "test_it.py").write_text(code)
        return pytester.runpytest("-p", "no:asyncio", *options, "tests/hub")

    return run


def kept(pytester, test):
    """Return the files that are kept for a test, with their content."""
    folder = pytester.path / "test-results/hub" / test
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_pipe_in_place_of_a_log_is_left_alone(pytester, tier):
    done = tier("""
import os

def test_bad(server):
    (server / "ann").mkdir()
    os.mkfifo(server / "ann/log")
    assert not "a reason"
""")
    done.assert_outcomes(failed=1)
    assert kept(pytester, "test_it.test_bad").keys() == {"report-call.txt"}


def test_failure_keeps_logs_of_all_its_processes_and_names_their_folder(pytester, tier):
    done = tier("""
def test_good(hub, server):
    (server / "ann").mkdir()

def test_bad(hub, server):
    (server / "bob").mkdir()
    (server / "bob/log").write_text("bob's server is up")
    print("said by the test")
    assert not "a reason"
""")
    files = kept(pytester, "test_it.test_bad")
    report = files.pop("report-call.txt")
    assert files == {"hub/hub.log": "the hub is up", "server/servers/bob/log": "bob's server is up"}
    assert "a reason" in report
    assert "said by the test" in report
    done.stdout.fnmatch_lines(["*Logs of this test*", f"in {pytester.path}/test-results/hub/test_it.test_bad:"])
    assert not kept(pytester, "test_it.test_good")


@pytest.mark.parametrize("phase", ["setup", "teardown"])
def test_failure_before_or_after_a_test_keeps_logs_too(pytester, tier, phase):
    fails = ["yield", "assert False"] if phase == "teardown" else ["assert False", "yield"]
    tier(f"""
import pytest

@pytest.fixture
def broken(server):
    (server / "bob").mkdir()
    (server / "bob/log").write_text("bob's server is up")
    {fails[0]}
    {fails[1]}

def test_it(broken):
    pass
""")
    files = kept(pytester, "test_it.test_it")
    assert files["server/servers/bob/log"] == "bob's server is up"
    assert "assert False" in files[f"report-{phase}.txt"]


def test_process_that_ended_during_the_test_is_kept_and_one_of_an_earlier_test_is_not(pytester, tier):
    tier("""
from tests.kept_logs import LOGS

def run_to_its_end(folder, name):
    LOGS.add(name, folder, "log")
    (folder / "log").write_text("the end of " + name)
    LOGS.release(name, folder)
    (folder / "log").unlink()

def test_early(tmp_path):
    run_to_its_end(tmp_path, "early")

def test_late(tmp_path):
    run_to_its_end(tmp_path, "late")
    assert False
""")
    files = kept(pytester, "test_it.test_late")
    assert files.pop("report-call.txt")
    assert files == {"late/log": "the end of late"}


def test_two_processes_of_one_name_have_a_folder_each_and_a_restart_keeps_it(pytester, tier):
    tier("""
from tests.kept_logs import LOGS

def test_it(hub, tmp_path):
    (tmp_path / "hub.log").write_text("the second hub")
    LOGS.add("hub", tmp_path, "*.log")
    LOGS.release("hub", tmp_path)
    LOGS.add("hub", tmp_path, "*.log")
    (tmp_path / "hub.log").write_text("the second hub, again")
    assert False
""")
    files = kept(pytester, "test_it.test_it")
    assert (files["hub/hub.log"], files["hub-2/hub.log"]) == ("the hub is up", "the second hub, again")


def test_next_run_of_a_test_removes_what_the_last_one_left(pytester, tier):
    code = "def test_it(hub): assert False"
    tier(code)
    assert kept(pytester, "test_it.test_it")
    tier(code.replace("False", "True"))
    assert not kept(pytester, "test_it.test_it")


def test_workers_keep_logs_side_by_side_where_the_environment_says(pytester, tier, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_GQ_TEST_RESULTS", str(tmp_path / "elsewhere"))
    done = tier(
        """
import pytest

@pytest.mark.parametrize("name", ["ann", "a/b"])
def test_it(hub, name):
    assert False
""",
        "-n",
        "2",
    )
    named = re.findall(r"^in (/.*):$", done.stdout.str(), re.MULTILINE)
    assert len(set(named)) == 2
    assert all(Path(folder, "hub/hub.log").read_text() == "the hub is up" for folder in named)
    assert {Path(folder).parent for folder in named} == {tmp_path / "elsewhere/hub"}
    assert not Path(pytester.path / "test-results").exists()


def test_of_a_long_log_the_end_is_kept(pytester, tier):
    tier("""
def test_it(hub):
    hub.write_text("early " * 400_000 + "late")
    assert False
""")
    log = kept(pytester, "test_it.test_it")["hub/hub.log"]
    assert len(log) == MOST_KEPT
    assert log.endswith("early late")


def test_folders_of_different_tests_differ(tmp_path):
    plugin = KeepsLogs(tmp_path)
    tests = ["tests/hub/test_a.py::test_it[a/b]", "tests/hub/test_a.py::test_it[a:b]", "tests/test_a.py::test_it[a/b]"]
    tests += ["tests/hub/test_a.py::test_" + "x" * 200, "tests/hub/test_a.py::test_" + "x" * 201]
    folders = [plugin.folder(test) for test in tests]
    assert len(set(folders)) == len(tests)
    assert all(len(folder.name) < 140 for folder in folders)
    assert plugin.folder("tests/hub/test_a.py::test_it[x-1]") == tmp_path / "test-results/hub/test_a.test_it[x-1]"
