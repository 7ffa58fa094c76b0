"""What a record remembers beside the workload: the keys of `store.Record.detail`, written and read only through here.

| key | of | meaning |
|---|---|---|
| `sentence` | both | why it ended or was interrupted, for the owner |
| `eviction` | both | the last one: `client.models.Eviction` |
| `over_quota` | both | milli-GPU above the quota at its admission |
| `where` | both | node and devices of the present or last run |
| `server`, `notebook_path`, `cwd`, `mode`, `targets`, `prefix` | jobs | from the manifest |
| `progress`, `error` | jobs | `client.models.Progress`, `JobError` |
| `image` | jobs | that of the notebook it was sent from, where servers are pods |
| `task_tokens` | jobs | hashes of the tokens of this run's tasks other than 0, by number |
| `taken` | jobs | tasks of this run that have their bundle: their pods get no other token |
| `lost` | jobs | how many runs in a row vanished without a word, none of which came further |
| `groups` | notebooks | the owner's groups when he asked: his quota after a restart of the service |
| `pid`, `pid_started` | notebooks | the process that holds the share |
| `closed` | notebooks | the spawner gave the ticket back: nobody needs to be told to stop |
| `named` | notebooks | the devices that the pod of its present run was told to name, by slot |
| `warning` | notebooks | the sentence of the countdown |
"""

from collections.abc import Mapping
from typing import Any, TypedDict

from jupyter_gq.client.models import Manifest
from jupyter_gq.domain.amount import Instant, MilliGpu
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.store.protocol import Record

#: In the place of an `EvictReason`: nobody took the share back, the notebook failed.
ENDED = "ENDED"


class Where(TypedDict):
    """A place as people read it."""

    node: str
    devices: list[str]


def of_manifest(manifest: Manifest) -> dict[str, Any]:
    """What a job keeps of its manifest."""
    return {
        "server": manifest.server,
        "notebook_path": manifest.notebook_path,
        "cwd": manifest.cwd,
        "mode": manifest.mode,
        "targets": [cell.model_dump() for cell in manifest.targets],
        "prefix": [cell.model_dump() for cell in manifest.prefix],
    }


def of_admission(placement: tuple[TaskPlacement, ...], over_quota: MilliGpu) -> dict[str, Any]:
    """Where it was placed, and what of it may be reclaimed."""
    node = placement[0].node if placement else ""
    devices = [device for task in placement for device in task.devices]
    return {"where": Where(node=node, devices=devices), "over_quota": over_quota, "sentence": ""}


def of_eviction(reason: EvictReason, sentence: str, by: str | None, at: Instant) -> dict[str, Any]:
    """Why it was taken back, for whom, when."""
    return {"eviction": {"reason": reason.value, "sentence": sentence, "by": by, "at": at}, "sentence": sentence}


def of_failure(sentence: str, at: Instant) -> dict[str, Any]:
    """A notebook ended, and its owner did not end it."""
    return {"eviction": {"reason": ENDED, "sentence": sentence, "by": None, "at": at}, "sentence": sentence}


def last_eviction_key(user: str) -> str:
    """The setting that holds why a user's notebook was taken last."""
    return f"last_eviction:{user}"


def task_tokens(record: Record) -> dict[str, str]:
    """Hashes of the tokens of the present run's tasks other than the first, by the number of the task."""
    return dict(record.detail.get("task_tokens", {}))


def taken(record: Record) -> list[int]:
    """Tasks of the present run that have fetched their bundle."""
    return list(record.detail.get("taken", ()))


def named(record: Record) -> dict[str, str]:
    """The devices that the pod of the present run was told to name, by slot."""
    return dict(record.detail.get("named", {}))


def of_new_run(record: Record) -> dict[str, Any]:
    """What a new run begins with: nothing that was given to the run before is good any more."""
    return {key: empty for key, empty in (("task_tokens", {}), ("taken", []), ("named", {})) if record.detail.get(key)}


def sentence(record: Record) -> str:
    """Why it ended or was interrupted; "" when there is nothing to say."""
    return str(record.detail.get("sentence", ""))


def over_quota(record: Record) -> int:
    """Milli-GPU above the quota at its admission."""
    return int(record.detail.get("over_quota", 0))


def lost(record: Record) -> int:
    """How many of its runs vanished in a row."""
    return int(record.detail.get("lost", 0))


def groups(record: Record) -> frozenset[str]:
    """The owner's groups when he asked."""
    return frozenset(record.detail.get("groups", ()))


def pid(record: Record) -> int | None:
    """The process that holds the share, once it is attached."""
    return record.detail.get("pid")


def closed(record: Record) -> bool:
    """The spawner gave it back."""
    return bool(record.detail.get("closed", False))


def where(record: Record) -> Where | None:
    """Place of the present or last run."""
    return record.detail.get("where")


def merged(detail: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`detail` with these keys set."""
    return {**detail, **changes}
