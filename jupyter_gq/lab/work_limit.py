"""The limit of the work that is done to read one cell."""

from jupyter_gq.domain.errors import MachineError


class TooMuchWork(MachineError):
    """A cell whose magics need too much work."""
