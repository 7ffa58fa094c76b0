"""A real ipykernel runs the start-up file of its share: it has caps, and is unchanged otherwise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Job, Service


def test_kernel_has_caps_and_a_clean_namespace(job: Job, service: Service, tmp_path: Path) -> None:
    package = tmp_path / "home" / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text("__version__ = '2.10.0'\n")
    (package / "__init__.py").write_text(
        "import os\nSEEN = os.environ.get('PYTORCH_ALLOC_CONF')\n__version__ = '2.10.0'\n"
    )
    job.env = {
        "JUPYTER_GQ_MEMORY_FRACTION": "0.2458",
        "GQ_GPU_MEMORY_BYTES": "1000",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    }
    job.target(
        "print(sorted(n for n in globals() if not n.startswith('_')))\n"
        "import sys, os\n"
        "print('' in sys.path, any(path.endswith('/notebook') for path in sys.path))\n"
        "print(os.path.basename(sys.argv[0]))\n"
        "import torch\n"
        "print(torch.SEEN)\n"
        "print(sys.modules['__main__'].__dict__ is globals())"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text().splitlines() == [
        "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']",
        "True False",
        "ipykernel_launcher.py",
        "expandable_segments:True,per_process_memory_fraction:0.2458",
        "True",
    ]


@pytest.fixture(scope="module")
def other_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has ipykernel and lacks jupyter_gq: a path file adds the site-packages of this one."""
    import ipykernel

    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = Path(ipykernel.__file__).parents[1]
    links = folder / "links"
    links.mkdir()
    for entry in site.iterdir():
        if "jupyter_gq" not in entry.name and not entry.name.endswith(".pth"):
            (links / entry.name).symlink_to(entry)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "links.pth").write_text(f"{links}\n")
    return folder / "bin" / "python"


def test_kernel_of_another_environment_has_the_user_functions(
    job: Job, service: Service, other_environment: Path
) -> None:
    job.kernel = {**job.kernel, "argv": [str(other_environment), "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    job.kernel["env"] = {"PYTHONPATH": ""}
    job.target(
        "import sys, json, importlib.metadata\n"
        "import jupyter_gq\n"
        "print(json.dumps([sys.prefix, jupyter_gq.in_job(), jupyter_gq.should_stop()]))"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert json.loads(service.text()) == [str(other_environment.parents[1]), True, False]


def test_a_kernel_that_removes_its_connection_file_is_reached(job: Job, service: Service) -> None:
    starts = f'mv "$1" "$1.own"; exec "{sys.executable}" -m ipykernel_launcher -f "$1.own"'
    job.kernel = {**job.kernel, "argv": ["sh", "-c", starts, "sh", "{connection_file}"]}
    job.target("print('reached')")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert service.text() == "reached\n"


def test_other_users_of_the_machine_cannot_reach_the_kernel(job: Job, service: Service) -> None:
    job.target(
        "import os, stat\n"
        "application = get_ipython().kernel.parent\n"
        "folder = os.stat(os.path.dirname(application.ip))\n"
        "print(application.transport, oct(stat.S_IMODE(folder.st_mode)))"
    )
    assert job.run()["outcome"] == "SUCCEEDED"
    assert service.text() == "ipc 0o700\n"
