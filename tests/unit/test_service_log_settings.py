"""Settings of the log and of the places of a service, as its start and a look at the file meet them."""

import logging

import pytest

from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.service import SchedulerService
from jupyter_gq.start_sections import find_start_sections
from tests.fakes import a_node
from tests.unit.test_service_start import GOOD, loaded, look, place, started

__all__ = ["place"]

FAULTS = [
    ("log_format = '%(nope'", "c.SchedulerService.log_format = '%(nope': no log can have it"),
    ("log_format = '%(nope)s'", "log_format = '%(nope)s': no log can have it (ValueError: Formatting field not found"),
    (
        "log_format = '%(nope)s'\nc.SchedulerService.logging_config = {'loggers': {'a': {'level': 'INFO'}}}",
        "c.SchedulerService.log_format = '%(nope)s': no log can have it",
    ),
    ("log_format = '%(message)1000000000000s'", "(ValueError: a width of more than 9999 characters)"),
    (
        "logging_config = {'formatters': {'console': {'format': '{message:>99999}', 'style': '{'}}}",
        "a width of more than 9999 characters",
    ),
    ("log_format = '%(created).1000000000000f'", "a width of more than 9999 characters"),
    (
        "logging_config = {'formatters': {'console': {'format': '{message:.>99999}', 'style': '{'}}}",
        "a width of more than 9999 characters",
    ),
    (
        "logging_config = {'handlers': {'console': {'class': 'logging.handlers.MemoryHandler', 'capacity': 1, "
        "'target': 'ext://no.target'}}}",
        "logging_config['handlers']['console'] = '…': no log can have it (ValueError: Cannot resolve",
    ),
    ("logging_config = {'formatters': {'console': {'format': '%(nope)s'}}}", "logging_config['formatters']['console']"),
    (
        "logging_config = {'formatters': {'console': {'()': 'logging.Formatter', 'fmt': '%(nope)s'}}}",
        "Formatting field not found in record: 'nope'",
    ),
    (
        "logging_config = {'formatters': {'x': {'format': '%(nope)s'}}, 'handlers': {'x': {'class': "
        "'logging.StreamHandler', 'formatter': 'x'}, 'console': {'class': 'logging.handlers.MemoryHandler', "
        "'capacity': 1, 'target': 'x'}}}",
        "logging_config['formatters']['x']",
    ),
    (
        "logging_config = {'filters': {'x': {'()': 'logging.Filter', 'name': 'jupyter_gq'}}, 'handlers': {'console': "
        "{'filters': ['x']}}, 'formatters': {'console': {'format': '%(nope)s'}}}",
        "Formatting field not found in record: 'nope'",
    ),
    (
        "logging_config = {'formatters': {'x': {'()': 'sys.exit'}}}",
        "formatters']['x'] = '…': no log can have it (System",
    ),
    ("logging_config = {'filters': {'x': {'()': 'os._exit', 'status': 3}}}", "logging_config['filters']['x'] = '…'"),
    ("logging_config = {5: 1}", "(TypeError: its key 5 is not text)"),
    ("logging_config = {'handlers': {5: {'class': 'logging.NullHandler'}}}", "(TypeError: its key 5 is not text)"),
    ("logging_config = {'handlers': {'x': {'class': 5}}}", "(TypeError: its class is no name of a class)"),
    ("logging_config = {'handlers': {'x': {'class': 'os.getcwd'}}}", "(TypeError: its class is no class of handlers)"),
    ("logging_config = {'version': 2}", "logging_config['version'] = '…': no log can have it (ValueError: the only"),
    ("logging_config = {'incremental': True}", "logging_config['incremental'] = '…': no log can have it"),
    (
        "logging_config = {'handlers': ['file']}",
        "logging_config['handlers'] = '…': no log can have it (TypeError: it is",
    ),
    ("logging_config = {'handlers': {'console': 'x'}}", "logging_config['handlers']['console'] = '…'"),
    (
        "logging_config = {'root': 'x'}",
        "logging_config['root'] = '…': no log can have it (TypeError: it is not a dict)",
    ),
    ("log_datefmt = '\\ud800'", "c.SchedulerService.log_datefmt = '\\ud800': no log can have it"),
    ("logging_config = {'handlers': {'x': {'class': 'no.Such'}}}", "logging_config['handlers']['x'] = '…': no log"),
    ("logging_config = {'handlers': {'x': {}}}", "(KeyError: 'class')"),
    (
        "logging_config = {'handlers': {'x': {'class': 'logging.StreamHandler', 'stream': 'ext://sys.nope'}}}",
        "logging_config['handlers']['x'] = '…': no log can have it (ValueError: Cannot resolve 'sys.nope'",
    ),
    ("logging_config = {'handlers': {'x': {'class': 'logging.FileHandler'}}}", "(KeyError: 'filename')"),
    (
        "logging_config = {'handlers': {'x': {'class': 'logging.handlers.MemoryHandler', 'capacity': 1, "
        "'target': 'y'}}}",
        "there is no 'y' among its handlers",
    ),
    (
        "logging_config = {'handlers': {'x': {'class': 'logging.FileHandler', 'filename': 3}}}",
        "(TypeError: expected str, bytes or os.PathLike object, not int)",
    ),
    (
        "logging_config = {'handlers': {'x': {'class': 'logging.FileHandler', 'filename': 'x', 'encoding': 'uft'}}}",
        "(LookupError: unknown encoding: uft)",
    ),
    ("logging_config = {'loggers': {'a': {'handlers': ['x']}}}", "there is no 'x' among its handlers"),
    ("logging_config = {'loggers': {'a': {'level': 'LOUD'}}}", "(ValueError: Unknown level: 'LOUD')"),
    (
        "logging_config = {'root': {'handlers': ['x']}}",
        "logging_config['root'] = '…': no log can have it (ValueError: ",
    ),
    ("logging_config = {'formatters': {'x': {'style': '?'}}}", "logging_config['formatters']['x']"),
    ("logging_config = {'handlers': ['file'], 'formatters': {'x': 1}}", "logging_config['formatters']['x']"),
    ("show_config = True", "c.SchedulerService.show_config = '…': there is no such trait"),
    ("show_config_json = True", "c.SchedulerService.show_config_json = '…': there is no such trait"),
    ("socket_dir = '/run/' + 'x' * 200", "has 213 bytes, and Linux allows 107"),
]
#: Arguments of handlers that cannot be used: the class in `logging`, the arguments, and what is said.
HANDLER_FAULTS = [
    (
        "handlers.TimedRotatingFileHandler",
        "'filename': 'x', 'interval': 0",
        "(ValueError: its file would change more often than once in a second)",
    ),
    (
        "handlers.TimedRotatingFileHandler",
        "'filename': 'x', 'interval': 1e-9",
        "(ValueError: its file would change more often than once in a second)",
    ),
    (
        "handlers.TimedRotatingFileHandler",
        "'filename': 'x', 'when': 'Q'",
        "(ValueError: Invalid rollover interval specified: Q)",
    ),
    (
        "handlers.RotatingFileHandler",
        "'filename': 'x', 'backupCount': 2.5",
        "(TypeError: 'float' object cannot be interpreted as an integer)",
    ),
    (
        "handlers.RotatingFileHandler",
        "'filename': 'x', 'backupCount': 10**9",
        "(ValueError: it keeps more than 100000 files)",
    ),
    ("FileHandler", "'filename': 'x', 'mode': 'r'", "(UnsupportedOperation: not writable)"),
    ("FileHandler", "'filename': 'x', 'errors': 'zz'", "(LookupError: unknown error handler name 'zz')"),
    ("StreamHandler", "'stream': 5", "(TypeError: its stream is no open file)"),
    ("StreamHandler", "'nope': 5", "(TypeError: got an unexpected keyword argument 'nope')"),
    ("StreamHandler", "'level': []", "(TypeError: Level not an integer or a valid string: [])"),
    ("StreamHandler", "'filters': [5]", "there is no 5 among its filters"),
    (
        "handlers.MemoryHandler",
        "'capacity': 'x'",
        "(TypeError: '>=' not supported between instances of 'int' and 'str')",
    ),
]
FAULTS += [
    (f"logging_config = {{'handlers': {{'x': {{'class': 'logging.{name}', {given}}}}}}}", told)
    for name, given, told in HANDLER_FAULTS
]
PLACES = [
    (
        "socket_dir = '/dev/null/gq'",
        "socket_dir = '/dev/null/gq': the folder of the socket cannot be there (/dev/null is",
    ),
    ("socket_dir = __file__", "the folder of the socket cannot be there"),
    ("socket_dir = '/dev/null'", "the folder of the socket cannot be there (/dev/null is not a folder)"),
    ("socket_dir = '/run/g\\0q'", "the folder of the socket cannot be there (embedded null byte)"),
    ("socket_dir = '/tmp'", "/tmp/gq.sock: other accounts can write in its folder"),
    ("database_url = 'sqlite:///\\0'", "The URL of the database cannot be read"),
    ("database_url = 'postgresql://gq:a%00b@host/gq'", "The URL of the database cannot be read"),
    ("state_dir = 'a\\0b'", "the state folder cannot be there (embedded null byte)"),
    ("state_dir = '/' + 'x' * 300", "the state folder cannot be there"),
    ("database_url = 'mysql://gq:hidden-word@host/gq'", "There is no store on 'mysql'"),
    ("database_url = 'postgresql://gq:hidden-word'", "The URL of the database cannot be read"),
    ("state_dir = __file__", "the state folder cannot be there"),
    ("state_dir = 'a\\ud800b'", "the state folder cannot be there (no path has these characters)"),
    ("state_dir = '~nobodyxyz/gq'", 'the state folder cannot be there ("~" does not stand for a home folder here)'),
    ("socket_dir = '/run/\\ud800'", "of the service's Unix socket has characters that no path has. Write the folder"),
    ("socket_dir = '/proc/self/fd'", "/proc/self/fd/gq.sock: no program can make a file there"),
    ("database_url = 'sqlite:////' + 'a/' * 16000 + 'x'", "is too long for any system. Name a file in the URL"),
    ("database_url = 'postgresql://gq@host/gq?sslmode=nope'", 'invalid sslmode value: "nope". Leave it out.'),
    ("database_url = 'postgresql://gq@host/gq?target_session_attrs=x'", "invalid target_session_attrs value"),
    ("database_url = 'postgresql://gq@host/gq?connect_timeout=x'", "connect_timeout='x' is no whole number"),
    ("database_url = 'sqlite:////dev/null/x'", "The database /dev/null/x is in /dev/null, which is no folder. Name a"),
    ("socket_dir = '~nobodyxyz'", 'the folder of the socket cannot be there ("~" does not stand for a home folder'),
    ("socket_dir = '/proc'", "/proc/gq.sock: no program can make a file there"),
    ("database_url = 'sqlite:///~nobodyxyz/x'", 'The database ~nobodyxyz/x cannot be there: "~" does not stand for'),
    ("database_url = 'sqlite:///x?timeout=long'", "An option in the URL of the database cannot be used: could not con"),
    ("database_url = 'sqlite:///x?check_same_thread=maybe'", "String is not true/false: 'maybe'. Leave it out."),
    (
        "database_url = 'sqlite:///x?cached_statements=99999999999'",
        "Python int too large to convert to C int. Leave it",
    ),
    (
        "database_url = 'sqlite:///x?plugin=y'",
        "option in the URL of the database cannot be used: plugin would let SQLAl",
    ),
    ("database_url = 'sqlite://gq:hidden-word@host/x'", "A URL of SQLite names no host. Write sqlite:///file"),
    ("database_url = 'sqlite:////proc/self/fd/x'", "/fd. Name a file in the URL, such as sqlite:////srv/gq.sqlite."),
    ("database_url = 'postgresql://gq:hidden-word@host/gq?port=abc'", "The ports in the URL of the database cannot be"),
    (
        "database_url = 'postgresql://gq:hidden-word@host/gq?port=1&port=2'",
        "Write one number from 1 to 65535, as in po",
    ),
    (
        "database_url = 'postgresql://gq:hidden-word@host:99999/gq'",
        "The ports in the URL of the database cannot be used.",
    ),
    ("database_url = 'postgresql://gq:hidden-word@host/gq?plugin=foo'", "plugin would let SQLAlchemy load other code."),
    ("database_url = 'postgresql://gq@host/gq?password=hidden-word&password=b'", "'password' is there several times."),
    (
        "database_url = 'postgresql://gq:hidden-word@host..org/gq'",
        "The host in the URL of the database is no name of a",
    ),
    (
        "database_url = 'postgresql://gq:hidden-word@host/gq?colour=red'",
        "PostgreSQL has no option 'colour'. Leave it out",
    ),
    ("database_url = 'sqlite:///.'", "is no file. Name a file in the URL"),
    ("database_url = 'sqlite:////dev'", "The database /dev is no file. Name a file in the URL"),
    ("database_url = 'sqlite:///' + 'x' * 300", "cannot be opened: File name too long. Name a file in the URL"),
    ("database_url = 'sqlite:///gq.sqlite?a=%00b'", "The URL of the database cannot be read"),
    ("database_url = 'postgresql://host/gq?application_name=%00b'", "The URL of the database cannot be read"),
    ("database_url = 'sqlite:///a\\ud800'", "The URL of the database cannot be read"),
]
#: Lines that set what Python's logging takes, without the section of the first line.
GOOD_LOGS = [
    "log_format = '%(levelname)-8s %(message)s'",
    "log_format = '{message}'\nc.SchedulerService.logging_config = {'formatters': {'console': {'style': '{'}}}",
    "logging_config = {'formatters': {'x': {'format': 'ext://logging.BASIC_FORMAT'}}}",
    "log_style = 'json'\nc.SchedulerService.log_format = '%(nope)s'",
    "log_format = '%(site)s'\nc.SchedulerService.logging_config = {'filters': {'x': {'()': '"
    + __name__
    + ".AddsSite'}}, "
    "'handlers': {'console': {'filters': ['x']}}}",
    "logging_config = {'formatters': {'x': {'format': '%(client)s'}}, 'handlers': {'x': {'class': "
    "'logging.StreamHandler', 'formatter': 'x'}}, 'loggers': {'site.access': {'handlers': ['x']}}}",
    "logging_config = {'formatters': {'x': {'format': '%(status)d'}}, 'handlers': {'x': {'class': "
    "'logging.StreamHandler', 'formatter': 'x'}}, 'loggers': {'jupyter_gq.api.app': {'handlers': ['x']}}}",
    "logging_config = {'formatters': {'x': {'format': '%(site)s'}}, 'handlers': {'x': {'class': "
    "'logging.StreamHandler', 'formatter': 'x'}}, 'filters': {'x': {'()': '"
    + __name__
    + ".AddsSite'}}, 'loggers': {'SchedulerService': {'handlers': ['x'], 'filters': ['x']}}}",
    "log_format = '%(message).16000s'",
    "logging_config = {'formatters': {'console': {'format': '{message:.16000}', 'style': '{'}}}",
    "logging_config = {'handlers': {'console': {'class': 'logging.FileHandler', 'filename': '/dev/null'}}}",
    "logging_config = {'handlers': {'console': {'()': 'logging.StreamHandler'}}}",
    "logging_config = {'formatters': {'console': {'()': 'logging.Formatter', 'fmt': '%(message)s'}}}",
    "logging_config = {'version': 1, 'incremental': False}",
    "logging_config = {'handlers': {'x': {'class': 'logging.handlers.TimedRotatingFileHandler', 'filename': "
    "'/dev/null', 'when': 'midnight', 'backupCount': 7, 'delay': True}}}",
    "logging_config = {'handlers': {'a': {'class': 'logging.handlers.MemoryHandler', 'capacity': 1, 'target': 'b'}, "
    "'b': {'class': 'logging.StreamHandler'}}, 'root': {'handlers': ['a']}}",
    "logging_config = {'handlers': {'x': {'class': 'logging.handlers.SMTPHandler', 'mailhost': ['127.0.0.1', 25], "
    "'fromaddr': 'gq@example.org', 'toaddrs': ['ops@example.org'], 'subject': 'errors', 'level': 'CRITICAL'}}}",
    "logging_config = {'formatters': {'x': {'()': 'ext://logging.Formatter'}}}",
    "logging_config = {'formatters': {'x': {'format': 'cfg://own.form'}}, 'own': {'form': '%(message)s'}}",
    "logging_config = {'handlers': {'x': {'()': 'ext://logging.NullHandler', 'level': 'cfg://own'}}, 'own': 'INFO'}",
]


class AddsSite(logging.Filter):
    """A filter of an administrator, which adds a field to each record."""

    def filter(self, record):
        record.site = "Potsdam"
        return True


@pytest.fixture(autouse=True)
def _kept_handlers():
    """Give the loggers back the handlers that they had before the test."""
    before = {log: log.handlers[:] for log in (logging.root, logging.getLogger("SchedulerService"))}
    yield
    for log, handlers in before.items():
        log.handlers[:] = handlers


@pytest.mark.parametrize(("line", "told"), FAULTS + PLACES)
def test_a_running_service_refuses_what_keeps_the_next_one_from_starting(place, line, told):
    policy = loaded(place)
    place.write_text(f"{GOOD}c.SchedulerService.{line}\n")
    look(policy)
    assert told in policy.error
    assert "hidden-word" not in policy.error
    assert policy.last_good.sections["TrainingQueues"], "the settings before it stay in force"


@pytest.mark.parametrize(("line", "told"), FAULTS)
def test_a_service_starts_with_the_last_good_settings_instead(place, line, told):
    place.write_text(f"{GOOD}c.SchedulerService.show_names = 'nobody'\nc.SchedulerService.{line}\n")
    service = started(place)
    assert service._trouble is None
    assert (service.show_names, service.log_format, service.logging_config) == (
        "all",
        SchedulerService().log_format,
        {},
    )
    assert "start" not in vars(service), "the values are not printed in place of a service"
    policy = PolicyFile(place, lambda: (a_node(2),), service._sections(), service._stored, service._early)
    assert told in policy.error


@pytest.mark.parametrize("line", [line for line, _ in FAULTS + PLACES])
def test_without_stored_settings_the_start_ends_with_a_sentence(tmp_path, monkeypatch, capfd, line):
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(
        f"{GOOD}c.SchedulerService.database_url = 'sqlite://' + '/hidden-word'\nc.SchedulerService.{line}\n"
    )
    service = started(path)
    with pytest.raises(SystemExit) as ended:
        service.start()
    assert ended.value.code == 1
    out, err = capfd.readouterr()
    assert "The scheduler service cannot start. " in err
    assert "Traceback" not in err
    assert "hidden-word" not in out + err


@pytest.mark.parametrize("line", GOOD_LOGS)
def test_what_pythons_logging_takes_is_taken(place, line):
    place.write_text(f"{GOOD}c.SchedulerService.{line}\n")
    assert loaded(place).error is None
    assert started(place).configure_log() == ""


def test_a_log_that_cannot_be_opened_is_left_out_and_said(place):
    place.write_text(
        f"{GOOD}c.SchedulerService.logging_config = {{'handlers': {{'file': {{'class': 'logging.FileHandler', "
        f"'filename': '{place}/none/gq.log'}}}}, 'root': {{'handlers': ['file']}}}}\n"
    )
    service = started(place)
    assert service._trouble is None
    told = service.configure_log()
    assert "logging_config are not in force" in told
    assert "Not a directory" in told
    assert "file" not in service.logging_config["handlers"]


def test_a_state_folder_in_a_loop_of_links_is_refused_in_a_sentence(tmp_path, monkeypatch, capfd):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(f"{GOOD}c.SchedulerService.state_dir = '{loop}/state'\n")
    monkeypatch.delenv("JUPYTER_GQ_STATE_DIR", raising=False)
    for text in (path.read_text(), "def x(:"):  # the second one leaves the place to the environment
        path.write_text(text)
        service = started(path)
        with pytest.raises(SystemExit):
            service.start()
        err = capfd.readouterr().err
        assert ("the state folder cannot be there (Symlink loop" in err, "Traceback" in err) == (True, False), err
        monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(loop))


def test_a_file_in_the_place_of_the_socket_is_refused(place, tmp_path):
    (tmp_path / "gq.sock").touch()
    policy = loaded(place)
    place.write_text(f"{GOOD}c.SchedulerService.socket_dir = {str(tmp_path)!r}\n")
    look(policy)
    assert "gq.sock: it is there already, and is not a socket. Choose a folder" in policy.error


@pytest.mark.parametrize("below", ["", "/gq"])
def test_a_folder_of_the_socket_behind_a_link_to_nothing_is_refused(place, tmp_path, below):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    policy = loaded(place)
    place.write_text(f"{GOOD}c.SchedulerService.socket_dir = {str(tmp_path / 'link') + below!r}\n")
    look(policy)
    assert f"{tmp_path}/link is a link to nothing. Choose a folder" in policy.error


def test_a_database_in_a_loop_of_links_is_refused(place, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    policy = loaded(place)
    for path in (tmp_path / "loop", tmp_path / "loop" / "gq.sqlite"):
        place.write_text(f"{GOOD}c.SchedulerService.database_url = 'sqlite:///{path}'\n")
        look(policy)
        assert f"The database {path} cannot be opened: Too many levels of symbolic links." in policy.error


def test_a_folder_whose_name_begins_with_a_tilde_is_taken_if_it_is_there(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~gq").mkdir()
    place.write_text(f"{GOOD}c.SchedulerService.state_dir = '~gq/state'\n")
    assert loaded(place).error is None


def test_a_value_of_the_command_line_is_refused_without_the_name_of_the_file(place, monkeypatch, capfd):
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(place.parent / "new"))
    service = SchedulerService()
    service.initialize(["--config", str(place), "--SchedulerService.socket_dir=/dev/null"])
    with pytest.raises(SystemExit):
        service.start()
    err = capfd.readouterr().err
    assert "cannot start. The command line of the service: c.SchedulerService.socket_dir = '/dev/null': the" in err
    assert str(place) not in err


def test_a_handler_that_ends_the_process_is_left_out_and_said(place):
    place.write_text(
        f"{GOOD}c.SchedulerService.logging_config = {{'handlers': {{'x': {{'()': 'sys.exit'}}}}, 'root': "
        "{'handlers': ['x']}}\n"
    )
    service = started(place)
    assert service._trouble is None
    assert "(Unable to configure handler 'x': SystemExit" in service.configure_log()


def test_a_look_opens_no_file_of_the_log(place, tmp_path):
    policy = loaded(place)
    before = logging.root.handlers[:]
    place.write_text(
        f"{GOOD}c.SchedulerService.log_format = '%(site)s %(message)s'\n"
        f"c.SchedulerService.logging_config = {{'filters': {{'site': {{'()': '{__name__}.AddsSite'}}}}, "
        "'handlers': {'file': {'class': 'logging.FileHandler', 'filters': ['site'], "
        f"'filename': '{tmp_path}/gq.log'}}}}, "
        "'root': {'handlers': ['file'], 'level': 'INFO'}, 'loggers': {'SchedulerService': {'handlers': ['file']}}}\n"
    )
    look(policy)
    assert policy.error is None
    assert not (tmp_path / "gq.log").exists()
    assert logging.root.handlers == before


def test_a_socket_that_the_hub_has_chosen_is_not_judged_by_the_state_folder(place, monkeypatch):
    monkeypatch.setenv("JUPYTER_GQ_SERVICE_SOCKET", "/run/gq.sock")
    policy = PolicyFile(place, lambda: (a_node(2),), find_start_sections(SchedulerService))
    place.write_text(f"{GOOD}c.SchedulerService.state_dir = '/{'x' * 150}'\n")
    look(policy)
    assert policy.error is None
