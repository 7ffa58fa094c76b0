"""The rules of prose hold, and the check that says so finds each kind of breach."""

import pytest

from tests.style.english import breaches, in_python, in_text

PRODUCT = "jupyter_gq/room/module.py"


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""Where things are."""\n', "headless"),
        ('def remove():\n    """It is gone."""\n', "headless"),
        ('def merge():\n    """Both, in this order."""\n', "headless"),
        ('class Line:\n    """Who waits."""\n', "headless"),
        ('def stop():\n    """Stop the job. It is requeued."""\n', "pronoun"),
        ('def stop():\n    """Stop the job.\n\n    Its devices are free then.\n    """\n', "pronoun"),
        ("x = 1  # it is one\n", "pronoun"),
        ('def stop():\n    """Stop the job of a user who asks for his share."""\n', "person"),
        ('print("The owner keeps his share.")\n', "person"),
        ("# as she said\n", "person"),
    ],
)
def test_a_breach_is_found(source: str, rule: str) -> None:
    assert [breach.rule for breach in in_python(PRODUCT, source)] == [rule]


@pytest.mark.parametrize(
    "source",
    [
        'def remove():\n    """Remove the object; does nothing if it is not there."""\n',
        'def fits():\n    """Return True if the task fits on the device, whatever its queue uses."""\n',
        'def read():\n    """Read `his_field`, or "his" in quotes.\n\n    Raises `OSError` if it is gone.\n    """\n',
        'class Line:\n    """Pending workloads of one queue, oldest first."""\n',
        "x = 1  # the theme of this history\n",
    ],
)
def test_plain_prose_is_left_alone(source: str) -> None:
    assert not list(in_python(PRODUCT, source))


def test_persons_are_found_in_other_files_too() -> None:
    assert [breach.line for breach in in_text("docs/page.md", "A page.\n\nThe user and his quota.\n")] == [3]


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("/** What the user chose. */\nexport interface IChoice {}\n", ["headless"]),
        ("/**\n * One job.\n */\nexport class Row {}\n", ["headless"]),
        ("/** A row. It is drawn anew. */\nexport class Row {}\n", ["pronoun"]),
        (
            "interface IRow {\n  /** Its job. */\n  job: string;\n  /** What it says. */\n  text: string;\n}\n",
            ["headless"],
        ),
        ("/** A row of a job. */\nexport class Row {}\n", []),
    ],
)
def test_the_documentation_of_the_lab_extension_is_read_too(source: str, rules: list[str]) -> None:
    assert [breach.rule for breach in in_text("labextension/src/panel/row.tsx", source)] == rules
    assert not list(in_text("labextension/src/__tests__/row.spec.ts", source))


def test_tests_may_begin_as_they_like_but_name_no_person_by_a_pronoun() -> None:
    source = 'def test_it():\n    """It waits for him."""\n'
    assert [breach.rule for breach in in_python("tests/test_x.py", source)] == ["person"]


def test_nothing_in_the_repository_breaks_a_rule() -> None:
    assert not [str(breach) for breach in breaches([])]
