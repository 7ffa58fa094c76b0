"""A job in pods: only the service's copy survives a pod, and that is enough to continue."""

import base64
import json
import socket

import psutil
import pytest

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.runner.pod.termination_message import LONGEST, encode_message
from tests.cells import TRAINS
from tests.frozen import list_frozen, split
from tests.patience import scaled

from .conftest import eventually
from .pods import Cluster

ASKS_FOR_A_TOKEN = """
import json, os, urllib.error, urllib.request
token = open(os.environ["THE_TOKEN_FILE"]).read()
url = os.environ["THE_URL"] + "api/v1/jobs/" + os.environ["GQ_JOB_ID"] + "/token"
request = urllib.request.Request(url, method="POST", headers={"Authorization": "Bearer " + token})
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    print(error.code)
    print(error.read().decode())
print(json.dumps(os.listdir(os.environ["GQ_RUN_DIR"])))
"""

LEAVES_PROCESSES = """
import os, subprocess, sys, time
def run(code):
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True).stdout

DAEMON = "import os, time; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True); "
print(run(DAEMON + "os.close(1); time.sleep(1000)").strip())
for _ in range(5):
    run("import os; os.fork() and os._exit(0)")

def about(pid):
    with open(f"/proc/{pid}/stat") as file:
        state, parent = file.read().rpartition(")")[2].split()[:2]
    return state, int(parent)

def zombies_of(parent):
    found = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            found += about(name) == ("Z", parent)
        except OSError:
            pass
    return found

first = about(os.getppid())[1]
while zombies_of(first):
    time.sleep(0.05)
print(0)
"""

#: Looks at three of the processes that copy this job's checkpoints: no secret is in what may be seen of them.
LOOKS_AT_WHO_COPIES = """
import pathlib, time
import jupyter_gq
folder, seen = jupyter_gq.checkpoint_dir(), set()
while len(seen) < 3:
    (folder / "state").write_text(str(time.monotonic()))
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"checkpoint_store" in command and str(folder).encode() in command:
                assert b"with-a-secret" not in command + (process / "environ").read_bytes()
                seen.add(process.name)
        except OSError:
            pass
print(len(seen), "seen")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def service_runs(cluster):
    """Start each test with a running service, whatever the test before did to it."""
    if cluster.process is None:
        cluster.start()


def test_job_runs_in_a_pod_and_delivers_all_outputs(cluster):
    job = cluster.send(
        ("prefix", "prefix", "import os\nprint('replayed')"),
        ("target", "target", "print(os.getcwd(), os.environ['COLOUR'])\n6 * 7"),
        environment={"COLOUR": "blue", "HOME": "/elsewhere", "RANK": "5"},
    )
    pod = cluster.pod(job)
    assert pod.run() == {"outcome": "SUCCEEDED", "sentence": ""}
    assert pod.process.returncode == 0
    outputs = cluster.outputs(job)["target"]
    assert outputs[0]["text"] == f"{cluster.folder / 'home'} blue\n"
    assert outputs[1]["data"]["text/plain"] == "42"
    notebook = cluster.get(f"jobs/{job}/notebook")
    assert [cell["execution_count"] for cell in notebook["cells"]] == [1, 2]
    assert notebook["cells"][1]["outputs"] == outputs
    log = cluster.log(job)
    assert "--- replayed cell 1 of 1 (`import os`)\nreplayed\n" in log
    assert "--- cell 1 of 1 (`print(os.getcwd(), os.environ['COLOUR'])`)\n" in log
    assert " Done." in log
    assert log in pod.log(), "the container's log has all of it too"
    cluster.over(pod)
    eventually(lambda: cluster.get(f"jobs/{job}")["phase"] == "done")


def test_the_whole_log_of_a_pod_is_kept_and_searched(cluster):
    source = "for number in range(30_000):\n    print(f'epoch {number:05}')"
    job = cluster.send(("target", "target", source))
    pod = cluster.pod(job)
    assert pod.run()["outcome"] == "SUCCEEDED"
    size = cluster.get(f"jobs/{job}/log/size")
    (span,) = size["tasks"]
    assert (size["complete"], size["note"], span["start"]) == (True, "", 0)
    content = cluster.ask(f"jobs/{job}/log/content")[1].decode()
    assert len(content.encode()) == span["end"] > 300_000
    assert all(f"epoch {number:05}" in content for number in (0, 12_345, 29_999))
    assert content in pod.log(), "the container's log has all of it too"
    (line,) = cluster.get(f"jobs/{job}/log/lines?contains=epoch%2012345")["lines"]
    assert content.split("\n")[line["line"] - 1] == line["text"] == "epoch 12345"


def test_kernel_has_no_secret_of_the_runner_and_knows_its_gang(cluster):
    gang = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "gq-0.gq", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}
    url = (cluster.folder / "copies").as_uri()
    source = "import os\nfor k in sorted(os.environ):\n    print(k + '=' + os.environ[k])"
    job = cluster.send(("target", "target", source), tasks=2)
    pods = [cluster.pod(job, 1, task, GQ_CHECKPOINT_URL=url, **gang) for task in (0, 1)]
    for pod in pods:
        pod.start()
    assert [pod.finish()["outcome"] for pod in pods] == ["SUCCEEDED"] * 2
    text = cluster.text(job)
    variables = dict(line.partition("=")[::2] for line in text.splitlines())
    assert {name: variables[name] for name in gang} == gang
    ours = {name for name in variables if name.startswith("GQ_")}
    assert ours == {"GQ_JOB_ID", "GQ_RUN_DIR", "GQ_CHECKPOINT_DIR", "GQ_RESULTS_DIR", "GQ_STOP_GRACE"}
    assert variables["GQ_CHECKPOINT_DIR"] == str(pods[0].folder / "checkpoint")
    assert "copies" not in text
    assert cluster.log(job).startswith("== task 0 ==")
    assert "== task 1 ==" in cluster.log(job)
    assert {piece["run"] for piece in cluster.pieces(job)} == {1}, "only task 0 delivers"


def test_no_process_that_the_user_s_code_can_read_has_the_url_of_checkpoints(cluster):
    url = (cluster.folder / "with-a-secret").as_uri()
    job = cluster.send(("target", "target", LOOKS_AT_WHO_COPIES))
    pod = cluster.pod(job, GQ_CHECKPOINT_URL=url, GQ_CHECKPOINT_EVERY="0.1")
    assert pod.run()["outcome"] == "SUCCEEDED"
    assert cluster.text(job) == "3 seen\n"
    assert list((cluster.folder / "with-a-secret" / job / "0").glob("saved-*")), "it was copied all the same"


def test_user_s_code_cannot_exchange_the_token_of_the_pod(cluster):
    job = cluster.send(("target", "target", ASKS_FOR_A_TOKEN))
    pod = cluster.pod(job, THE_URL=cluster.url)
    pod.environment["THE_TOKEN_FILE"] = pod.environment["GQ_TOKEN_FILE"]
    assert pod.run()["outcome"] == "SUCCEEDED"
    status, answer, files = cluster.text(job).splitlines()
    assert (status, json.loads(answer)["code"]) == ("409", "conflict")
    assert "token" not in json.loads(files)


def test_pod_waits_for_a_service_that_is_down_at_the_start(cluster):
    job = cluster.send(("target", "target", "print('x')"))
    cluster.kill()
    pod = cluster.pod(job).start()
    eventually(lambda: "cannot be reached" in pod.log())
    cluster.start()
    assert pod.finish()["outcome"] == "SUCCEEDED"
    assert cluster.text(job) == "x\n"


def test_run_whose_folder_does_not_take_the_result_fails_with_the_reason(cluster):
    source = "import os\nos.makedirs(os.path.join(os.environ['GQ_RUN_DIR'], 'result.json', 'in the way'))"
    pod = cluster.pod(cluster.send(("target", "target", source)))
    result = pod.run()
    assert result["outcome"] == "FAILED"
    assert result["sentence"].endswith("could not be written: result.json: Is a directory.")


def test_run_is_lost_with_a_sentence_if_the_service_stays_down(cluster):
    job = cluster.send(("target", "target", "print('x')"))
    cluster.kill()
    pod = cluster.pod(job, GQ_SERVICE_TIMEOUT="0.5").start()
    assert pod.process.wait(scaled(60)) == 1
    assert pod.message().startswith("The service cannot be reached")
    assert "the job's token did not get through" in pod.message()


def test_service_that_is_down_at_the_end_gets_all_outputs(cluster):
    go = cluster.folder / "go-on"
    wait = (
        f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
    )
    job = cluster.send(("target", "target", wait + "print('ended')"))
    pod = cluster.pod(job).start()
    eventually(lambda: "begun" in cluster.text(job))
    cluster.kill()
    go.touch()
    eventually(lambda: "outputs are kept here" in pod.log() and "ended" in pod.log())
    assert pod.process.poll() is None
    cluster.start()
    assert pod.finish()["outcome"] == "SUCCEEDED"
    assert cluster.text(job) == "begun\nended\n"
    assert "ended" in cluster.log(job)


def test_killed_job_continues_in_another_pod_without_lost_or_doubled_output(cluster):
    marker = cluster.folder / "second-time"
    hangs = (
        f"import os, time\nprint('at it', flush=True)\nwhile not os.path.exists({str(marker)!r}):\n    time.sleep(0.01)"
    )
    job = cluster.send(("one", "target", "print('one')\n1"), ("target", "target", hangs + "\nprint('through')"))
    first = cluster.pod(job).start()
    eventually(lambda: "at it" in cluster.text(job))
    first.kill()
    marker.touch()
    cluster.over(first, "LOST")
    cluster.wait_for_run(job, 2)
    assert cluster.pod(job, 2).run()["outcome"] == "SUCCEEDED"
    assert cluster.text(job) == "at it\nat it\nthrough\n", "an interrupted cell goes on below what it said"
    assert [output["output_type"] for output in cluster.outputs(job)["one"]] == ["stream", "execute_result"]
    assert [piece["seq"] for piece in cluster.pieces(job)] == sorted({p["seq"] for p in cluster.pieces(job)})
    notebook = cluster.get(f"jobs/{job}/notebook")
    assert notebook["metadata"]["jupyter_gq"]["run"] == 2
    assert [cell["outputs"] for cell in notebook["cells"]] == [cluster.outputs(job)[cell] for cell in ("one", "target")]


def test_job_paused_by_sigterm_continues_from_its_checkpoint_in_a_new_pod(cluster):
    url = (cluster.folder / "checkpoints").as_uri()
    job = cluster.send(("one", "target", "print('one')"), ("target", "target", TRAINS))
    first = cluster.pod(job, GQ_CHECKPOINT_URL=url).start()
    eventually(lambda: "from 0" in cluster.text(job))
    first.stop()
    assert first.finish()["outcome"] == "PAUSED"
    assert first.process.returncode == 0
    reached = (first.folder / "checkpoint/epoch").read_text()
    assert cluster.text(job).splitlines() == ["from 0", f"until {reached}"], (
        "what it showed is delivered before it ends"
    )
    cluster.over(first)
    cluster.wait_for_run(job, 2)
    second = cluster.pod(job, 2, GQ_CHECKPOINT_URL=url)
    assert second.run()["outcome"] == "SUCCEEDED"
    again = int(reached) + 1
    assert cluster.text(job).splitlines() == ["from 0", f"until {reached}", f"from {reached}", f"until {again}"]
    assert cluster.text(job, "one") == "one\n"
    cluster.over(second)
    eventually(lambda: cluster.get(f"jobs/{job}")["phase"] == "done")


def test_service_that_never_answers_does_not_use_up_the_grace_period(cluster):
    job = cluster.send(("target", "target", TRAINS))
    pod = cluster.pod(job, GQ_STOP_GRACE="6").start()
    eventually(lambda: "from 0" in cluster.text(job))
    cluster.kill()
    with socket.create_server(("127.0.0.1", cluster.port), backlog=100):
        pod.stop()
        try:
            assert pod.finish(6)["outcome"] == "PAUSED"
        finally:
            pod.clean_up()
    cluster.start()


def test_a_pod_stopped_before_its_job_starts_ends_at_once(cluster):
    job = cluster.send(("target", "target", "print('x')"))
    cluster.kill()
    pod = cluster.pod(job).start()
    eventually(lambda: "cannot be reached" in pod.log())
    pod.stop()
    assert pod.finish(10)["outcome"] == "PAUSED"
    assert pod.process.returncode == 0


def test_code_that_does_not_stop_is_killed_in_time_for_its_checkpoint(cluster):
    url = (cluster.folder / "late").as_uri()
    source = (
        "import jupyter_gq, time\n(jupyter_gq.checkpoint_dir() / 'state').write_text('kept')\nprint('deaf', flush=True)"
    )
    job = cluster.send(("target", "target", source + "\nwhile True:\n    time.sleep(0.01)"))
    pod = cluster.pod(job, GQ_CHECKPOINT_URL=url, GQ_STOP_GRACE="6").start()
    eventually(lambda: "deaf" in cluster.text(job))
    pod.stop()
    assert pod.finish(20)["outcome"] == "KILLED"
    later = cluster.pod(job, 2, GQ_CHECKPOINT_URL=url)
    cluster.over(pod)
    cluster.wait_for_run(job, 2)
    later.start()
    eventually(lambda: (later.folder / "checkpoint/state").exists())
    assert (later.folder / "checkpoint/state").read_text() == "kept"
    later.kill()


def test_no_process_is_left_and_ended_ones_are_reaped(cluster):
    job = cluster.send(("target", "target", LEAVES_PROCESSES))
    pod = cluster.pod(job)
    assert pod.run()["outcome"] == "SUCCEEDED", pod.log()
    daemon, zombies = cluster.text(job).split()
    assert zombies == "0"
    assert not psutil.pid_exists(int(daemon))


def test_run_is_lost_with_a_sentence_if_its_runner_dies(cluster):
    source = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time\ntime.sleep(100)"
    job = cluster.send(("target", "target", source))
    pod = cluster.pod(job).start()
    assert pod.process.wait(scaled(60)) == 1
    assert pod.message().startswith("The runner ended without a result (signal 9, most often")


@pytest.mark.parametrize(("token", "told"), [("nonsense", "does not vouch"), ("pod:other:1:0", "is no task of run 1")])
def test_a_pod_with_a_wrong_token_ends_with_a_sentence(cluster, token, told):
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job, GQ_REFUSAL_TIMEOUT="0.5")
    (pod.folder / "sa-token").write_text(token)
    result = pod.run()
    assert (result["outcome"], pod.process.returncode) == ("FAILED", 1)
    assert result["sentence"].startswith("The scheduler service refuses this pod: ")
    assert told in result["sentence"]
    assert cluster.pieces(job) == []


def test_a_pod_of_a_run_that_is_over_runs_nothing(cluster):
    job = cluster.send(("target", "target", "print('x')"))
    first = cluster.pod(job)
    cluster.over(first, "LOST")
    cluster.wait_for_run(job, 2)
    first.environment["GQ_REFUSAL_TIMEOUT"] = "0.5"
    assert "no task of run 2" in first.run()["sentence"]


def test_bundle_that_is_too_large_for_the_pod_is_refused_with_numbers(cluster):
    job = cluster.send(("target", "target", f"x = '{'y' * 2**20}'"))
    result = cluster.pod(job, GQ_BUNDLE_LIMIT=str(2**19)).run()
    assert result["outcome"] == "FAILED"
    assert "have 1.0 MiB together, and a pod takes at most 0.5 MiB" in result["sentence"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("somewhere", "is no URL"),
        ("foo://user:secret@host/x", r"of a kind that is not known (foo://)"),
        ("s3://bucket/x", "s3fs"),
    ],
)
def test_unusable_checkpoint_url_ends_the_run_with_a_sentence(cluster, url, told):
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job, GQ_CHECKPOINT_URL=url)
    result = pod.run()
    assert result["outcome"] == "FAILED"
    assert told in result["sentence"]
    assert "secret" not in result["sentence"] + pod.log()
    assert cluster.pieces(job) == []


def test_pod_without_its_variables_names_them(cluster):
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job)
    del pod.environment["GQ_SERVICE_URL"], pod.environment["GQ_RUN"]
    assert "made without GQ_RUN, GQ_SERVICE_URL" in pod.run()["sentence"]


def test_long_sentence_is_cut_and_the_message_stays_valid():
    for character in ("x", "ä", "\U0001f600", '"'):
        message = encode_message({"outcome": "FAILED", "sentence": character * 10_000})
        assert len(message) <= LONGEST
        told = json.loads(message)
        assert (told["outcome"], told["sentence"][:2], told["sentence"][-1]) == ("FAILED", character * 2, "…")
    assert encode_message({"outcome": "LOST", "sentence": "gone"}) == b"gone"
    assert json.loads(encode_message({"outcome": "PAUSED", "sentence": ""})) == {"outcome": "PAUSED", "sentence": ""}


# --- the devices are checked before anything runs


@pytest.fixture
def set_check(cluster):
    yield cluster.set_device_check
    (cluster.folder / "device_check").unlink()


def test_nothing_runs_before_the_device_check_succeeds(cluster, set_check):
    set_check("UNCHECKED", "No agent has checked it.", required=True)
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job, GQ_DEVICES_WAIT="0.1").start()
    eventually(lambda: "Waiting for the check of this job's devices. No agent has checked it." in pod.log())
    assert cluster.text(job) == ""
    set_check("RIGHT")
    assert pod.finish()["outcome"] == "SUCCEEDED"
    assert cluster.text(job) == "x\n"
    assert "were not checked" not in pod.log()


def test_nothing_runs_if_the_container_sees_foreign_devices(cluster, set_check):
    set_check("WRONG", "DEVICE_MISMATCH: it sees others.")
    job = cluster.send(("target", "target", "print('x')"))
    assert cluster.pod(job).run() == {"outcome": "FAILED", "sentence": "DEVICE_MISMATCH: it sees others."}
    assert cluster.text(job) == ""


@pytest.mark.parametrize("required", [True, False])
def test_a_job_whose_devices_cannot_be_checked_runs_and_the_log_says_so(cluster, set_check, required):
    set_check("UNCLEAR", "The driver does not tell.", required=required)
    job = cluster.send(("target", "target", "print('x')"))
    assert cluster.pod(job).run()["outcome"] == "SUCCEEDED"
    assert "The job starts although its devices were not checked. The driver does not tell." in cluster.log(job)


@pytest.mark.parametrize("result", ["UNCHECKED", "UNWATCHED"])
def test_a_job_without_a_required_check_runs_after_the_timeout(cluster, set_check, result):
    set_check(result, "The agent is silent.")
    job = cluster.send(("target", "target", "print('x')"))
    assert cluster.pod(job, GQ_DEVICES_WAIT="1").run()["outcome"] == "SUCCEEDED"
    assert "The job starts although its devices were not checked. The agent is silent." in cluster.log(job)


def test_a_required_check_that_is_not_made_loses_the_run_and_not_the_job(cluster, set_check):
    set_check("UNWATCHED", "The agent is silent.", required=True)
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job, GQ_DEVICES_WAIT="0.1", GQ_DEVICES_LONGEST="1").start()
    assert pod.process.wait(scaled(60)) == 1
    told = (
        "The devices of this job must be checked before it starts, and nobody checked them within 1 s: "
        "The agent is silent."
    )
    assert pod.message() == told, "a bare sentence is no result of the job"
    assert cluster.text(job) == ""


def test_a_pod_stopped_during_the_device_check_has_not_started_its_job(cluster, set_check):
    set_check("UNCHECKED", required=True)
    job = cluster.send(("target", "target", "print('x')"))
    pod = cluster.pod(job).start()
    eventually(lambda: "Waiting for the check" in pod.log())
    pod.stop()
    assert pod.finish() == {"outcome": "PAUSED", "sentence": "The job was told to stop before it had started."}


def test_a_pod_has_the_files_that_the_job_takes_along_and_imports_them(cluster: Cluster) -> None:
    files = {"net.py": b"WIDTH = 7\n", "conf/a.txt": b"x" * (PART_SIZE + 1)}
    parts = [part for content in files.values() for part in split(content)]
    for part in parts:
        body = {"contents": [base64.b64encode(part).decode()]}
        assert cluster.ask("files", "POST", body)[0] == 204
    source = "import net, os\nprint(net.WIDTH, os.path.getsize('conf/a.txt'))"
    job = cluster.send(("target", "target", source), files=list_frozen(files))
    assert cluster.pod(job).run()["outcome"] == "SUCCEEDED"
    eventually(lambda: cluster.text(job) == f"7 {PART_SIZE + 1}\n")
