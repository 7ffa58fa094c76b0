"""What a job in a pod brings back is with the service once the pod has ended, or has a reason."""

import base64
import hashlib
import pickle
import signal
import urllib.parse

import pytest

from jupyter_gq.client.files.frozen_files import PART_SIZE
from tests.frozen import list_frozen, split

from .conftest import eventually
from .pods import Cluster

WRITES = """
import jupyter_gq, pathlib
model = {"weights": list(range(5)), "lock": None}
stuck = (i for i in range(3))
folder = jupyter_gq.results_dir()
(folder / "deep").mkdir()
(folder / "deep" / "löss.csv").write_text("1,2")
(folder / "empty").touch()
(folder / "large.bin").write_bytes(bytes(range(256)) * 40_000)
(folder / "link").symlink_to("/etc/passwd")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start()
    yield made
    made.close()


def read(cluster, job, path):
    """Return the content of one result, read as the user's server reads it."""
    content = b""
    while True:
        query = urllib.parse.urlencode({"path": path, "start": len(content)})
        status, part = cluster.ask(f"jobs/{job}/results/content?{query}")
        assert status == 200, part
        if not part:
            return content
        content += part


def test_variables_and_files_come_back_from_a_pod(cluster):
    job = cluster.send(("target", "target", WRITES), returns=["model", "stuck"])
    pod = cluster.pod(job)
    assert pod.run() == {"outcome": "SUCCEEDED", "sentence": ""}
    cluster.over(pod)
    listed = cluster.get(f"jobs/{job}/results")
    model, stuck = listed["variables"]
    content = read(cluster, job, model["path"])
    assert pickle.loads(content)["weights"] == [0, 1, 2, 3, 4]
    assert (model["bytes"], model["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (stuck["bytes"], "generator" in stuck["reason"]) == (None, True)
    files = {file["path"]: (file["bytes"], file["reason"]) for file in listed["files"]}
    assert files == {"deep/löss.csv": (3, ""), "empty": (0, ""), "large.bin": (256 * 40_000, "")}
    assert read(cluster, job, "files/deep/löss.csv") == b"1,2"
    assert read(cluster, job, "files/empty") == b""
    assert read(cluster, job, "files/large.bin") == bytes(range(256)) * 40_000, "it has three parts"


def test_files_that_went_along_unchanged_are_no_results_and_changed_ones_are(cluster):
    files = {"net.py": b"WIDTH = 7", "log.txt": b"old"}
    contents = [part for content in files.values() for part in split(content)]
    encoded = [base64.b64encode(part).decode() for part in contents]
    assert cluster.ask("files", "POST", {"contents": encoded})[0] == 204
    job = cluster.send(
        ("target", "target", "open('log.txt', 'a').write(' and new'); open('fresh.txt', 'w').write('x')"),
        files=list_frozen(files),
    )
    assert cluster.pod(job).run()["outcome"] == "SUCCEEDED"
    listed = {file["path"] for file in cluster.get(f"jobs/{job}/results")["files"]}
    assert listed == {"log.txt", "fresh.txt"}
    assert read(cluster, job, "files/log.txt") == b"old and new"


def test_what_does_not_fit_stays_in_the_list_with_a_reason_and_the_rest_comes_back(cluster):
    source = f"""
import jupyter_gq
folder = jupyter_gq.results_dir()
(folder / "a.bin").write_bytes(bytes({5 * PART_SIZE}))
(folder / "b.txt").write_text("small")
"""
    job = cluster.send(("target", "target", source))
    assert cluster.pod(job).run()["outcome"] == "SUCCEEDED"
    first, second = cluster.get(f"jobs/{job}/results")["files"]
    assert (first["path"], first["bytes"]) == ("a.bin", 5 * PART_SIZE)
    assert first["reason"] == (
        "It does not fit: at most 12 MiB come back from one job (c.TrainingQueues.max_result_mib)."
    )
    assert (second["path"], second["reason"]) == ("b.txt", "")
    assert cluster.ask(f"jobs/{job}/results/content?path=files/a.bin&start=0")[0] == 404
    assert read(cluster, job, "files/b.txt") == b"small"


def test_a_failed_job_brings_its_files_back_too(cluster):
    job = cluster.send(("target", "target", WRITES + "1 / 0"), returns=["model"])
    assert cluster.pod(job).run()["outcome"] == "FAILED"
    listed = cluster.get(f"jobs/{job}/results")
    assert [file["path"] for file in listed["files"]] == ["empty", "large.bin", "deep/löss.csv"]
    assert "did not reach its end" in listed["variables"][0]["reason"]


def test_a_paused_run_leaves_its_results_to_the_next_one(cluster):
    source = """
import jupyter_gq, time
n = len(list(jupyter_gq.checkpoint_dir().iterdir()))
(jupyter_gq.results_dir() / f"run-{n}").touch()
(jupyter_gq.checkpoint_dir() / str(n)).touch()
print(n, flush=True)
while n == 0 and not jupyter_gq.should_stop():
    time.sleep(0.05)
"""
    job = cluster.send(("target", "target", source))
    url = (cluster.folder / "copies").as_uri()
    first = cluster.pod(job, GQ_CHECKPOINT_URL=url).start()
    eventually(lambda: cluster.text(job) == "0\n")
    first.process.send_signal(signal.SIGTERM)
    assert first.finish()["outcome"] == "PAUSED"
    assert [file["path"] for file in cluster.get(f"jobs/{job}/results")["files"]] == ["run-0"]
    cluster.over(first)
    cluster.wait_for_run(job, 2)
    assert cluster.pod(job, 2, GQ_CHECKPOINT_URL=url).run()["outcome"] == "SUCCEEDED"
    assert [file["path"] for file in cluster.get(f"jobs/{job}/results")["files"]] == ["run-1"]
