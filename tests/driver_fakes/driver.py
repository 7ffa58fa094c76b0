"""The child process of `tests.driver_fakes.Driver`: it loads the libraries of its environment and answers calls."""

import sys

from jupyter_gq.devices.checkpointer import CheckpointError
from jupyter_gq.devices.nvidia.cuda_checkpointer import CudaCheckpointer
from jupyter_gq.devices.nvidia.driver_limits import LimitError, NvmlLimiter
from jupyter_gq.devices.nvidia.nvml import NvmlProbe

from .wire import receive, send


class Clock:
    """A time that passes when a test says so."""

    def __init__(self):
        self.at = 1000.0

    def advance(self, seconds):
        self.at += seconds


def main():
    clock = Clock()
    probe = NvmlProbe(now=lambda: clock.at)
    checkpointer = CudaCheckpointer(devices=lambda: [device.uuid for device in probe.devices()])
    things = {"probe": probe, "checkpointer": checkpointer, "limiter": NvmlLimiter(), "clock": clock}
    while True:
        try:
            thing, name, arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("answer", getattr(things[thing], name)(*arguments))
        except CheckpointError as error:
            answer = ("error", (error.problem.value, error.sentence))
        except LimitError as error:
            answer = ("limit error", str(error))
        send(sys.stdout.buffer, answer)


if __name__ == "__main__":
    main()
