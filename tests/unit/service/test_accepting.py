"""Where connections are accepted: how many are served, and that each is counted for as long as it lasts."""

from __future__ import annotations

import socket

import pytest

from snapkafka.service.accepting import REFUSED_MAX, Acceptor, Connections, Place, Use


def test_one_client_is_served_by_half_of_the_connections_and_the_rest_is_refused_and_then_closed() -> None:
    connections = Connections(4)
    places = [connections.take("a") for _ in range(3)]
    assert [place.use for place in places if place] == [Use.SERVED, Use.SERVED, Use.REFUSED]
    assert [place.use for client in "bcd" if (place := connections.take(client))] == [
        Use.SERVED,
        Use.SERVED,
        Use.REFUSED,
    ]
    refused = [connections.take("a") for _ in range(REFUSED_MAX - 1)]
    assert [place.use for place in refused if place] == [Use.REFUSED] * (REFUSED_MAX - 2)
    for place in (places[0], places[0], refused[0]):
        assert place is not None
        place.release()
    found = [connections.take("a") for _ in range(3)]
    assert [place and place.use for place in found] == [Use.SERVED, Use.REFUSED, None]


async def test_a_connection_whose_protocol_cannot_be_made_is_counted_no_more() -> None:
    connections = Connections(1)

    def fails(place: Place) -> None:
        raise RuntimeError("a bug")

    acceptor = Acceptor(connections, fails, context=None, handshake_s=1.0)  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    place = connections.take("a")
    assert place is not None
    with pytest.raises(RuntimeError):
        await acceptor._open(ours, place, "a")
    theirs.close()
    again = connections.take("a")
    assert again is not None
    assert again.use is Use.SERVED
