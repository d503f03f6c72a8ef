"""Names by which a browser may call a server of ours."""

from __future__ import annotations

import pytest

from snapkafka.runtime.browsers import foreign


@pytest.mark.parametrize("host", ["[::1]:80", "127.9.9.9", "LOCALHOST", "Shop.Internal:80"])
def test_names_of_this_server_are_not_foreign(host: str) -> None:
    assert foreign(host, "", names={"shop.internal"}) == ""
    assert foreign(host, f"https://{host}", names={"shop.internal"}) == ""
