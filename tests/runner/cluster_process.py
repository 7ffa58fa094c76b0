"""The real service over a machine whose tasks are pods, as a process: `cluster_process.py PORT FOLDER`.

The test plays the kubelet in FOLDER. The file `launched/<job>.<run>` is a run that was launched, and the file
`ended/<job>.<run>` is the way in which it ended. The file `device_check`, if it exists, is the result of the device
check of all tasks. The token of a pod is `pod:<job>:<run>:<task>`, which the cluster confirms. After a kill and a
restart the service continues with its database, and the machine with its files.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tornado.netutil import bind_sockets
from traitlets.config import Config

from jupyter_gq.api.access import ADMIN_SCOPE, Identity
from jupyter_gq.api.app import make_server
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.capabilities import Attestation, AttestationResult, CheckpointFolders
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.secrets import ClusterSecrets
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FixedClock, FixedSettings, RunsPods, a_node
from tests.serving import application_of

CONFIG = Config(
    TrainingQueues={
        "queues": {"vision": {"quota": "64", "groups": ["vision"]}},
        "secrets": ["HF_*"],
        "max_result_mib": 12,
    },
    Pools={"pools": {"build": {"devices": 1}, "train": {"devices": 64}}},
)


class PodsInAFolder(RunsPods):
    """A backend whose runs are files, so that they survive the service."""

    kinds = frozenset({Kind.NOTEBOOK, Kind.TRAINING})

    def __init__(self, folder: Path) -> None:
        super().__init__(FixedClock(), (a_node(65),))
        self.capabilities = replace(
            self.capabilities, secrets=ClusterSecrets(), checkpoints=CheckpointFolders.EACH_TASK
        )
        self._launched, self._ended = folder / "launched", folder / "ended"
        self._device_check = folder / "device_check"
        for place in (self._launched, self._ended):
            place.mkdir(exist_ok=True)

    def find_task(self, workload: str, run: int, identity: PodIdentity) -> int | None:
        job, number, task = identity.uid.split(":")
        return int(task) if (job, number) == (workload, str(run)) else None

    def attestation(self, workload: str, run: int, task: int) -> Attestation:
        try:
            said = json.loads(self._device_check.read_text())
        except FileNotFoundError:
            return super().attestation(workload, run, task)
        return Attestation(
            result=AttestationResult(said["result"]), required=said["required"], sentence=said["sentence"]
        )

    async def launch(self, launch: Launch) -> None:
        (self._launched / f"{launch.workload.id}.{launch.workload.run}").touch()

    async def stop(self, workload: str, run: int, grace: float) -> None:
        """The test does it."""

    async def forget(self, workload: str, run: int) -> None:
        (self._launched / f"{workload}.{run}").unlink(missing_ok=True)

    async def observe(self) -> Sequence[Observation]:
        return [self._seen(file) for file in sorted(self._launched.iterdir())]

    def _seen(self, file: Path) -> Observation:
        job, _, run = file.name.rpartition(".")
        now, end = Instant(SystemClock().now()), self._ended / file.name
        if not end.exists():
            return Observation(workload=job, run=int(run), phase=Phase.RUNNING, since=now)
        said = json.loads(end.read_text())
        outcome = Outcome(said["outcome"])
        return Observation(
            workload=job, run=int(run), phase=Phase.ENDED, since=now, outcome=outcome, sentence=said["sentence"]
        )


async def vouch(token: str, audience: str) -> PodIdentity | None:
    """A token says whose it is."""
    kind, _, uid = token.partition(":")
    if kind != "pod" or audience != "jupyter-gq":
        return None
    return PodIdentity(namespace="train", service_account="gq-runner", pod="gq", uid=uid, node="box")


class LetsEverybodyIn:
    """A Hub to which each token is the name of an admin of the group vision."""

    service = "jupyter-gq"

    async def identify(self, token: str, peer: str) -> Identity:
        scopes = frozenset({"access:services", ADMIN_SCOPE})
        return Identity(name=token, is_service=False, groups=frozenset({"vision"}), scopes=scopes)


async def main(port: int, folder: Path) -> None:
    machine = PodsInAFolder(folder)
    store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
    controller = Controller(
        store=store,
        backends=(machine,),
        settings=FixedSettings(build_settings(CONFIG, machine.nodes())),
        clock=SystemClock(),
        bundles=StoredBundles(store, store),
    )
    pods = PodAuthenticator(vouch, nodes_namespace="nodes", training_namespace="train")
    server = make_server(application_of(controller, LetsEverybodyIn(), "/services/jupyter-gq/", pods=pods))
    sockets = bind_sockets(port, "127.0.0.1")
    server.add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await controller.run()


asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
