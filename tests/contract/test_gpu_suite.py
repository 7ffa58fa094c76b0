"""The tests for a real GPU pass where the driver is a fake, so that they can run at once where there is a GPU.

They also load few modules, since a machine with a GPU may have no network to install more.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_checkpointer import libraries  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]
#: Runs the tests, and says which modules were loaded from packages that had to be installed.
RUN = """
import sys, pytest
code = pytest.main(["-q", "-rs", "-c", "tests/gpu/pytest.ini", "--rootdir=.", "tests/gpu"])
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print("loaded", *sorted({name.split(".")[0] for name, file in files.items() if "site-packages" in file}))
sys.exit(code)
"""
#: What the modules that the Makefile names for these tests need themselves.
THEIR_OWN = {
    "_distutils_hack",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "sortedcontainers",
    "attr",
    "annotated_types",
}
THEIR_OWN |= {"pydantic_core", "typing_extensions", "typing_inspection"}
#: What a fake cannot show.
SKIPPED = ("PyTorch", "nvidia-cuda-mps-control", "not caused on a real GPU", "not tried on a real GPU", "no room")
SKIPPED += ("cannot move", "has one device", "cannot limit", "may not make control groups", "limit the memory")


def named_in_the_makefile():
    """Return the modules that `make test-gpu` looks for."""
    line = re.search(r"^GPU_MODULES := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return set(line.group(1).split(", "))


@pytest.fixture
def run(libraries, tmp_path, monkeypatch):  # noqa: F811
    """Return a function that runs the tests with the fake driver, whose devices are described in `tmp_path`."""
    monkeypatch.setenv("GQ_FAKE_DRIVER", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_tests():
        found = subprocess.run([sys.executable, "-c", RUN], cwd=ROOT, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout + found.stderr
        return found

    return run_tests


def test_suite_runs_in_the_environment_that_is_made_if_the_named_python_lacks_modules(tmp_path):
    bare, made = tmp_path / "bare", tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    made.write_text('#!/bin/sh\necho made "$@"\n')
    bare.chmod(0o755)
    made.chmod(0o755)
    make = ["make", "test-gpu", f"PYTHON={bare}", f"BIN={tmp_path}", "MAKE=true"]
    found = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "made -m pytest" in found.stdout, found.stderr


def test_machine_without_a_gpu_is_told_in_one_line(run):
    told = [line for line in run().stdout.splitlines() if "kipped" in line]
    assert told == ["Skipped, since there is no NVIDIA GPU: NVIDIA's driver works and finds no GPU."]


def test_suite_for_a_gpu_passes_with_a_fake_driver_and_few_modules(run, tmp_path):
    (tmp_path / "devices").write_text(f"GPU-00000000-0000-0000-0000-000000000001 {143771 << 20}\n")
    (tmp_path / "unlimited").touch()
    found = run()
    skipped = [line for line in found.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skipped if not any(why in line for why in SKIPPED)] == []
    assert re.search(r"[1-9][0-9]* passed", found.stdout)
    loaded = set(found.stdout.splitlines()[-1].split()[1:])
    assert loaded <= named_in_the_makefile() | THEIR_OWN
