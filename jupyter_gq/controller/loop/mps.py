"""The daemon of MPS, which each step lets its backend keep running."""

from jupyter_gq.controller.context import Context


def keep_mps_running(context: Context) -> None:
    """Let the backends that share devices by MPS start its daemon, if it does not run; returns at once."""
    ports = {id(port): port for each in context.backends if (port := each.capabilities.partitioning) is not None}
    for port in ports.values():
        port.keep_running()
