"""The fields of a job have one bound each, and a limit belongs to a group."""

import pytest
from pydantic import ValidationError

from jupyter_gq.client.bundle import explain_invalid_names
from jupyter_gq.client.models import JobFields, JobRequest


@pytest.mark.parametrize("field", ["group", "group_metric", "within", "gpu_model"])
def test_a_short_name_has_at_most_100_characters(field) -> None:
    assert JobFields(queue="vision", **{field: "x" * 100})
    with pytest.raises(ValidationError, match="at most 100 characters"):
        JobFields(queue="vision", **{field: "x" * 101})
    assert str(JobFields.model_json_schema()["properties"][field]).count("255") == 0


def test_a_home_folder_may_have_a_long_path() -> None:
    assert JobRequest(queue="vision", home="/" + "x" * 4095)


def test_a_limit_without_a_group_is_refused() -> None:
    with pytest.raises(ValidationError, match="group_parallel limits the jobs of a group: name it with group"):
        JobFields(queue="vision", group_parallel=2)
    assert JobFields(queue="vision", group="sweep-1", group_parallel=2)


def test_a_job_runs_for_a_second_at_least() -> None:
    assert JobFields(queue="vision", max_seconds=1)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        JobFields(queue="vision", max_seconds=1e-9)


def test_a_name_that_python_keeps_otherwise_is_refused_with_the_right_one() -> None:
    assert explain_invalid_names(["\u210c"]).endswith("Write H")
    assert max(len(explain_invalid_names([name])) for name in ("1" * 10**6, "\u210c" * 10**6)) < 500
    assert explain_invalid_names(["H", "\u043c\u043e\u0434\u0435\u043b\u044c", "\u00e9"]) == ""
