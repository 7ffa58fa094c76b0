"""Tests that a text of a user cannot falsify the log or the terminal."""

import logging

from jupyter_gq.client.plain_output import PlainRecord, log_plainly, print_plain


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


def test_a_printed_table_keeps_its_lines_only(capsys):
    print_plain("digits\x1b[2J\u202e\n  now: waits")
    assert capsys.readouterr().out == "digits\n  now: waits\n"
