"""The planning commands on a written state: what they print, what they refuse."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gq.app import main
from jupyter_gq.client.state import LiveState, read_state, state_document
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import NewNodes, NodeRequest
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.workload import Kind, TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_node, backing_off, running, stopping


def world() -> Cluster:
    """vision holds both GPUs, nlp waits for its one; a notebook of ann's beside them."""
    cluster = Cluster().node("box", devices=2).queue("vision", quota=1).queue("nlp", quota=1)
    cluster.fixed("train", ann="0.25")
    first = running(a_job("first", "vision"), "box-0")
    second = running(a_job("second", "vision", submitted=5), "box-1", since=900)
    return cluster.add(first, second, a_job("waits", "nlp", owner="bob"), a_job("later", "nlp", submitted=9))


def written(folder: Path, cluster: Cluster | None = None, **inputs) -> Path:
    """A state file; `inputs` are fields of its snapshot."""
    snapshot, policy = replace((cluster or world()).snapshot(), **inputs), Policy()
    file = folder / "state.json"
    state = LiveState(at=NOW, policy=policy, snapshot=snapshot)
    file.write_text(json.dumps(state_document(state, run_cycle(snapshot, policy, NOW))))
    return file


def test_a_state_is_read_as_it_was_written(tmp_path):
    cluster = world().add(stopping(running(a_job("going", "nlp", gpus=0), state="RUNNING"), by="waits"))
    state = read_state(written(tmp_path, cluster).read_bytes()).state
    assert state == LiveState(at=NOW, policy=Policy(), snapshot=cluster.snapshot())
    assert isinstance(state.snapshot.workloads[0].placement[0], TaskPlacement)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda d: d.clear(), 'an object with "format"'),
        (lambda d: d["snapshot"]["queues"][0].update(qouta=1), "no such field: snapshot.queues[0].qouta"),
        (lambda d: d["snapshot"]["queues"][0].update(quota="much"), "snapshot.queues[0].quota"),
        (lambda d: d["snapshot"].pop("nodes"), "snapshot.nodes: Field required"),
        (lambda d: d["policy"].update(placement="tetris"), "policy.placement: Input should be 'pack'"),
        (lambda d: d["policy"].update(reservations=-1), "policy: Value error, reservations is -1"),
        (lambda d: d.update(decision=[]), '"decision" must hold'),
    ],
)
def test_a_damaged_state_is_refused_with_its_place(tmp_path, damage, sentence):
    document = json.loads(written(tmp_path).read_text())
    damage(document)
    with pytest.raises(InvalidSnapshot) as refusal:
        read_state(json.dumps(document))
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "line 1, column 2"), (b"\xff\xfe{}", "not JSON"), (f'{{"a": {"9" * 5000}}}', "has thousands of digits")],
)
def test_what_is_no_json_is_refused(text, sentence):
    with pytest.raises(InvalidSnapshot) as refusal:
        read_state(text)
    assert sentence in str(refusal.value)


def test_replaying_gives_the_same_decision(tmp_path, capsys):
    assert main(["replay", str(written(tmp_path))]) == 0
    assert "The same decision" in capsys.readouterr().out


def test_replaying_gives_the_same_decision_where_a_workload_backs_off(tmp_path, capsys):
    cluster = world().add(backing_off(a_job("refused", "nlp", submitted=1)), a_job("last", "nlp", submitted=99))
    file = written(tmp_path, cluster)
    document = json.loads(file.read_text())
    places = {entry["workload"]: entry["position"] for entry in document["decision"]["pending"]}
    assert (places["refused"], places["last"]) == (2, 4)
    assert main(["replay", str(file)]) == 0
    assert "The same decision" in capsys.readouterr().out


FREE = Cluster().node("box", devices=2).queue("vision", quota=1).fixed("train", ann="0.25")
NEW = NewNodes(pool="train", like=a_node("new", 2), count=1, request=NodeRequest(since=Instant(NOW - 200)))


@pytest.mark.parametrize(
    ("inputs", "reason", "sentence"),
    [
        ({"unobserved": (Kind.TRAINING,)}, "OUT_OF_SIGHT", "the state of running work is unknown"),
        ({"launch_capacity": {Kind.TRAINING: 1}}, "STARTS_SOON", "The job starts soon"),
        ({"new_nodes": (NEW,), "nodes": ()}, "NO_DEVICE", "A new node of train was asked for 3 min ago."),
    ],
    ids=["unobserved", "launch capacity", "new nodes"],
)
def test_replaying_knows_every_input_of_the_decision(tmp_path, capsys, inputs, reason, sentence):
    cluster = copy.deepcopy(FREE).add(*(a_job(name, "vision", submitted=n) for n, name in enumerate("abc")))
    file = written(tmp_path, cluster, **inputs)
    document = json.loads(file.read_text())
    assert read_state(file.read_bytes()).state.snapshot == replace(cluster.snapshot(), **inputs)
    told = [entry["why"] for entry in document["decision"]["pending"] if entry["why"]["reason"] == reason]
    assert sentence in told[0]["sentence"]
    assert main(["replay", str(file)]) == 0, capsys.readouterr().out
    for name in inputs:
        document["snapshot"][name] = [] if name != "launch_capacity" else {}
    file.write_text(json.dumps(document))
    assert main(["replay", str(file)]) == 1, "without that input it is another decision"


def test_a_state_of_an_older_release_is_read(tmp_path):
    """Inputs that it does not name are as if there were none."""
    document = json.loads(written(tmp_path, new_nodes=(replace(NEW, request=None),)).read_text())
    del document["snapshot"]["unobserved"], document["snapshot"]["launch_capacity"]
    del document["snapshot"]["new_nodes"][0]["request"]
    for workload in document["snapshot"]["workloads"]:
        del workload["backoff"]
    for node in (*document["snapshot"]["nodes"], document["snapshot"]["new_nodes"][0]["like"]):
        node["emptying"] = node.pop("draining")
    expected = replace(world().snapshot(), new_nodes=(replace(NEW, request=None),))
    assert read_state(json.dumps(document)).state.snapshot == expected


def test_replaying_shows_who_is_treated_otherwise(tmp_path, capsys):
    file = written(tmp_path)
    document = json.loads(file.read_text())
    document["decision"]["instructions"] = []
    file.write_text(json.dumps(document))
    assert main(["replay", str(file)]) == 1
    said = capsys.readouterr().out
    assert "second: was nothing; is Evict" in said
    assert "2 differences " in said


def test_more_quota_lets_the_second_one_start_too(tmp_path, capsys):
    assert main(["whatif", str(written(tmp_path)), "--set", "queue.nlp.quota=2", "--set", "queue.vision.quota=0"]) == 0
    said = capsys.readouterr().out
    assert "first (ann's first)" in said
    assert "now:   goes on" in said


def test_a_new_node_lets_everybody_start(tmp_path, capsys):
    assert main(["whatif", str(written(tmp_path)), "--add-nodes", "1x2"]) == 0
    said = capsys.readouterr().out
    assert "waits (bob's waits)" in said
    assert "then:  starts now" in said
    assert "second (ann's second)\n" in said


def test_it_is_said_when_who_waits_is_expected_to_start(tmp_path, capsys):
    cluster = Cluster().node("box", devices=1).queue("vision", quota=1)
    cluster.add(
        running(a_job("now", "vision", estimate=Seconds(4000)), "box-0"), a_job("first", "vision", estimate=600)
    )
    cluster.add(a_job("second", "vision", submitted=5, estimate=600))
    assert main(["whatif", str(written(tmp_path, cluster)), "--set", "job.second.priority=9"]) == 0
    said = capsys.readouterr().out
    assert "second (ann's second)\n  now:   Waiting" in said
    assert (
        "Expected to start in about 60 min." in said
    )  # 4000 s, less the 1000 s that it ran, and the first one's 600 s
    assert "Expected to start in about 50 min." in said


def test_without_its_node_everything_waits(tmp_path, capsys):
    assert main(["whatif", str(written(tmp_path)), "--remove-node", "box"]) == 0
    assert "first (ann's first)\n  now:   goes on\n  then:  Waiting" in capsys.readouterr().out


def test_a_smaller_request_and_another_queue(tmp_path, capsys):
    file = str(written(tmp_path))
    assert main(["whatif", file, "--set", "job.first.gpus=0.5"]) == 0
    assert "later (ann's later)" in capsys.readouterr().out
    assert main(["whatif", file, "--set", "job.later.queue=vision"]) == 0
    assert "vision" in capsys.readouterr().out


def test_no_change_changes_nothing(tmp_path, capsys):
    assert main(["whatif", str(written(tmp_path)), "--set", "policy.placement=spread"]) == 0
    assert "Nothing changes." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("quota=8", "is no change"),
        ("queue.visoin.quota=8", "Did you mean 'vision'?"),
        ("queue.vision.quta=8", "Did you mean 'quota'?"),
        ("queue.vision.quota=many", "queue.vision.quota cannot be 'many'"),
        ("queue.vision.quota=-1", "it is negative"),
        ("queue.vision.priority=high", "queue.vision.priority cannot be 'high'"),
        ("queue.vision.over_quota_weight=-1", "expected 0 or more"),
        ("queue.vision.reclaim_min_runtime=-5", "expected 0 or more"),
        ("job.nobody.gpus=1", "There is no job 'nobody'"),
        ("job.waits.gpus=1.5", "neither a fraction"),
        ("job.waits.tasks=0", "expected 1 or more"),
        ("job.waits.queue=dev", "There is no queue 'dev'"),
        ("policy.placement=tetris", "expected pack or spread"),
        ("policy.fraction_placement=tetris", "expected pack or spread"),
        ("policy.placement=none", "expected pack or spread"),
        ("policy.reservations=-1", "expected 0 or more"),
        ("policy.reservations=0.5", "policy.reservations cannot be '0.5'"),
        ("policy.reclaim_margin=0.5", "expected 1 or more"),
        ("policy.usage.weight=none", "policy.usage.weight cannot be 'none'"),
        ("policy.placemnt=pack", "Did you mean 'placement'?"),
        ("policy.idle=5", "has parts"),
        ("policy.idle.after=soon", "policy.idle.after cannot be 'soon'"),
        ("policy.idle.always=perhaps", "expected true or false"),
        ("cluster.all.size=8", "begins with 'cluster'"),
    ],
)
def test_a_change_that_cannot_be_is_refused(tmp_path, capsys, change, sentence):
    assert main(["whatif", str(written(tmp_path)), "--set", change]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Nothing is changed"),
        (["--add-nodes", "two"], "write COUNTxGPUS"),
        (["--add-nodes", "1x8:dev"], "There is no pool 'dev'"),
        (["--remove-node", "bx"], "Did you mean 'box'?"),
    ],
)
def test_nodes_that_cannot_be_are_refused(tmp_path, capsys, arguments, sentence):
    assert main(["whatif", str(written(tmp_path)), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_two_jobs_of_one_name_are_told_apart_by_id(tmp_path, capsys):
    file = str(written(tmp_path, world().add(replace(a_job("twin", "nlp", submitted=20), name="waits"))))
    assert main(["whatif", file, "--set", "job.twin.priority=5"]) == 0
    assert main(["whatif", file, "--set", "job.waits.priority=5"]) == 0  # an id goes before a name
    assert main(["whatif", file, "--set", "job.nobody.priority=5"]) == 2
    file = str(
        written(tmp_path, world().add(replace(a_job("a", "nlp"), name="x"), replace(a_job("b", "nlp"), name="x")))
    )
    assert main(["whatif", file, "--set", "job.x.priority=5"]) == 2
    assert "There are 2 jobs named 'x'; use the id. Known: a, b." in capsys.readouterr().err


@pytest.mark.parametrize("command", ["replay", "whatif"])
def test_a_file_that_is_not_there(tmp_path, capsys, command):
    assert main([command, str(tmp_path / "none.json"), *(["--add-nodes", "1x1"] if command == "whatif" else [])]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_snapshot_needs_an_address_and_a_token(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    for name in ("JUPYTER_GQ_URL", "JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main(["snapshot"]) == 2
    assert "--url" in capsys.readouterr().err
    assert main(["snapshot", "--no-wait", "--url", "http://127.0.0.1:1"]) == 2
    assert "There is no token for http://127.0.0.1:1" in capsys.readouterr().err


def test_a_service_that_does_not_answer_is_told(capsys, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "t")
    assert main(["snapshot", "--no-wait", "--url", "http://127.0.0.1:1"]) == 4
    assert "http://127.0.0.1:1" in capsys.readouterr().err


def test_a_state_that_contradicts_itself_is_refused(tmp_path, capsys):
    file = written(tmp_path)
    document = json.loads(file.read_text())
    document["snapshot"]["queues"][0]["parent"] = "nobody"
    file.write_text(json.dumps(document))
    assert main(["replay", str(file)]) != 0
    assert "is below 'nobody'; expected one of the queues that there are" in capsys.readouterr().err
