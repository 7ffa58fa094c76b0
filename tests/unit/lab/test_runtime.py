"""The file of a notebook as this server knows it: without JupyterLab's drive, and with any other colon."""

import pytest

from jupyter_gq.lab.bundle.runtime import remove_drive
from jupyter_gq.lab.results.copies import find_notebook_folder


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("RTC:work/a.ipynb", "work/a.ipynb"),
        ("RTC:12:30.ipynb", "12:30.ipynb"),
        ("/lessons/a.ipynb", "lessons/a.ipynb"),
        ("12:30.ipynb", "12:30.ipynb"),
        ("a:b/train.ipynb", "a:b/train.ipynb"),
        ("work/RTC:a.ipynb", "work/RTC:a.ipynb"),
        ("", ""),
    ],
)
def test_only_the_name_of_a_drive_is_removed(path: str, local: str) -> None:
    assert remove_drive(path) == local
    assert find_notebook_folder(path or "a.ipynb") == local.rpartition("/")[0]
