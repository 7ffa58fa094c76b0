"""The port of the service on one machine, to which only the Hub's proxy connects.

Rules
-----
- Held: the Hub and its proxy hold the port for as long as they run. A program of another account cannot listen there,
  also while the service is down. So the proxy never passes a browser on to such a program.
- By the kernel: the sockets of the Hub, the proxy and the service share the port (`SO_REUSEPORT`), which Linux permits
  to sockets of one account only. Only the service listens, so connections are refused while the service is down.

See docs/decisions/0092-reach-the-service-through-a-unix-socket.md.
"""

import socket

HOST = "127.0.0.1"


def hold_port(port: int) -> socket.socket | None:
    """Return a socket that holds this port of the loopback interface until it is closed, and does not listen.

    Returns None if a program has the port that does not share it. The Hub, its proxy and the service, which run as one
    account, share the port.
    """
    held = socket.socket()
    # Without SO_REUSEADDR, which would let other accounts listen beside a socket that does not listen.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind((HOST, port))
    except OSError:
        held.close()
        return None
    return held


def is_in_use(port: int) -> bool:
    """Return whether a program listens on this port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
