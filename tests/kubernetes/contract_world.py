"""What the tests of every backend do, on a cluster: pods whose process is the stand-in of a runner."""

import json
import secrets
import shlex
import sys
from pathlib import Path

from tests.contract.worlds import STANDIN
from tests.kubernetes.backend_world import World
from tests.kubernetes.waiting import eventually


def an_image(folder: Path) -> str:
    """A program in the place of the images' Python: it is the stand-in, whatever it is told to run."""
    file = folder / "python"
    words = shlex.join([sys.executable, str(STANDIN)])
    file.write_text(f'#!/bin/sh\nexec {words} "{folder}/$GQ_JOB_ID"\n')
    file.chmod(0o755)
    return str(file)


class ContractWorld(World):
    """Jobs on one node with eight devices; what they shall do, and what they have done, lies in `folder`."""

    #: Seconds that a test gives to what is stopped: the kubelet counts them, and nobody moves its clock.
    grace = 4

    def __init__(self, plane, namespaces, *, node, folder):
        super().__init__(plane, namespaces)
        self.node, self.folder, self._devices = node, folder, iter(range(8))

    def workload(self, name="digits"):
        return self.job(f"{name}-{secrets.token_hex(4)}", (self.node, next(self._devices)))

    async def launch(self, workload, plan=None):
        """Launch it, and wait until it has begun."""
        place = self.folder / workload.id
        place.mkdir()
        (place / "plan").write_text(json.dumps(plan or {}))
        await super().launch(workload)
        await self.running(workload)
        await eventually(lambda: self._told(workload, "ready"), f"{workload.id} has begun")

    def leader(self, workload):
        return int(self._told(workload, "ready"))

    def kernel(self, workload):
        return int(self._told(workload, "child"))

    def _told(self, workload, what):
        file = self.folder / workload.id / what
        return file.exists() and file.read_text()
