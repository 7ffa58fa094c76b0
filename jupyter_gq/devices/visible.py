"""The program `python -m jupyter_gq.devices.visible`: it prints the devices that its process sees, as a line of JSON.

The program runs in a container and so shows whether the container sees exactly the devices that it was given.
"""

import json
import os
import sys
from pathlib import Path

from jupyter_gq.devices.nvidia.nvml import NvmlProbe

from .probe import ProbeState

#: Environment variable with the path of the container's termination message, to which the line is written too.
MESSAGE_VARIABLE = "GQ_TERMINATION_LOG"


def main() -> None:
    """Print `{"devices": [UUID, ...], "problem": ...}`; `problem` is empty if the driver works.

    The line is also written to the file that the variable `GQ_TERMINATION_LOG` names, if it is set.
    """
    probe = NvmlProbe(now=lambda: 0.0)  # nothing that is read here depends on the time
    status = probe.status()
    problem = "" if status.state in (ProbeState.OK, ProbeState.NO_DEVICES) else status.detail
    line = json.dumps({"devices": sorted(device.uuid for device in probe.devices()), "problem": problem})
    sys.stdout.write(line + "\n")
    if os.environ.get(MESSAGE_VARIABLE):
        Path(os.environ[MESSAGE_VARIABLE]).write_text(line)


if __name__ == "__main__":
    main()
