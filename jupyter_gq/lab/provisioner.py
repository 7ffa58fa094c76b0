"""Starts the user's kernels with the caps of the notebook's share (entry point `jupyter-gq`)."""

import os

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Float

from jupyter_gq.client.devices import CheckTimeouts
from jupyter_gq.client.kernel import prepare
from jupyter_gq.domain.json_types import JsonObject, JsonValue

from .devices import Gate
from .surroundings import read_surroundings


class GQProvisioner(LocalProvisioner):
    """Jupyter's local provisioner; only the command and environment of the kernel are prepared for its share.

    The spawner makes it the default of the server through `JUPYTER_DEFAULT_PROVISIONER_NAME`. Kernels whose
    kernelspec names a provisioner of its own keep that one. Its settings stand in `jupyter_server_config.py`.
    """

    devices_wait = Float(
        20.0,
        min=0.0,
        help="Kubernetes: seconds in which the agent of the node should have looked at the GPUs of the server before "
        "its first kernel starts. Then it starts without.",
    ).tag(config=True)
    devices_longest = Float(
        40.0,
        min=0.0,
        help="The same where nothing may begin unseen (shares of a GPU): then the kernel is refused with a sentence. "
        "Less than a minute, after which many proxies cut a request off.",
    ).tag(config=True)

    #: One for all kernels of this server.
    gate = Gate()

    async def pre_launch(self, **kwargs: JsonValue) -> JsonObject:
        """Jupyter's own preparation first, so that the caps are applied to the command that will really run."""
        patience = CheckTimeouts(wait=self.devices_wait, longest=self.devices_longest)
        await self.gate.passed(read_surroundings(os.environ), patience, self.log)
        launch = await super().pre_launch(**kwargs)
        launch["cmd"], launch["env"] = prepare(launch["cmd"], launch["env"])
        return launch
