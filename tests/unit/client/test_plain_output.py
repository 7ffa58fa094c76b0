"""Tests that a text of a user cannot falsify the log or the terminal."""

import logging

import pytest

from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.client import plain_output
from jupyter_gq.client.plain_output import PlainRecord, log_own_records_plainly, log_plainly, print_plain
from jupyter_gq.hub import mixin
from jupyter_gq.hub.mixin import GPUShareMixin


def test_a_name_begins_no_line_of_its_own():
    forged = "x\nERROR root logged in\u202e\x1b[2J"
    record = PlainRecord("jupyter_gq", logging.INFO, "file.py", 1, "job %s ended", (forged,), None)
    assert logging.Formatter("%(levelname)s %(message)s").format(record) == "INFO job x ERROR root logged in ended"


def test_a_traceback_keeps_its_lines_and_loses_control_characters():
    try:
        raise ValueError("one\x1b[31m\ntwo\u202e\x07")
    except ValueError as error:
        exc_info = (type(error), error, error.__traceback__)
    record = PlainRecord("jupyter_gq", logging.ERROR, "file.py", 1, "failed", (), exc_info)
    assert logging.Formatter().format(record).endswith("\nValueError: one\ntwo")


def test_all_later_records_of_the_process_are_plain():
    before = logging.getLogRecordFactory()
    try:
        log_plainly()
        record = logging.getLogger("jupyter_gq").makeRecord("x", logging.INFO, "file.py", 1, "a\rb", (), None)
    finally:
        logging.setLogRecordFactory(before)
    assert record.getMessage() == "a b"


@pytest.fixture
def factory():
    """Each test begins with the factory of a new process; this process's own, and our log, are put back in the end."""
    before, log = logging.getLogRecordFactory(), logging.getLogger("jupyter_gq")
    parent, level = log.parent, log.level
    logging.setLogRecordFactory(logging.LogRecord)
    yield
    logging.setLogRecordFactory(before)
    log.parent = parent
    log.setLevel(level)


def message(pathname):
    """What the log of this process shows for a forged name that is logged by the code in that file."""
    make = logging.getLogRecordFactory()
    return make("JupyterHub", logging.INFO, pathname, 1, "start of %s", ("x\nERROR y\u202e",), None).getMessage()


def test_in_a_process_of_others_our_own_records_are_plain(factory):
    for _ in range(3):
        log_own_records_plainly()
    assert message(plain_output.__file__) == "start of x ERROR y"
    assert message("/usr/lib/jupyterhub/app.py") == "start of x\nERROR y\u202e"
    assert logging.getLogRecordFactory()._others is logging.LogRecord, "no chain of factories grows"


def test_a_process_whose_records_are_all_plain_keeps_that(factory):
    log_plainly()
    log_own_records_plainly()
    assert message("/usr/lib/tornado/web.py") == "start of x ERROR y"


def test_the_hub_logs_plainly_from_its_first_spawner_on(factory):
    GPUShareMixin()
    assert message(mixin.__file__) == "start of x ERROR y"


def test_an_agent_logs_plainly(factory):
    NodeAgent().initialize([])
    assert message("/usr/lib/other.py") == "start of x ERROR y"


def test_a_printed_table_keeps_its_lines_only(capsys):
    print_plain("digits\x1b[2J\u202e\n  now: waits")
    assert capsys.readouterr().out == "digits\n  now: waits\n"
