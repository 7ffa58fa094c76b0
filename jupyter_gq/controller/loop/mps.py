"""The daemon of MPS, which each step lets its backend keep running."""

from collections.abc import Iterable

from jupyter_gq.backends.protocol import Backend


def keep_mps_running(backends: Iterable[Backend]) -> None:
    """Let the backends that share devices by MPS start its daemon, if it does not run; returns at once."""
    ports = {id(port): port for each in backends if (port := each.capabilities.partitioning) is not None}
    for port in ports.values():
        port.keep_running()
