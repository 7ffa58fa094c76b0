"""The spawner of servers as processes of the Hub's own user: one machine, no system users."""

import os

from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets import default

from .mixin import GPUShareMixin
from .unknown_servers import EndsUnknownServer


class GQLocalSpawner(GPUShareMixin, EndsUnknownServer, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """A spawner whose servers run as the Hub's own user, each in its own home folder, without isolation."""

    @default("home_dir")
    def _absolute_home(self) -> str:
        home: str = self.home_dir_template.format(username=self.user.escaped_name)
        return os.path.abspath(home)

    def get_args(self) -> list[str]:
        """Return the arguments of the server, with `--allow-root` if the Hub runs as root."""
        arguments: list[str] = super().get_args()
        return [*arguments, "--allow-root"] if os.geteuid() == 0 else arguments
