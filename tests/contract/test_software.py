"""A job really runs with the kernel that its owner chose in place of the one of its file."""

import json
import sys

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.commands.files_to_send import FileToSend, read_file

from .test_with_runner import real as real  # a fixture

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(("software", "mark"), [("marked", "the other environment"), ("", "that of the file")])
async def test_a_job_runs_with_the_kernel_that_was_chosen(real, tmp_path, monkeypatch, software, mark):
    kernel = tmp_path / "jupyter" / "kernels" / "marked"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Marked", "language": "python", "env": {"MARK": "the other environment"}}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    script = tmp_path / "train.py"
    script.write_text("import os\nprint(os.environ.get('MARK', 'that of the file'))\n")
    bundle = read_file(FileToSend(path=script, software=software)).make_bundle()
    workload = real.workload()
    real.bundles.write(workload.id, "ann", bundle.model_dump(), 10**6)
    await real.request(workload)
    ended = await real.end(workload)
    assert ended.outcome is Outcome.SUCCEEDED, ended.sentence
    cells = real.bundles.executed_notebook(workload.id, "ann")["cells"]
    assert "".join(output["text"] for output in cells[-1]["outputs"]) == f"{mark}\n"
