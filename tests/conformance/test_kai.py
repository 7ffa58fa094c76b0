"""The harness on small cases of our own; and the peer's tables, where a folder with them is named."""

import json
import os
from pathlib import Path

import pytest

from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.scheduling.decision import Pending
from jupyter_gq.scheduling.placement import resolved
from tests.explanations import explained

from .kai.__main__ import main
from .kai.play import policy_of
from .kai.report import as_json, lines
from .kai.run import run_case, run_folder
from .kai.timing import one_case, time_cycle
from .kai.tiny import a_case, a_job, a_queue
from .kai.translate import NOW, snapshot_of, world_of
from .kai.verdict import Case, Untranslatable, Verdict

TABLES = os.environ.get("JUPYTER_GQ_CONFORMANCE")
TWO_QUEUES = [a_queue("vision", 1, order=0), a_queue("nlp", 1, order=1)]


def verdict(case: Case) -> Verdict:
    return run_case(case, "ours.json", "ours")


def test_what_fits_is_placed():
    case = a_case(
        a_job("new", "vision", 1, "Pending"), queues=TWO_QUEUES, gpus={"a": 1}, action="allocate", new="Binding"
    )
    assert verdict(case).agrees


def test_an_entitled_queue_takes_back_and_its_victim_stops():
    case = a_case(
        a_job("borrower", "nlp", 1, "Running a", age=2),
        a_job("owner", "nlp", 1, "Running a", age=3),
        a_job("entitled", "vision", 1, "Pending"),
        queues=TWO_QUEUES,
        gpus={"a": 2},
        action="reclaim",
        borrower="Releasing",
        owner="Running",
        entitled="Pipelined",
    )
    assert verdict(case).agrees


def test_after_the_rounds_the_entitled_one_runs_and_stays():
    case = a_case(
        a_job("borrower", "nlp", 1, "Running a", age=2),
        a_job("owner", "nlp", 1, "Running a", age=3),
        a_job("entitled", "vision", 1, "Pending"),
        queues=TWO_QUEUES,
        gpus={"a": 2},
        borrower="Pending",
        owner="Running",
        entitled="Running",
    )
    assert verdict(case).agrees


def test_higher_priority_preempts_inside_its_queue():
    case = a_case(
        a_job("low", "vision", 1, "Running a", age=2),
        a_job("high", "vision", 1, "Pending", priority=75),
        queues=TWO_QUEUES,
        gpus={"a": 1},
        action="preempt",
        low="Releasing",
        high="Pipelined",
    )
    assert verdict(case).agrees


def test_a_difference_is_told_and_has_no_reason_unless_a_feature_fits():
    case = a_case(
        a_job("new", "vision", 1, "Pending"), queues=TWO_QUEUES, gpus={"a": 1}, action="allocate", new="Pending"
    )
    found = verdict(case)
    assert [(d.what, d.expected, d.ours) for d in found.differences] == [("new-0", "Pending", "Binding")]
    assert found.reasons == ()
    assert "no reason known" in "\n".join(lines([found]))


def test_agreement_by_a_step_that_we_do_not_have_is_counted_apart():
    case = a_case(
        a_job("here", "vision", 1, "Running a"),
        queues=TWO_QUEUES,
        gpus={"a": 1},
        action="defragment",
        here="Running",
    )
    found = verdict(case)
    assert found.agrees
    assert found.no_step


def test_work_that_moves_and_the_one_for_whom_it_moves_run_in_the_next_round():
    case = a_case(
        a_job("left", "vision", 1, "Running a", age=3),
        a_job("right", "vision", 1, "Running b", age=2),
        a_job("wide", "vision", 2, "Pending"),
        queues=[a_queue("vision", 4)],
        gpus={"a": 2, "b": 2},
        left="Running",
        right="Running",
        wide="Running",
    )
    assert verdict(case).agrees


def test_fractions_of_one_group_share_a_device_and_others_do_not():
    case = a_case(
        a_job("one", "vision", 0.5, "Running a g0"),
        a_job("two", "vision", 0.5, "Running a g0"),
        a_job("three", "vision", 0.5, "Running a"),
        queues=TWO_QUEUES,
        gpus={"a": 2},
    )
    one, two, three = (workload.placement[0].devices for workload in snapshot_of(world_of(case)).workloads)
    assert one == two
    assert one != three


def test_device_memory_is_the_fraction_that_it_makes_rounded_up():
    job = a_job("new", "vision", 0, "Pending", kind="memory", gpu_memory_per_task=33.4)
    snapshot = snapshot_of(world_of(a_case(job, queues=TWO_QUEUES, gpus={"a": 1})))
    (workload,) = resolved(snapshot).workloads
    assert (workload.request.devices, workload.request.milli_per_device) == (1, 340)


def test_a_case_that_contradicts_itself_is_a_disagreement_with_a_sentence():
    case = a_case(a_job("big", "vision", 2, "Running a"), queues=TWO_QUEUES, gpus={"a": 1}, big="Running")
    (difference,) = verdict(case).differences
    assert difference.ours == "the node a has fewer GPUs than its tasks hold"


def test_what_cannot_be_said_in_our_snapshot_is_a_disagreement_with_its_reason():
    job = a_job("sliced", "vision", 0, "Pending", kind="mig")
    found = verdict(a_case(job, queues=TWO_QUEUES, gpus={"a": 1}, sliced="Running"))
    assert found.reasons == ("other-devices",)


def test_queues_that_are_no_tree_are_told():
    queues = [a_queue("vision", 1, parent="nlp"), a_queue("nlp", 1, parent="vision")]
    case = a_case(a_job("new", "vision", 1, "Pending"), queues=queues, gpus={"a": 1}, new="Running")
    (difference,) = verdict(case).differences
    assert "is above itself" in difference.ours


def _amounts(**given: float) -> dict[str, float]:
    return {
        "deserved": 0.0,
        "limit": -1.0,
        "over_quota_weight": 1.0,
        "request": 0.0,
        "allocated": 0.0,
        "allocated_non_preemptible": 0.0,
        "fair_share": 0.0,
        **given,
    }


def _row(name: str, parent: str | None = None, **gpu: float) -> Case:
    resources = {"GPU": _amounts(**gpu), "CPU": _amounts(limit=0.0), "Memory": _amounts(limit=0.0)}
    return {"id": name, "parent": parent, "children": [], "priority": 0, "created": 0, "resources": resources}


def test_shares_are_divided_and_what_is_left_is_compared():
    case = {
        "kind": "set_resource_share",
        "total": {"GPU": 5.0},
        "queues": [_row("a", deserved=1.0, request=2.0), _row("b", deserved=1.0, request=1.0)],
        "expected": {"fair_share": {"a": {"GPU": 2.0}, "b": {"GPU": 1.0}}, "remaining": 2.0},
    }
    assert verdict(case).agrees
    case["expected"]["remaining"] = 1.0
    assert [d.what for d in verdict(case).differences] == ["GPU left"]


@pytest.mark.parametrize(("allocated", "answer"), [(2.0, True), (1.0, False)])
def test_the_reclaim_rule_is_asked(allocated: float, answer: bool):
    case = {
        "kind": "reclaimable",
        "queues": [
            _row("a", "top", deserved=1.0, fair_share=1.0),
            _row("b", "top", deserved=1.0, fair_share=1.0, allocated=allocated),
            _row("top", deserved=2.0, fair_share=2.0, allocated=allocated),
        ],
        "reclaimer": {"queue": "a", "preemptible": True, "gpus": 1.0},
        "victims": {"b": [{"gpus": 1.0}]},
        "expected": {"result": answer},
    }
    assert verdict(case).agrees


def a_shared_device(**fields) -> Case:
    """Three GPUs: on one, a part of the device is being freed; two are held."""
    return a_case(
        a_job("stops", "vision", 0.5, "Releasing a g0", **fields),
        a_job("stays", "vision", 0.5, "Running a g0", **fields),
        a_job("new", "vision", 0.5, "Pending", **fields),
        queues=TWO_QUEUES,
        gpus={"a": 2},
        action="allocate",
        new="Pipelined",
    )


def test_that_work_starts_now_is_a_reason_only_where_a_part_of_a_device_is_being_freed():
    assert verdict(a_shared_device()).reasons == ("starts-now",)
    whole = a_case(
        a_job("new", "vision", 1, "Pending"), queues=TWO_QUEUES, gpus={"a": 1}, action="allocate", new="Pipelined"
    )
    found = verdict(whole)
    assert [(d.expected, d.ours) for d in found.differences] == [("Pipelined", "Binding")]
    assert found.reasons == ()


@pytest.mark.parametrize(("gpus", "reasons"), [({"a": 1}, ("queue-cpu-memory",)), ({"a": 0}, ())])
def test_cpu_of_queues_is_a_reason_only_where_the_difference_vanishes_without_cpu(gpus, reasons):
    """The node has no core free for the job; where it has no GPU either, cores are not the reason."""
    queues = [{**a_queue("vision", 1), "deserved_cpu_milli": 1000.0}]
    job = {**a_job("new", "vision", 1, "Pending"), "cpu_cores_per_task": 99_999.0}
    found = verdict(a_case(job, queues=queues, gpus=gpus, action="allocate", new="Binding"))
    assert found.differences
    assert found.reasons == reasons


def test_no_amount_is_rounded_away():
    job = {**a_job("new", "vision", 1, "Pending"), "cpu_cores_per_task": 0.0001, "memory_bytes_per_task": 700.4}
    case = a_case(job, queues=[{**a_queue("vision", 1), "limit_memory_mb": 0.5}], gpus={"a": 1})
    snapshot = snapshot_of(world_of(case))
    assert (snapshot.workloads[0].request.cpu_milli, snapshot.workloads[0].request.memory) == (1, 701)
    assert (snapshot.nodes[0].memory, [q.memory_limit for q in snapshot.queues]) == (20e9, [None, 500_000])


def test_a_limit_of_0_is_none():
    queues = [{**a_queue("vision", 1), "limit_gpus": 0.0, "limit_cpu_milli": 0.0}]
    case = a_case(a_job("new", "vision", 1, "Pending"), queues=queues, gpus={"a": 1}, action="allocate", new="Binding")
    assert verdict(case).agrees


def test_json_has_sums_by_tier_and_every_disagreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    good = a_case(
        a_job("new", "vision", 1, "Pending"), queues=TWO_QUEUES, gpus={"a": 1}, action="allocate", new="Binding"
    )
    bad = {**good, "id": "other", "expected": {"jobs": {"new": {"status": "Pending"}}, "tasks": {}}}
    (tmp_path / "ours.json").write_text(json.dumps({"cases": [good, bad]}))
    out = tmp_path / "result" / "out.json"
    out.parent.mkdir()
    assert main([str(tmp_path), "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    tier = result["tiers"]["1"]
    assert (tier["cases"], tier["agree"], tier["intended"], tier["without_step"]) == (2, 1, 0, 0)
    assert [entry["case"] for entry in result["disagreements"]] == ["other"]
    assert "ours.json" in capsys.readouterr().out


def test_a_folder_without_cases_is_an_error(tmp_path: Path):
    assert main([str(tmp_path)]) == 2


def test_one_case_is_timed(tmp_path: Path):
    case = a_case(a_job("new", "vision", 1, "Pending"), queues=TWO_QUEUES, gpus={"a": 1})
    path = tmp_path / "one.json"
    path.write_text(json.dumps(case))
    assert time_cycle(one_case(path), 2).startswith("cycle: least ")
    path.write_text(json.dumps({"cases": [case, case]}))
    with pytest.raises(Untranslatable):
        one_case(path)
    assert main(["--time", str(path)]) == 2


@pytest.mark.skipif(not TABLES, reason="JUPYTER_GQ_CONFORMANCE does not name a folder with the tables")
def test_every_disagreement_with_the_tables_has_a_reason():
    verdicts = run_folder(Path(TABLES or ""))
    assert as_json(verdicts)["tiers"]
    assert [v.id for v in verdicts if not v.agrees and not v.reasons] == []


@pytest.mark.parametrize(
    ("method", "victim", "expected"), [("queue", "team", 7), ("lca", "team", 9), ("preempt", "team", 2)]
)
def test_a_table_of_least_run_times_goes_through_our_rule(tmp_path, method, victim, expected):
    rows = [("top", None, None, 9), ("team", "top", None, 7), ("other", None, None, None)]
    queues = [
        {"name": name, "parent": parent, "preempt_min_runtime_s": preempt, "reclaim_min_runtime_s": reclaim}
        for name, parent, preempt, reclaim in rows
    ]
    case = {"method": method, "reclaimer_queue": "other", "victim_queue": victim, "expected_s": expected}
    table = {"queues": queues, "defaults_s": {"preempt": 2, "reclaim": 1}, "cases": [case, {**case, "expected_s": 99}]}
    (tmp_path / "times.json").write_text(json.dumps(table))
    first, second = run_folder(tmp_path)
    assert first.agrees
    assert [(d.expected, d.ours) for d in second.differences] == [("99 s", f"{expected} s")]


def a_tree(**least: int) -> dict:
    podsets = [{"name": name, "min_available": count, "topology": None} for name, count in least.items()]
    return {"name": "", "topology": None, "podsets": podsets, "subgroups": []}


def test_a_node_has_room_for_so_many_tasks_as_its_memory_allows():
    jobs = [a_job(name, "vision", 0, "Pending", memory_bytes_per_task=8e9) for name in "xyz"]
    case = a_case(*jobs, queues=TWO_QUEUES, gpus={"a": 1}, action="allocate", x="Binding", y="Binding", z="Pending")
    assert verdict(case).differences == ()


def test_a_task_goes_to_the_nodes_that_it_asks_for():
    job = a_job("x", "vision", 1, "Pending")
    job["tasks"] = [{**job["tasks"][0], "node_affinity": ["fast"]}]
    case = a_case(job, queues=TWO_QUEUES, gpus={"a": 1, "b": 1}, action="allocate", x="Binding")
    case["nodes"][1]["labels"] = {"kai.scheduler/type": "fast"}
    case["expected"]["jobs"]["x"]["node"] = "b"
    assert (verdict(case).differences, verdict(case).elsewhere) == ((), 0)
    job["tasks"][0]["node_affinity"] = ["slow"]
    case["expected"]["jobs"]["x"] = {"status": "Pending"}
    assert verdict(case).differences == ()
    job["tasks"][0]["node_affinity"] = ["fast", "slow"]
    with pytest.raises(Untranslatable):
        world_of(case)


def in_group(job: dict, *groups: str) -> dict:
    tasks = [{**task, "subgroup": group} for task, group in zip(job["tasks"], groups, strict=True)]
    return {**job, "tasks": tasks, "min_available": 2, "subgroup_tree": a_tree(lead=1, work=1)}


def test_each_group_of_a_job_starts_with_its_own_least_size():
    job = in_group(a_job("g", "vision", 1, "Pending", "Pending", "Pending"), "work", "work", "lead")
    case = a_case(job, queues=TWO_QUEUES, gpus={"a": 2}, action="allocate")
    case["expected"]["tasks"] = {f"g-{i}": {"status": s} for i, s in enumerate(("Binding", "Pending", "Binding"))}
    assert verdict(case).differences == ()


def test_a_task_may_ask_for_another_amount_than_its_job():
    job = in_group(a_job("g", "vision", 0, "Pending", "Pending"), "work", "lead")
    job["tasks"] = [{**task, "gpus": gpus} for task, gpus in zip(job["tasks"], (1, 2), strict=True)]
    fits = a_case(job, queues=TWO_QUEUES, gpus={"a": 3}, action="allocate", g="Binding")
    assert verdict(fits).differences == ()
    does_not = a_case(job, queues=TWO_QUEUES, gpus={"a": 2}, action="allocate", g="Pending")
    assert verdict(does_not).differences == ()


@pytest.mark.skipif(not TABLES, reason="JUPYTER_GQ_CONFORMANCE does not name a folder with the tables")
def test_what_is_told_in_every_case_is_true():
    told = 0
    for path in sorted(Path(TABLES or "").glob("*.json")):
        for case in json.loads(path.read_text()).get("cases", []):
            if "procedure" in case:
                told += len(_explained(case, path.name))
    assert told > 0


def _explained(case: Case, file: str) -> tuple[Pending, ...]:
    try:
        world = world_of(case)
        return explained(snapshot_of(world), policy_of(world), NOW).pending
    except (Untranslatable, InvalidSnapshot):
        return ()
    except AssertionError as error:
        raise AssertionError(f"{file}, {case['id']}: {error}") from error
