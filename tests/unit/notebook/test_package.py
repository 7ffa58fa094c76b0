"""`import jupyter_gq` is cheap, needs the standard library only, and offers the user's calls."""

import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_gq

REPOSITORY = Path(__file__).parents[3]


def test_every_name_it_promises_is_there() -> None:
    for name in jupyter_gq.__all__:
        assert getattr(jupyter_gq, name)
        assert name in dir(jupyter_gq)
    with pytest.raises(AttributeError, match="has no attribute 'no_such'"):
        jupyter_gq.no_such  # noqa: B018


def test_import_and_use_load_the_standard_library_only() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import jupyter_gq\n"
        "jupyter_gq.should_stop(); jupyter_gq.simulate_memory\n"
        "names = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names)))\n"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code, str(REPOSITORY)], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "['jupyter_gq']"


def test_the_lab_and_the_server_find_their_parts() -> None:
    assert jupyter_gq._jupyter_labextension_paths() == [{"src": "labextension", "dest": "jupyter-gq"}]
    (point,) = jupyter_gq._jupyter_server_extension_points()
    assert point["module"] == "jupyter_gq.lab"
