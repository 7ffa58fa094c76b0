"""The executed notebook that the runner writes is the one that the service makes from the pieces it has stored."""

import json

from jupyter_gq.client.bundle import pair_cells
from jupyter_gq.client.outputs.executed import ShownOutputs, make_executed_notebook

from .conftest import Job, eventually


def made_by_the_service(job: Job) -> dict:
    """Return the notebook that the service makes from the pieces it has stored."""
    bundle = json.loads((job.folder / "bundle.json").read_text())
    shown = ShownOutputs()
    shown.take(job.service.pieces())
    cells = pair_cells(bundle["manifest"], bundle["notebook"])
    return make_executed_notebook(bundle["notebook"], cells, shown.about("job-1"), shown)


def test_notebook_of_a_job_that_ran_to_its_end(job):
    job.prefix("import sys\nprint('replayed')").target("print('x')\nprint('y', file=sys.stderr)\n1 + 1")
    job.target("from IPython.display import display\nd = display(1, display_id=True)\nd.update(2)", "second")
    assert job.run()["outcome"] == "SUCCEEDED"
    notebook = job.notebook()
    assert made_by_the_service(job) == notebook
    assert notebook["metadata"]["language_info"]["name"] == "python"
    assert notebook["metadata"]["jupyter_gq"]["ended"] == ["prefix", "second", "target"]


def test_notebook_of_a_job_that_failed(job):
    job.target("print('x')\n1 / 0").target("print('never')", "second")
    assert job.run()["outcome"] == "FAILED"
    assert made_by_the_service(job) == job.notebook()
    assert job.notebook()["metadata"]["jupyter_gq"]["ended"] == []


def test_notebook_of_a_job_that_was_paused_and_resumed(job):
    job.prefix("print('replayed')").target("print('done')", "first")
    job.target(
        "import jupyter_gq, time\n"
        "at = jupyter_gq.checkpoint_dir() / 'n'\n"
        "n = int(at.read_text()) if at.exists() else 0\n"
        "print('from', n, flush=True)\n"
        "at.write_text('7')\n"
        "while not n and not jupyter_gq.should_stop():\n    time.sleep(0.01)\n"
    )
    job.start()
    eventually(lambda: "from 0" in job.service.text())
    job.stop()
    assert job.finish()["outcome"] == "PAUSED"
    assert made_by_the_service(job) == job.notebook()
    assert job.notebook()["metadata"]["jupyter_gq"]["ended"] == ["first", "prefix"]
    assert job.run(2)["outcome"] == "SUCCEEDED"
    assert made_by_the_service(job) == job.notebook()
    assert job.service.text() == "from 0\nfrom 7\n"
    assert job.service.text("first") == "done\n"
