"""`python -m jupyter_gq.hub.hold_port PORT COMMAND...`: become a command that holds the port of the service.

The Hub's proxy is started this way: a proxy outlives a killed Hub, and passes requests of browsers on to that port. The
command need not know about the socket that holds the port, which is an open file of its process.
"""

import os
import sys

from jupyter_gq.client.connection.service_port import hold_port


def main() -> None:
    """Hold the port, then replace this process by the command; exit with a sentence if the port is taken."""
    port, command = int(sys.argv[1]), sys.argv[2:]
    held = hold_port(port)
    if held is None:
        sys.exit(f"The port {port} of the scheduler service is in use by another program, so the proxy does not start.")
    held.set_inheritable(True)
    os.execvp(command[0], command)  # noqa: S606 - no shell; the command is the admin's


if __name__ == "__main__":
    main()
