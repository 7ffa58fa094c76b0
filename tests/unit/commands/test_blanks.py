"""Spaces of all kinds around numbers, amounts and lengths of time mean nothing, as in the fields of the lab."""

import json
from pathlib import Path

import pytest

from jupyter_gq.domain.amount import parse_cpus, parse_memory, parse_request
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.notebook.durations import parse_duration
from jupyter_gq.notebook.job_options import parse_whole

#: Spaces of Unicode and characters without a width; `labextension/src/__tests__/blanks.spec.ts` reads the same file.
BLANKS: list[str] = json.loads((Path(__file__).parents[2] / "data" / "blanks.json").read_text("utf-8"))


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
def test_blanks_change_nothing(blank):
    def around(text):
        return f"{blank}{blank}{text}{blank}"

    assert parse_request(around("0.25")) == 250
    assert parse_cpus(around("4")) == 4000
    assert parse_memory(around("16")) == parse_memory(around(f"16{blank}GiB")) == 16384
    assert parse_whole(around("-3")) == -3
    assert parse_duration(around("90")) == 90
    assert parse_duration(around(f"2{blank}h{blank}5{blank}min")) == 7500


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
def test_blanks_inside_a_number_are_refused(blank):
    with pytest.raises(InvalidAmount):
        parse_request(f"0.{blank}5")
    with pytest.raises(InvalidAmount):
        parse_memory(f"1{blank}6 GiB")
