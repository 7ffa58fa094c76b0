"""The port of the service on one machine, to which only the Hub's proxy connects.

Rules
-----
- Reserved: the Hub and its proxy hold the port for as long as they run. A program of another account cannot listen
  there, also while the service is down, and so browsers never reach a stranger through the proxy.
- By the kernel: the sockets of the Hub, the proxy and the service share the port (`SO_REUSEPORT`), which Linux permits
  to sockets of one account only. A reservation does not listen, so connections are refused while the service is down.

See docs/decisions/0092-reach-the-service-through-a-unix-socket.md.
"""

import socket

HOST = "127.0.0.1"


def reserve_port(port: int) -> socket.socket | None:
    """Return a socket that reserves this port of the loopback interface until it is closed.

    Returns None if a program that does not share the port holds it. Programs of this account may share it: the Hub, its
    proxy and the service do.
    """
    reservation = socket.socket()
    # Without SO_REUSEADDR: that would let other accounts listen beside a socket that does not.
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reservation.bind((HOST, port))
    except OSError:
        reservation.close()
        return None
    return reservation


def is_in_use(port: int) -> bool:
    """Return whether a program listens on this port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
