"""The versions of JupyterLab that the package asks for: the extension loads in them, and the oldest is clicked in.

See docs/decisions/0157-click-in-the-oldest-jupyterlab.md.
"""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: First minor version of each package of JupyterLab that has a number of its own, in JupyterLab 4.4.
OWN_NUMBERS = {
    "@jupyterlab/apputils": "^4.5.0",
    "@jupyterlab/coreutils": "^6.4.0",
    "@jupyterlab/rendermime-interfaces": "^3.12.0",
    "@jupyterlab/services": "^7.4.0",
}


def test_the_extension_loads_in_each_jupyterlab_that_the_package_asks_for():
    """JupyterLab refuses an extension whose ranges do not have its own packages."""
    ranges = json.loads((ROOT / "labextension/package.json").read_text())["dependencies"]
    lab = {name: wanted for name, wanted in ranges.items() if name.startswith("@jupyterlab/")}
    assert lab == {name: OWN_NUMBERS.get(name, "^4.4.0") for name in lab}
    assert oldest_jupyterlab() == "4.4"


def test_the_oldest_jupyterlab_is_clicked_in_ci():
    """The environment with the oldest Hub has the oldest JupyterLab and its Notebook, and test-second-hub uses it."""
    makefile = (ROOT / "Makefile").read_text()
    assert f'"jupyterlab=={oldest_jupyterlab()}.*" "notebook>=7.4"' in makefile
    assert re.search(r"JUPYTER_GQ_TEST_PYTHON=\$\(abspath \$\(HUB55\)\).* tests/browser/test_versions\.py", makefile)


def oldest_jupyterlab() -> str:
    """The lower bound in the metadata of the package, such as "4.4"."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (bound,) = (line for line in extras["lab"] if line.startswith("jupyterlab"))
    found = re.fullmatch(r"jupyterlab>=(\d+\.\d+),<5", bound)
    assert found is not None, bound
    return found[1]
