"""The spawner of servers as processes of system users: the Hub runs as root."""

import pwd

from jupyterhub.spawner import LocalProcessSpawner

from .admission.refusal import make_refusal
from .mixin import GPUShareMixin
from .unknown_servers import EndsUnknownServer


class GQSystemSpawner(GPUShareMixin, EndsUnknownServer, LocalProcessSpawner):  # type: ignore[misc]
    """A spawner whose servers run as the system user of the same name, and so do the jobs that they send."""

    async def run_pre_spawn_hook(self) -> None:
        """Refuse users without an account on this machine, then run the mixin's hook.

        Without this check the Hub would later count a failure.
        """
        try:
            pwd.getpwnam(self.user.name)
        except KeyError as error:
            sentence = f"There is no account {self.user.name} on this machine. Ask your administrator."
            raise make_refusal(self, sentence, "gpu_bad_request") from error
        await super().run_pre_spawn_hook()

    def get_args(self) -> list[str]:
        """Return the arguments of the server, with `--allow-root` if its system user is root."""
        arguments: list[str] = super().get_args()
        return [*arguments, "--allow-root"] if pwd.getpwnam(self.user.name).pw_uid == 0 else arguments
