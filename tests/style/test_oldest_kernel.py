"""The environment with the oldest ipykernel is made only for a Python that this ipykernel runs on."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Stands for a Python of another version.
OTHER_PYTHON = """#!/bin/sh
exec {python} -c "import sys; sys.version_info = ({version}, 0); exec(sys.argv.pop(1))" "$2"
"""


@pytest.mark.parametrize(("version", "made"), [("3, 12", True), ("3, 13", False)])
def test_the_oldest_kernel_is_made_before_python_3_13(tmp_path, version, made):
    python = tmp_path / "python"
    python.write_text(OTHER_PYTHON.format(python=sys.executable, version=version))
    python.chmod(0o755)
    make = ["make", "--dry-run", "--always-make", "oldest-kernel", f"PYTHON={python}"]
    found = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ("-m venv .venv-ipykernel-" in found.stdout) == made


def test_ci_makes_no_kernel_that_the_makefile_would_not_make():
    assert ".venv-ipykernel" not in (ROOT / ".ci/run").read_text()
