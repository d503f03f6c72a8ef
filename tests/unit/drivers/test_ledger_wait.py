"""R15: start and rebalance wait for the ledger 2 s at most; three expiries in a row open a breaker for ten minutes."""

from __future__ import annotations

from snapkafka.drivers.ledger_wait import LedgerWait


def test_r15_three_waits_in_vain_open_a_breaker_for_ten_minutes() -> None:
    patience = LedgerWait()
    assert patience.seconds(0) == 2
    assert not patience.waited(2, in_vain=True)
    assert not patience.waited(4, in_vain=True)
    assert patience.seconds(4) == 2
    assert patience.waited(6, in_vain=True)
    assert patience.seconds(6) == 0
    assert patience.seconds(605) == 0
    assert patience.seconds(606) == 2


def test_r15_in_a_row_means_in_a_row() -> None:
    patience = LedgerWait()
    for now in range(0, 100, 10):
        assert not patience.waited(now, in_vain=True)
        assert not patience.waited(now + 1, in_vain=True)
        assert not patience.waited(now + 2, in_vain=False)
    assert patience.seconds(100) == 2


def test_r15_after_the_breaker_closed_three_more_open_it() -> None:
    patience = LedgerWait()
    assert [patience.waited(now, in_vain=True) for now in (0, 1, 2)] == [False, False, True]
    assert [patience.waited(now, in_vain=True) for now in (700, 701, 702)] == [False, False, True]
    assert patience.seconds(1301) == 0


def test_r15_a_send_begins_no_wait_after_one_in_vain() -> None:
    patience = LedgerWait()
    assert not patience.worn(0)
    patience.waited(2, in_vain=True)
    assert patience.worn(2)
    patience.waited(3, in_vain=False)
    assert not patience.worn(3)
    for now in (4, 5, 6):
        patience.waited(now, in_vain=True)
    assert patience.worn(605)
    assert not patience.worn(606)
