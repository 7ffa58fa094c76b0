"""The first example of the product trains, is paused, and continues as if it had not been paused."""

import base64
import json
import re
from pathlib import Path

import numpy as np

from .conftest import Job, Service, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.ipynb"

#: So many that there is time to pause, also on a machine that is busy.
EPOCHS = 24


def prepare(job: Job, epochs: int) -> None:
    """Write the bundle that the lab would send: the code cells before the training cell are replayed."""
    for cell in json.loads(EXAMPLE.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = re.sub(r"^EPOCHS = \d+$", f"EPOCHS = {epochs}", "".join(cell["source"]), flags=re.M)
        if "should_stop()" in source:
            job.target(source)
            return
        job.prefix(source, cell["id"])


def test_example_is_stored_without_outputs_and_with_ids() -> None:
    notebook = json.loads(EXAMPLE.read_text())
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    assert notebook["nbformat_minor"] == 5


def test_example_trains_and_shows_its_curve(job: Job, service: Service) -> None:
    prepare(job, epochs=6)
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    shown = service.outputs()
    pictures = [output["data"]["image/png"] for output in shown if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert re.search(r"epoch 6 of 6: loss 0\.\d+, [89]\d\.\d% right", service.text())
    assert (job.cwd / "digits-model.npz").exists()
    assert not list((job.folder / "checkpoint").iterdir())
    assert service.beats()[-1]["progress"]["fraction"] == 1


def test_paused_example_ends_as_it_would_have_without_a_pause(job: Job, service: Service, tmp_path: Path) -> None:
    prepare(job, epochs=EPOCHS)
    job.start()
    eventually(lambda: "epoch 3 of" in service.text())
    job.stop()
    assert job.finish()["outcome"] == "PAUSED", job.log()
    paused = int(re.search(r"Paused after epoch (\d+)", service.text())[1])
    assert 3 <= paused < EPOCHS
    assert job.run(run=2)["outcome"] == "SUCCEEDED", job.log(2)
    text = service.text()
    assert f"Continuing after epoch {paused} of {EPOCHS}." in text

    interrupted = (job.cwd / "digits-model.npz").rename(tmp_path / "interrupted.npz")
    straight = Job(tmp_path / "job-2", service)
    straight.env = {"GQ_SERVICE_URL": ""}
    prepare(straight, epochs=EPOCHS)
    assert straight.run()["outcome"] == "SUCCEEDED"
    with np.load(interrupted) as one, np.load(straight.cwd / "digits-model.npz") as other:
        assert all(np.array_equal(one[name], other[name]) for name in other.files)
