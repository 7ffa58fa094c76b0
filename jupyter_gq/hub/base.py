"""What a class derives from that is put before a spawner class: settings, and for the type checker any attribute."""

from typing import TYPE_CHECKING

from traitlets.config import LoggingConfigurable

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner as OverSpawner
else:
    # Not Spawner: a class without start, stop and poll of its own would be refused.
    OverSpawner = LoggingConfigurable

__all__ = ["OverSpawner"]
