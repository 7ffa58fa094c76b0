"""Servers as processes of system users: the Hub runs as root."""

import pwd

from jupyterhub.spawner import LocalProcessSpawner

from .admission.refusal import refuse
from .mixin import GPUShareMixin


class GQSystemSpawner(GPUShareMixin, LocalProcessSpawner):  # type: ignore[misc]
    """Each server runs as the system user of the same name, and so do the jobs that it sends."""

    async def run_pre_spawn_hook(self) -> None:
        """Refuse who has no account here before anything is asked for: the Hub would count it as a failure."""
        try:
            pwd.getpwnam(self.user.name)
        except KeyError as error:
            sentence = f"There is no account {self.user.name} on this machine. Ask your administrator."
            raise refuse(self, sentence, "gpu_bad_request") from error
        await super().run_pre_spawn_hook()

    def get_args(self) -> list[str]:
        """Jupyter Server refuses to run as root unless it is told to."""
        arguments: list[str] = super().get_args()
        return [*arguments, "--allow-root"] if pwd.getpwnam(self.user.name).pw_uid == 0 else arguments
