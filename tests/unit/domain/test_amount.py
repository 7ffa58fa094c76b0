"""Amounts are exact: text is read as a decimal, never as a float."""

import pytest

from jupyter_gq.domain.amount import (
    format_bytes,
    format_cpus,
    format_gpus,
    format_memory,
    parse_cpus,
    parse_memory,
    parse_quota,
    parse_request,
)
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.workload import Request


@pytest.mark.parametrize(
    ("text", "milli"), [("0.25", 250), (0.25, 250), (1, 1000), ("2", 2000), ("1e0", 1000), (" 0.5 ", 500), (0, 0)]
)
def test_a_request_is_read_exactly(text, milli):
    assert parse_request(text) == milli


def test_a_tenth_and_two_tenths_fit_a_quota_of_three_tenths():
    assert parse_request("0.1") + parse_request(0.2) == parse_quota("0.3")


@pytest.mark.parametrize("value", ["abc", "", "nan", "inf", None, True, [], "1,5", "0x1", "1_0", "\u0661"])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(InvalidAmount, match="is not a"):
        parse_request(value)


@pytest.mark.parametrize(
    ("value", "fix"), [("1.5", "1 or 2"), ("0.1234", "at most three digits"), (-1, "0 or more"), ("2.001", "2 or 3")]
)
def test_a_refusal_says_what_to_write_instead(value, fix):
    with pytest.raises(InvalidAmount, match=fix) as caught:
        parse_request(value)
    assert caught.value.value == value


def test_a_quota_may_be_any_total():
    assert parse_quota("1.5") == 1500


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (250, "0.25"), (1000, "1"), (1500, "1.5"), (125, "0.125"), (10000, "10")]
)
def test_amounts_are_written_as_the_shortest_decimal(milli, text):
    assert format_gpus(milli) == text


@pytest.mark.parametrize(("milli", "devices", "each"), [(0, 0, 1000), (250, 1, 250), (1000, 1, 1000), (3000, 3, 1000)])
def test_a_request_is_a_fraction_of_one_device_or_whole_devices(milli, devices, each):
    request = Request.of(milli)
    assert (request.devices, request.milli_per_device, request.milli) == (devices, each, milli)


@pytest.mark.parametrize(("text", "milli"), [("4", 4000), (0.5, 500), ("0.25", 250), (0, 0), (" 2 ", 2000)])
def test_cores_are_read_exactly(text, milli):
    assert parse_cpus(text) == milli
    assert parse_cpus(format_cpus(milli)) == milli


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        (16, 16384),
        ("16", 16384),
        (1.5, 1536),
        ("16Gi", 16384),
        ("16 GiB", 16384),
        ("16G", 16384),
        ("16 gb", 16384),
        ("512 MiB", 512),
        ("2048Ki", 2),
        ("1T", 1024 * 1024),
        ("0.1", 103),  # rounded up: who asks for it gets it
        (0, 0),
    ],
)
def test_memory_is_gib_unless_it_says_otherwise(text, mib):
    assert parse_memory(text) == mib


@pytest.mark.parametrize(
    ("mib", "text"), [(16384, "16 GiB"), (1536, "1.5 GiB"), (500, "500 MiB"), (1025, "1025 MiB"), (0, "0 MiB")]
)
def test_memory_is_written_so_that_it_is_read_as_the_same_amount(mib, text):
    assert format_memory(mib) == text
    assert parse_memory(text) == mib


@pytest.mark.parametrize(
    ("parse", "value", "words"),
    [
        (parse_cpus, "four", r"'four' is not a valid amount of CPU cores: .*such as 0.5 or 4"),
        (parse_cpus, -1, "0 or more cores"),
        (parse_cpus, "0.0001", "at most three digits"),
        (parse_cpus, "500m", "not a number"),
        (parse_memory, "16 GiBs", r"amount of memory: .*16 GiB or 512 MiB"),
        (parse_memory, "1,5 GiB", "'1,5 GiB' is not a valid amount of memory"),
        (parse_memory, "-1 GiB", "negative"),
        (parse_memory, "1e99", "far more"),
        (parse_memory, "1 KiB", "less than 1 MiB; use 1 MiB or more"),
        (parse_memory, "0.0001", "less than 1 MiB"),
        (parse_memory, "1_0 GiB", "not a number"),
        (parse_memory, True, "not a number"),
    ],
)
def test_what_is_no_amount_of_cores_or_memory_is_told_how_to_write_it(parse, value, words):
    with pytest.raises(InvalidAmount, match=words):
        parse(value)


@pytest.mark.parametrize(
    ("parse", "examples"),
    [(parse_request, "0.25, 0.5 or 2"), (parse_cpus, "0.5 or 4"), (parse_memory, "16 GiB or 512 MiB")],
)
def test_a_refusal_shows_the_value_in_quotation_marks_and_its_examples_without(parse, examples):
    with pytest.raises(InvalidAmount) as caught:
        parse("lots")
    said = str(caught.value)
    assert said.startswith("'lots' is not a valid amount of ")
    assert said.endswith(f"such as {examples}.")
    assert '"' not in caught.value.fix


@pytest.mark.parametrize("parse", [parse_quota, parse_request, parse_cpus, parse_memory])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_that_python_does_not_write_is_refused_as_any_other(parse, sign):
    with pytest.raises(InvalidAmount, match=r"^a number of more than \d+ digits is not .*: it is far more than any"):
        parse(sign * 10**5000)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1, "1 byte"), (812, "812 bytes"), (1024, "1 KiB"), (12_900_000, "12.3 MiB")]
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(count, text):
    assert format_bytes(count) == text
