"""The base class of the mixins that are put before a spawner class.

At run time it has settings only; for the type checker it has all attributes of a spawner.
"""

from typing import TYPE_CHECKING

from traitlets.config import LoggingConfigurable

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner as SpawnerMixin
else:
    # Spawner cannot be the base: JupyterHub refuses a class without its own start, stop and poll.
    SpawnerMixin = LoggingConfigurable

__all__ = ["SpawnerMixin"]
