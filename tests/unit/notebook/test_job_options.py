"""A job has the same options however it is sent: as a cell, a function, a sweep, a file, or from the dialog."""

import argparse
import inspect

import pytest

import jupyter_gq
from jupyter_gq.client.models import JobFields
from jupyter_gq.commands import submit
from jupyter_gq.lab.requests import JobFields as PageFields
from jupyter_gq.notebook.job_options import add_job_options, name_option, parse_whole, read_job_options

#: Fields that the jobs of a sweep have in common; a sweep names them otherwise.
OF_GROUPS = {"group", "group_parallel", "group_metric", "group_mode"}
FIELDS = JobFields.model_fields.keys() - OF_GROUPS


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def test_functions_take_every_option():
    assert keywords(jupyter_gq.submit) == {*FIELDS, "secrets", "also", "check"}
    assert keywords(jupyter_gq.sweep) == {*FIELDS, "secrets", "also", "check", "parallel", "metric", "mode"}


def test_pages_and_kernels_pass_every_option_on():
    assert PageFields.model_fields.keys() >= FIELDS | OF_GROUPS


def test_words_set_every_field_but_the_software_whose_default_differs():
    parser = argparse.ArgumentParser()
    add_job_options(parser, named_after="file")
    assert read_job_options(parser.parse_args([])).keys() == FIELDS - {"software"}


@pytest.mark.parametrize("text", ["", " "])
def test_a_job_to_continue_from_that_is_an_empty_variable_is_refused(text, capsys):
    parser = argparse.ArgumentParser()
    add_job_options(parser, named_after="file")
    assert read_job_options(parser.parse_args([]))["continue_from"] == ""
    with pytest.raises(SystemExit):
        parser.parse_args(["--continue-from", text])
    assert "an empty text is no job: write the id of a job, or leave the option out" in capsys.readouterr().err


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_the_name_of_an_option_is_one_that_the_command_knows(field):
    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    assert f"--{name_option(field)}" in parser.format_help()


@pytest.mark.parametrize("text", ["x", "2.5", "1_0", "", "\uff11", "x" * 5000])
def test_what_is_no_whole_number_is_refused_in_a_sentence(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"['…] is no whole number$") as refused:
        parse_whole(text)
    assert len(str(refused.value)) < 130


@pytest.mark.parametrize(("text", "digits"), [("9" * 19, 19), ("-" + "9" * 19, 19), ("9" * 5000, 5000)])
def test_a_number_of_too_many_digits_is_told_how_many_are_possible(text, digits):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        parse_whole(text)
    assert str(refused.value) == f"a number of at most 18 digits was expected, not one of {digits}"


def test_a_whole_number_may_have_a_sign():
    assert parse_whole("9" * 18) == 10**18 - 1
    assert [parse_whole(text) for text in ("7", "-5", "+3")] == [7, -5, 3]
