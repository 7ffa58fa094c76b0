"""`python -m jupyter_gq.devices.seen`: which devices a process sees here, as one line of JSON.

The program runs in a container to find out whether the container sees the devices that it should.
"""

import json
import os
import sys
from pathlib import Path

from .nvml import NvmlProbe
from .probe import ProbeState

#: Where the line is also written, if that is said: a kubelet shows it as the container's last words.
LAST_WORDS = "GQ_TERMINATION_LOG"


def main() -> None:
    """Look, and say it."""
    probe = NvmlProbe(now=lambda: 0.0)  # nothing is asked that depends on the time
    status = probe.status()
    problem = "" if status.state in (ProbeState.OK, ProbeState.NO_DEVICES) else status.detail
    line = json.dumps({"devices": sorted(device.uuid for device in probe.devices()), "problem": problem})
    sys.stdout.write(line + "\n")
    if os.environ.get(LAST_WORDS):
        Path(os.environ[LAST_WORDS]).write_text(line)


if __name__ == "__main__":
    main()
