"""How a seat listens."""

import socket

import pytest

from seat.errors import AddressUnusable
from seat.serve import PEER_OPTIONS, listen

EVERY = pytest.param(
    "::", "127.0.0.1", marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 that takes IPv4, too")
)


@pytest.mark.parametrize("host, via", [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), EVERY])
def test_what_is_accepted_inherits_what_ends_it(host: str, via: str) -> None:
    """Within a minute where the client has vanished, whether the seat had something to say to it or not."""
    with listen(host, 0) as listener:
        listener.settimeout(None)
        with socket.create_connection((via, listener.getsockname()[1])), listener.accept()[0] as accepted:
            assert [accepted.getsockopt(level, option) for level, option, _ in PEER_OPTIONS] == [
                value for *_, value in PEER_OPTIONS
            ]


def test_a_taken_port_is_not_shared() -> None:
    """The sentence names both settings."""
    with (
        listen("127.0.0.1", 0) as first,
        pytest.raises(AddressUnusable, match=r"SEAT_PORT=.*Address already in use\b(?! \()"),
    ):
        listen(*first.getsockname())
