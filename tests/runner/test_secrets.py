"""A job has its secrets, and nothing that is kept or answered has their values."""

import json
from pathlib import Path

import pytest

from jupyter_gq.client.environment.user_secrets import write_secret

from .conftest import Job, Service
from .pods import Cluster

SECRET = "hf_hunter2_of_ann"
#: Shows the value in every way that the service keeps.
SHOWS = """
import os, sys, jupyter_gq
token = os.environ["HF_TOKEN"]
print("printed", token, len(token))
print("error", token, file=sys.stderr)
for letter in token:
    print(letter, end="", flush=True)
print()
os.write(1, ("raw " + token).encode())
display({"text/html": f"<b>{token}</b>", "text/plain": token}, raw=True)
jupyter_gq.progress(0.5, "with " + token)
open(os.path.join(os.environ["GQ_RESULTS_DIR"], "kept"), "w").write("x")
open(os.path.join(os.environ["GQ_RESULTS_DIR"], token), "w").write("x")
raise ValueError("not " + token)
"""


def files_with_secret(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert found
    return [str(path) for path in found if SECRET.encode() in path.read_bytes()]


def test_on_one_machine_the_value_is_read_at_the_start_and_hidden(job: Job, service: Service) -> None:
    job.cwd.mkdir(parents=True, exist_ok=True)
    write_secret(str(job.cwd), "HF_TOKEN", SECRET)
    job.manifest = {"secrets": ["HF_TOKEN"]}
    job.target(SHOWS)
    result = job.run()
    assert (result["outcome"], result["evalue"]) == ("FAILED", "not ***")
    assert f"printed *** {len(SECRET)}\n" in service.text()
    assert "\n***\n" in service.text(), "also if it came letter by letter"
    assert "raw ***" in job.log() + service.text()
    home = job.cwd / ".config"
    assert [path for path in files_with_secret(job.folder.parent) if not path.startswith(str(home))] == []
    assert files_with_secret(home)


def test_the_heading_of_a_cell_in_the_log_hides_the_value_too(job: Job) -> None:
    job.cwd.mkdir(parents=True, exist_ok=True)
    write_secret(str(job.cwd), "HF_TOKEN", SECRET)
    job.manifest = {"secrets": ["HF_TOKEN"]}
    job.target(f"token = '{SECRET}'")
    job.run()
    assert "--- cell 1 of 1 (`token = '***'`)\n" in job.log()


def test_a_secret_that_was_removed_meanwhile_fails_the_job_with_what_to_do(job: Job) -> None:
    job.manifest = {"secrets": ["HF_TOKEN"]}
    job.target("1")
    assert "The secret HF_TOKEN is not stored on this machine" in job.run()["sentence"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("secrets"))
    (made.folder / "home").mkdir()
    made.start()
    yield made
    made.close()


def test_nothing_that_the_service_of_a_cluster_keeps_or_answers_has_the_value(cluster: Cluster) -> None:
    job = cluster.send(("target", "target", SHOWS), secrets=["HF_TOKEN"])
    pod = cluster.pod(job, HF_TOKEN=SECRET)  # as the kubelet sets it from a Secret
    assert pod.run()["outcome"] == "FAILED"
    cluster.over(pod)
    assert f"printed *** {len(SECRET)}\n" in cluster.text(job)
    paths = [
        f"jobs/{job}",
        "jobs",
        f"jobs/{job}/results",
        f"jobs/{job}/outputs",
        f"jobs/{job}/notebook",
        f"jobs/{job}/log",
        "me",
        "audit",
    ]
    answers = {path: cluster.ask(path) for path in paths}
    assert {path: status for path, (status, _) in answers.items() if status != 200} == {}
    assert [path for path, (_, body) in answers.items() if SECRET.encode() in body] == []
    assert json.loads(answers[f"jobs/{job}"][1])["secrets"] == ["HF_TOKEN"]
    assert b'"secrets": "HF_TOKEN"' in answers["audit"][1].replace(b'":"', b'": "')
    assert b"raw ***" in answers[f"jobs/{job}/log"][1]
    found = files_with_secret(cluster.folder)
    assert found == [], "neither the database with bundle, outputs and audit, nor the logs of service and container"
    assert "raw ***" in pod.log()


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"secrets": ["WANDB_API_KEY"]}, b"ask your administrator to add it to c.TrainingQueues.secrets"),
        ({"secrets": ["HF_X"], "environment": {"HF_X": "1"}}, b"both a variable and a secret"),
        ({"secrets": ["JUPYTERHUB_API_TOKEN"]}, b"cannot be the name of a secret"),
        ({"environment": {"HF_TOKEN": SECRET}}, b"looks like a secret"),
    ],
)
def test_a_secret_that_a_job_may_not_have_is_refused(cluster: Cluster, manifest, said) -> None:
    with pytest.raises(AssertionError) as refused:
        cluster.send(("target", "target", "1"), **manifest)
    assert said.decode() in str(refused.value)
    assert SECRET not in str(refused.value)
