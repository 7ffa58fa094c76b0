"""A job in a pod begins with the checkpoints of an earlier job, from the URL or from the volume, or runs nothing."""

import pytest

from .conftest import eventually
from .pods import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start()
    yield made
    made.close()


GOES_ON = (
    "import jupyter_gq\n"
    "at = jupyter_gq.checkpoint_dir() / 'epoch'\n"
    "start = int(at.read_text()) if at.exists() else 0\n"
    "print('from', start)\n"
    "at.write_text(str(start + 17))\n"
)


def run_to_its_end(cluster, source, continue_from="", **environment):
    """Run a job in one pod to its end; return the job, and the result of the pod."""
    job = cluster.send(("target", "target", source), continue_from=continue_from)
    pod = cluster.pod(job, **environment)
    result = pod.run()
    cluster.over(pod)
    eventually(lambda: cluster.get(f"jobs/{job}")["phase"] in {"done", "failed"})
    return job, pod, result


def test_a_job_continues_from_the_checkpoints_of_a_failed_one_at_the_url(cluster):
    url = (cluster.folder / "continued").as_uri()
    first, _, result = run_to_its_end(cluster, GOES_ON + "raise RuntimeError", GQ_CHECKPOINT_URL=url)
    assert result["outcome"] == "FAILED"
    told = {"GQ_CHECKPOINT_URL": url, "GQ_CONTINUE_FROM": first}
    second, pod, result = run_to_its_end(cluster, GOES_ON, first, **told)
    assert f"Continues from the checkpoints of {first}: 1 file, 2 bytes, copied." in pod.log()
    assert (result["outcome"], cluster.text(second)) == ("SUCCEEDED", "from 17\n")
    assert cluster.get(f"jobs/{second}")["continue_from"] == first
    # The states of the first job are as they were, and the second one's are its own.
    third, _, _ = run_to_its_end(cluster, GOES_ON, first, **told)
    fourth, _, _ = run_to_its_end(cluster, GOES_ON, second, **{**told, "GQ_CONTINUE_FROM": second})
    assert (cluster.text(third), cluster.text(fourth)) == ("from 17\n", "from 34\n")


def test_a_job_continues_from_the_checkpoints_of_another_in_a_volume(cluster):
    first, pod, _ = run_to_its_end(cluster, GOES_ON)
    volume = pod.folder / "checkpoint"
    told = {"GQ_CONTINUE_FROM": first, "GQ_CONTINUE_DIR": str(volume)}
    second, pod, result = run_to_its_end(cluster, GOES_ON + "import os\nprint(sorted(os.environ))", first, **told)
    assert result["outcome"] == "SUCCEEDED"
    assert cluster.text(second).startswith("from 17\n")
    assert "GQ_CONTINUE" not in cluster.text(second)
    assert f"Continues from the checkpoints of {first}: 1 file, 2 bytes, copied." in pod.log()
    assert (volume / "epoch").read_text() == "17"


def test_a_pod_that_cannot_have_the_checkpoints_of_the_earlier_job_runs_nothing(cluster):
    first, _, _ = run_to_its_end(cluster, "print('keeps nothing')")
    places = [
        {"GQ_CHECKPOINT_URL": (cluster.folder / "empty").as_uri()},
        {"GQ_CONTINUE_DIR": str(cluster.folder / "no folder")},
        {},
    ]
    for place in places:
        job, _, result = run_to_its_end(cluster, GOES_ON, first, GQ_CONTINUE_FROM=first, **place)
        assert result["outcome"] == "FAILED"
        kept = "no checkpoints are kept here any more" if not place else "has no checkpoints any more, or it wrote none"
        assert kept in result["sentence"]
        assert cluster.pieces(job) == []
