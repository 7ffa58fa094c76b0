"""Small cases of our own, in the form of the tables, so that the harness is tested where the tables are not."""

from typing import Any

from .verdict import Case


def a_queue(name: str, deserved: float, *, parent: str | None = "top", order: int = 0, **fields: Any) -> Case:
    """A queue without limit, with weight 1."""
    return {
        "name": name,
        "parent": parent,
        "priority": 100,
        "deserved_gpus": deserved,
        "limit_gpus": -1.0,
        "over_quota_weight": 1.0,
        "created_order": order,
        **({"is_department": True} if parent is None else {}),
        **fields,
    }


def a_job(name: str, queue: str, gpus: float, *tasks: str, age: int = 1, **fields: Any) -> Case:
    """A preemptible job; each task is "Pending", or "Running node", or "Running node group"."""
    rows = [_task(f"{name}-{index}", text.split()) for index, text in enumerate(tasks)]
    return {
        "name": name,
        "queue": queue,
        "priority": 50,
        "preemptible": True,
        "age_minutes": age,
        "kind": "whole" if gpus == int(gpus) else "fraction",
        "gpus_per_task": gpus,
        "gpu_memory_per_task": 0,
        "devices_per_task": 1,
        "cpu_cores_per_task": 1.0,
        "memory_bytes_per_task": 1e9,
        "tasks": rows,
        "min_available": len(rows),
        **fields,
    }


def _task(name: str, words: list[str]) -> Case:
    task: Case = {"name": name, "state": words[0]}
    if len(words) > 1:
        task["node"] = words[1]
    if len(words) > 2:
        task["gpu_groups"] = words[2:]
    return task


def a_case(*jobs: Case, queues: list[Case], gpus: dict[str, int], action: str = "", **jobs_expected: str) -> Case:
    """One action run once, or the whole cycle in rounds; what is expected of each job is its tasks' status."""
    cycle = {"kind": "rounds", "actions": ["allocate", "consolidation", "reclaim", "preempt"]}
    rounds = {**cycle, "rounds_until_match": 2, "rounds_after_match": 2}
    return {
        "id": "ours",
        "tier": 1,
        "procedure": {"kind": "single_action", "actions": [action]} if action else rounds,
        "queues": [a_queue("top", -1.0, parent=None), *queues],
        "nodes": [_node(name, count) for name, count in gpus.items()],
        "jobs": list(jobs),
        "expected": {"jobs": {name: {"status": status} for name, status in jobs_expected.items()}, "tasks": {}},
        "placement": {"nodes": "binpack", "devices": "pack"},
    }


def _node(name: str, gpus: int) -> Case:
    return {"name": name, "gpus": gpus, "gpu_memory": 100, "cpu_cores": 20000.0, "memory_bytes": 20e9, "max_pods": 110}
