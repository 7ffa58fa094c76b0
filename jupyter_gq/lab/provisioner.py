"""The kernel provisioner that applies the memory caps of the notebook's share (entry point `jupyter-gq`)."""

import os

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Float

from jupyter_gq.client.environment.kernel import prepare
from jupyter_gq.client.pods.device_check import CheckTimeouts
from jupyter_gq.domain.json_types import JsonObject, JsonValue

from .hub_environment import read_hub_environment
from .kernels.device_check import DeviceGate


class GQProvisioner(LocalProvisioner):
    """Jupyter's local provisioner with the command and environment of the kernel prepared for its share.

    The spawner makes this provisioner the default of the server through `JUPYTER_DEFAULT_PROVISIONER_NAME`. Kernels
    whose kernelspec names another provisioner keep that one. The settings stand in `jupyter_server_config.py`.
    """

    devices_wait = Float(
        20.0,
        min=0.0,
        help="Kubernetes: seconds that the first kernel of a server waits until the agent of the node has checked the "
        "server's GPUs. After that the kernel starts without the check.",
    ).tag(config=True)
    devices_longest = Float(
        40.0,
        min=0.0,
        help="Kubernetes: seconds that the first kernel waits for the check if the check is required, as for shares of "
        "a GPU. After that the kernel is refused with a sentence. Use less than a minute, because many proxies end "
        "longer requests.",
    ).tag(config=True)

    #: The gate of all kernels of this server.
    device_gate = DeviceGate()

    async def pre_launch(self, **kwargs: JsonValue) -> JsonObject:
        """Wait for the device check, run Jupyter's own preparation, and add the memory caps; return the launch options.

        Raises `KernelRefused` if the GPUs of this server may not be used.
        """
        timeouts = CheckTimeouts(wait=self.devices_wait, longest=self.devices_longest)
        await self.device_gate.wait_until_open(read_hub_environment(os.environ), timeouts, self.log)
        launch = await super().pre_launch(**kwargs)
        launch["cmd"], launch["env"] = prepare(launch["cmd"], launch["env"])
        return launch
