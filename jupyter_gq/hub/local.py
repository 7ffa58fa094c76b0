"""Servers as processes of the Hub's own user: one machine, no system users."""

import os

from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets import default

from .mixin import GPUShareMixin


class GQLocalSpawner(GPUShareMixin, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """Processes of the Hub's own user, each in a home folder of its own. They are not shielded from each other."""

    @default("home_dir")
    def _absolute_home(self) -> str:
        home: str = self.home_dir_template.format(username=self.user.escaped_name)
        return os.path.abspath(home)

    def get_args(self) -> list[str]:
        """Jupyter Server refuses to run as root unless it is told to."""
        arguments: list[str] = super().get_args()
        return [*arguments, "--allow-root"] if os.geteuid() == 0 else arguments
