"""Files of the log: what is wrong with one is told before the service starts, and nothing is opened for that."""

import logging
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from jupyter_gq.app import _run_application
from jupyter_gq.controller.settings import reading
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.service import SchedulerService
from jupyter_gq.service_log import _find_obstacle
from tests.patience import scaled
from tests.unit.test_check_config import as_nobody, check
from tests.unit.test_service_log_settings import _kept_handlers
from tests.unit.test_service_start import GOOD, loaded, look, place, started

__all__ = ["_kept_handlers", "as_nobody", "check", "place"]


class MakesItsFolder(logging.FileHandler):
    """A handler of an administrator, which makes the folder of its file."""

    def __init__(self, filename):
        os.makedirs(os.path.dirname(filename), exist_ok=True)
        super().__init__(filename, delay=True)


class Waits(logging.NullHandler):
    """A handler that connects to a machine which does not answer, until `answers` is set."""

    answers = threading.Event()

    def __init__(self):
        self.answers.wait()
        super().__init__()


class WaitsWithItsLock(Waits):
    """The same, with the lock that each line of it takes."""

    def __init__(self):
        logging.NullHandler.__init__(self)
        self.lock = threading.RLock()
        with self.lock:
            self.answers.wait()

    def createLock(self):
        self.lock = threading.RLock()


def interrupt():
    raise KeyboardInterrupt


def press_ctrl_c():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # the kernel gives it to the main thread too
    Waits.answers.wait()


def fail():
    raise OSError("nobody answers")


def configured(path, **more):
    """Return a service with the path as the file of a handler `file`."""
    entry = {"class": "logging.FileHandler", "filename": path, **more}
    return SchedulerService(logging_config={"handlers": {"file": entry}, "root": {"handlers": ["file"]}})


@pytest.fixture
def places(tmp_path):
    """A folder with things that cannot be the file of a log, and the file of one."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to(tmp_path / "none" / "gq.log")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gq.log").write_text("old lines")
    return tmp_path


FAULTS = [
    ("none/gq.log", "the folder {0}/none of the file {0}/none/gq.log does not exist", "make that folder, or name anot"),
    ("folder", "{0}/folder is a folder", "name a file in it"),
    ("socket", "{0}/socket is a socket", "name another file"),
    ("link", "the folder {0}/none of the file {0}/link does not exist", "make that folder"),
    ("loop", "the file '{0}/loop' cannot be there (Too many levels of symbolic links)", "name another file"),
    ("gq.log/gq.log", "cannot be there (Not a directory)", "name another file"),
    ("a\0b", "cannot be there (embedded null byte)", "name another file"),
    ("x" * 300, "cannot be there (File name too long)", "name another file"),
]


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize(("name", "problem", "fix"), FAULTS)
def test_a_file_that_cannot_be_written_is_told_and_left_out_by_the_start(places, name, problem, fix, delay):
    before = sorted(places.iterdir())
    service = configured(f"{places}/{name}", delay=delay)
    [told] = service.describe_log_faults()
    assert told.startswith("c.SchedulerService.logging_config['handlers']['file']: ")
    assert problem.format(places) in told
    assert fix in told
    fault, lacks_folder = service.configure_log(), "does not exist" in problem
    if lacks_folder and delay:  # the folder may come before the file is opened
        assert fault == ""
        return
    assert "logging_config are not in force" in fault
    assert (f"{places}/" if lacks_folder else problem.format(places)) in fault
    assert "file" not in service.logging_config["handlers"]
    assert sorted(places.iterdir()) == before


def test_a_pipe_is_told_and_does_not_hold_up_the_start(places):
    service, ended = configured(f"{places}/pipe"), []
    [told] = service.describe_log_faults()
    assert f"{places}/pipe is a pipe, and to open it takes a program that reads from it" in told
    thread = threading.Thread(target=lambda: ended.append(service.configure_log()), daemon=True)
    thread.start()
    thread.join(scaled(30))
    assert ended, "the start waits for a program that reads"
    assert "pipe is a pipe" in ended[0]


@pytest.mark.parametrize("mode", ["a", "w"])
def test_a_look_at_a_good_file_changes_nothing(places, mode):
    for name in ("gq.log", "new.log"):
        assert configured(f"{places}/{name}", mode=mode).describe_log_faults() == []
    assert (places / "gq.log").read_text() == "old lines"
    assert not (places / "new.log").exists()


def test_a_file_that_this_account_may_not_write_is_told(tmp_path, as_nobody):
    [told] = configured("/etc/passwd").describe_log_faults()
    assert f"the account {os.geteuid()}, which runs this check, may not write /etc/passwd. " in told
    assert "give the account of the Hub that right, or name another file" in told
    [told] = configured("/etc/gq-new.log").describe_log_faults()
    assert "may not write in /etc, the folder of the file /etc/gq-new.log" in told


def test_the_standard_streams_may_be_pipes_without_a_name():
    ends = os.pipe()
    with os.fdopen(ends[0]), os.fdopen(ends[1], "w"):
        assert _find_obstacle(Path(f"/proc/self/fd/{ends[1]}")) is None


@pytest.mark.parametrize("key", ["class", "()"])
def test_a_handler_that_makes_its_folder_is_not_judged(tmp_path, key):
    made = {key: f"{__name__}.MakesItsFolder", "filename": f"{tmp_path}/none/gq.log"}
    service = SchedulerService(logging_config={"handlers": {"file": made}})
    assert service.describe_log_faults() == []
    assert service.configure_log() == ""
    assert (tmp_path / "none").is_dir()


def test_check_config_tells_of_the_file_and_makes_none(check, tmp_path):
    entry = {"class": "logging.handlers.RotatingFileHandler", "filename": f"{tmp_path}/none/gq.log"}
    code, told = check(
        f"{GOOD}c.SchedulerService.logging_config = {{'handlers': {{'file': {entry}}}}}\n", compare=False
    )
    assert code == 0, "the service starts, and its machine may be another one"
    doubts = told.partition("Probably not meant:\n")[2]
    assert f"logging_config['handlers']['file']: the folder {tmp_path}/none of the file" in doubts
    assert "The service could not write its log so" in doubts
    assert not (tmp_path / "none").exists()


@pytest.fixture
def no_answer():
    """Machines do not answer during the test."""
    Waits.answers.clear()
    yield
    Waits.answers.set()


def test_ctrl_c_while_the_log_is_set_up_is_no_fault_of_the_log(no_answer):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in the background ignore it
    for part in ("handlers", "formatters"):
        service = SchedulerService(logging_config={part: {"x": {"()": f"{__name__}.press_ctrl_c"}}})
        with pytest.raises(KeyboardInterrupt):
            service.configure_log()


@pytest.mark.parametrize("kind", [Waits, WaitsWithItsLock])
def test_a_handler_that_waits_for_another_machine_does_not_hold_up_the_start(no_answer, monkeypatch, capsys, kind):
    far = {"class": f"{__name__}.{kind.__name__}"}
    service = SchedulerService(logging_config={"handlers": {"far": far}, "root": {"handlers": ["far"]}})
    with monkeypatch.context() as short:
        short.setattr(reading, "READ_TIMEOUT", 0.2)
        told = service.configure_log()
    assert "logging_config['handlers']['far'] = '…': it is not ready after 0.2 s" in told
    assert "let a collector send it). Mend that, and start the service again." in told
    logging.getLogger("jupyter_gq").error("the service works")
    assert "the service works" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["handlers", "formatters"])
def test_code_of_an_administrator_does_not_interrupt_the_start(part):
    told = SchedulerService(logging_config={part: {"x": {"()": f"{__name__}.interrupt"}}}).configure_log()
    assert "KeyboardInterrupt" in told


@pytest.mark.parametrize("part", ["filters", "formatters"])
def test_a_part_of_the_log_that_waits_holds_up_the_start_no_longer_than_a_file(no_answer, place, monkeypatch, part):
    place.write_text(f"{GOOD}c.SchedulerService.logging_config = {{'{part}': {{'x': {{'()': '{__name__}.Waits'}}}}}}\n")
    with monkeypatch.context() as short:
        short.setattr(reading, "READ_TIMEOUT", 0.5)
        service = started(place)
        assert service.logging_config == {}, "the last good settings are in force"
        waits = SchedulerService(logging_config={part: {"x": {"()": f"{__name__}.Waits"}}})
        assert "logging_config = '…': it is not ready after 0.5 s" in waits.configure_log()


class InterruptedApplication:
    """A program whose user presses Ctrl+C while it starts."""

    extra_args = ()

    def initialize(self, argv):
        """Read nothing."""

    start = staticmethod(interrupt)


def test_ctrl_c_while_a_program_starts_gives_the_exit_code_of_shells(capsys):
    assert _run_application("service", InterruptedApplication(), []) == 130
    assert capsys.readouterr().err == ""


def test_code_of_an_administrator_does_not_interrupt_a_running_service(place):
    policy = loaded(place)
    factory = {"()": f"{__name__}.interrupt"}
    place.write_text(f"{GOOD}c.SchedulerService.logging_config = {{'formatters': {{'x': {factory}}}}}\n")
    look(policy)
    assert "logging_config['formatters']['x'] = '…': no log can have it (KeyboardInterrupt" in policy.error


def test_the_start_names_the_handler_that_failed():
    service = SchedulerService(logging_config={"handlers": {"far": {"()": f"{__name__}.fail"}}})
    assert "(Unable to configure handler 'far': OSError: nobody answers)" in service.configure_log()


def test_a_service_whose_log_is_no_configuration_is_refused_first(tmp_path):
    with pytest.raises(SettingsError, match="KeyError: 'filename'"):
        SchedulerService(logging_config={"handlers": {"x": {"class": "logging.FileHandler"}}}).check_start()
