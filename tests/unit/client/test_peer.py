"""The name of the other end of an accepted Unix socket."""

import socket
import struct

from jupyter_gq.connections.connection import find_peer


class OfTheLastUser(socket.socket):
    """A Unix socket whose other end belongs to the user with the highest id that Linux has."""

    def getsockopt(self, level, option, size=0):
        assert size == 12
        return struct.pack("iII", 4242, 2**32 - 2, 2**32 - 2)


def test_the_id_of_a_user_has_no_sign():
    with OfTheLastUser(socket.AF_UNIX) as accepted:
        assert find_peer(accepted, "") == f"system user {2**32 - 2}"
