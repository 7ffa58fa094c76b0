"""Starts the user's kernels with the caps of the notebook's share (entry point `jupyter-gq`)."""

from typing import Any

from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_gq.client.kernel import prepare


class GQProvisioner(LocalProvisioner):
    """Jupyter's local provisioner; only the command and environment of the kernel are prepared for its share.

    The spawner makes it the default of the server through `JUPYTER_DEFAULT_PROVISIONER_NAME`. Kernels whose
    kernelspec names a provisioner of its own keep that one.
    """

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Jupyter's own preparation first, so that the caps are applied to the command that will really run."""
        launch = await super().pre_launch(**kwargs)
        launch["cmd"], launch["env"] = prepare(launch["cmd"], launch["env"])
        return launch
