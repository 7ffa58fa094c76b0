"""Values at the end of a cell that cannot be shown, or not in each of their forms."""

import pytest

from .conftest import Job, Service

SHOWN = "class Value:\n    def __repr__(self): return 'plain'\n    def _repr_html_(self): {}\n"


def test_a_value_that_cannot_be_shown_is_a_failure_that_names_its_exception(job: Job) -> None:
    job.target("class Value:\n    def __repr__(self): raise ValueError('no text')\nValue()")
    result = job.run()
    assert (result["outcome"], result["ename"], result["evalue"]) == ("FAILED", "ValueError", "no text")
    assert result["sentence"] == (
        "The cell ran, but one of its values cannot be shown: it raised ValueError: no text. "
        "Correct the cell and send it again."
    )


def test_a_value_without_one_of_its_forms_is_a_failure_and_shows_the_others(job: Job, service: Service) -> None:
    job.target(SHOWN.format("raise ValueError('no html')") + "Value()")
    assert "one of its values cannot be shown: it raised ValueError: no html." in job.run()["sentence"]
    assert [output["output_type"] for output in service.outputs()] == ["error", "execute_result"]


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("return 42", "{'text/plain': 'plain'}"),
        ("return 'x' * 50_000_000", "One output of 47.7 MiB (text/html, text/plain) was left out"),
        ("return '<b>' * 1_000_000", "'text/html': '<b><b>"),
    ],
    ids=["no text", "enormous", "large"],
)
def test_a_value_with_an_odd_form_is_shown_as_far_as_that_can_be(
    job: Job, service: Service, form: str, shown: str
) -> None:
    job.target(SHOWN.format(form) + "Value()")
    assert job.run()["outcome"] == "SUCCEEDED"
    assert shown in str(service.outputs()[-1]["data"])


def test_a_value_whose_form_ends_the_job_is_told_so(job: Job) -> None:
    job.target(SHOWN.format("raise SystemExit(3)") + "Value()")
    assert job.run()["sentence"] == "The cell ended the job with exit status 3. Correct the cell and send it again."
