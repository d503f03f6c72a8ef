"""V6: what SQL says about numbers is what exact arithmetic says, or it is not evaluated; and one concerns no other."""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapkafka.assembly import invariants, load, parameters_of, ready_made
from snapkafka.checks import Status
from snapkafka.errors import BadInputError
from snapkafka.manifest import CheckEntry, InvariantEntry
from tests.worlds.tables import in_files

PASSED, FAILED, UNCLEAR = Status.PASSED, Status.FAILED, Status.UNVERIFIABLE
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "reconcile.md"
READERS = [("ledger", "payments"), ("audit", "payments"), ("clearing", "transfers"), ("audit", "transfers")]


def rows(*values: str) -> list[dict[str, Any]]:
    return [
        {"app": "a", "table_name": "t", "partition": 0, "key": str(n), "key_raw": b"%d" % n, "value": value}
        for n, value in enumerate(values)
    ]


def outcomes(
    folder: Path, sqls: Sequence[str], state: Sequence[Mapping[str, Any]] = (), **more: Any
) -> list[CheckEntry]:
    wanted = [InvariantEntry(name=f"n{n}", sql=sql) for n, sql in enumerate(sqls)]
    return invariants.check(wanted, in_files(folder, {"state": state, **more}))


def of(
    folder: Path, name: str, parameters: Mapping[str, str], **tables: Sequence[Mapping[str, Any]]
) -> CheckEntry:
    """The outcome of a ready-made one."""
    (found,) = invariants.check(load([name], parameters), in_files(folder, tables))
    return found


# --- Casts ------------------------------------------------------------------------------------------------------------

#: A condition -> whether it holds for 0.04; None: it is not evaluated.
BALANCE: Final[dict[str, bool | None]] = {
    "(value->>'$.b') <> 0.0": None,
    "(value->'$.b') = 0.0": None,
    "(value->>'$.b') IN (0.0, 7)": None,
    "CASE value->>'$.b' WHEN 0.0 THEN TRUE END": None,
    "key = 0.5": None,
    "\"partition\" = '0.4'": None,
    "[key] = [1.5]": None,
    "struct_pack(a := key) = struct_pack(a := 1.5)": None,
    "nullif(key, 1.5) IS NULL": None,
    "key = (SELECT 1.5)": None,
    "CAST(value->>'$.b' AS DECIMAL(9, 2)) = '0.041'": None,
    "CAST(CAST(value->>'$.b' AS VARCHAR) AS VARCHAR) = 0.0": None,
    "(value->>'$.b') = '0.04'": None,
    "CAST(value->>'$.b' AS BIGINT) = key": None,
    "changelog_offset = CAST(1 AS DOUBLE)": None,
    "changelog_offset / 2 = 1": None,
    "CAST(value->>'$.b' AS DECIMAL(38, 6)) = CAST(0.04 AS DOUBLE)": None,
    "CAST(value->>'$.b' AS DECIMAL(38, 6)) <> 0.0": True,
    "CAST(value->>'$.b' AS DECIMAL(38, 6)) = 0.04": True,
    "CAST(value->>'$.b' AS DECIMAL(38, 6)) = 0.0400001": False,
    "TRY_CAST(value->>'$.b' AS DECIMAL(38, 6)) IN (0, 0.04)": True,
    "(value->>'$.b')::DECIMAL(2, 1) = 0": True,
    "CAST(value->>'$.b' AS DOUBLE) = 0.04": True,
    "(value->>'$.b') = 0.04::DOUBLE": True,
    "DECIMAL '0.04' = CAST(value->>'$.b' AS DECIMAL(38, 6))": True,
    "(value->>'$.name') = 'ü1.5 m'": True,
    "CAST(value->>'$.n' AS BIGINT) = 7": True,
    "key = '0'": True,
    "key || \"partition\" = '00'": True,
    "timestamp '2026-01-01' < TIMESTAMP '2026-01-02'": True,
}


@pytest.mark.parametrize("condition", BALANCE)
def test_a_number_is_compared_exactly_or_not_at_all(tmp_path: Path, condition: str) -> None:
    (found,) = outcomes(
        tmp_path,
        [f"SELECT 'ü' AS u, key FROM state WHERE {condition}"],
        rows('{"b":0.04,"n":7,"name":"ü1.5 m"}'),
    )
    assert found.status is {None: UNCLEAR, True: FAILED, False: PASSED}[BALANCE[condition]], found


def test_the_cast_to_write_is_named(tmp_path: Path) -> None:
    found = outcomes(
        tmp_path,
        ["SELECT * FROM state WHERE (value->>'$.b') <> 0.0", "SELECT * FROM state WHERE value = 5"],
        rows("5"),
    )
    wanted = ("CAST(value->>'$.b' AS DECIMAL(38, 6))", "CAST(value AS BIGINT)")
    for outcome, cast in zip(found, wanted, strict=True):
        assert f"write {cast}" in outcome.witnesses[0].what


HUGE: Final = (str(2**63 - 1),) * 2
#: Values in the state, SQL, and what is said of it.
EXACT: Final[list[tuple[Sequence[str], str, Status]]] = [
    *(
        (("0.04",), f"SELECT key FROM state {join}", UNCLEAR)
        for join in (
            "JOIN (SELECT 0.0 AS value) USING (value)",
            "NATURAL JOIN (SELECT 0.0 AS value)",
            'JOIN messages ON state.value = messages."offset"',
            'WHERE EXISTS (SELECT 1 FROM messages WHERE messages."offset" = state.key)',
        )
    ),
    (HUGE, "SELECT sum(CAST(value AS DOUBLE)) AS s FROM state HAVING s <> 1", UNCLEAR),
    (HUGE, "SELECT avg(CAST(value AS DOUBLE)) OVER () FROM state", UNCLEAR),
    (HUGE, f"SELECT sum(CAST(value AS DECIMAL(38, 6))) AS s FROM state HAVING s <> {2**64 - 2}", PASSED),
    (HUGE, f"SELECT sum(CAST(value AS BIGINT)) AS s FROM state HAVING s <> {2**64 - 2}", PASSED),
    (HUGE, "SELECT CAST(value AS BIGINT) * CAST(value AS BIGINT) FROM state", UNCLEAR),  # past 2^63
    (HUGE, "SELECT key FROM state WHERE CAST(value AS BIGINT) + 1 < 0", PASSED),
    # A number in JSON has all its digits, or it is not read.
    *(
        (
            (f'{{"b": {number}}}',),
            "SELECT key FROM state WHERE CAST(value->>'$.b' AS DECIMAL(38, 12)) > 0",
            status,
        )
        for status, numbers in (
            (UNCLEAR, ("0.1234567890123456", "12345678901234567.5", "1234567890123456789e2")),
            (
                FAILED,
                ("12345678901234567890", "0.00001", "1.50000000000000000000", '"0.1234567890123456789"'),
            ),
        )
        for number in numbers
    ),
    # Only numbers that are read count: a time with microseconds beside an amount is no obstacle.
    *(
        ((value.replace("TIME", "1795859000.1234567"),), f"SELECT key FROM state WHERE {read} > 0", status)
        for value, read, status in (
            ('{"b": 1, "at": TIME}', "CAST(value->>'$.b' AS DECIMAL(38, 6))", FAILED),
            ('{"b": 1, "at": TIME}', "CAST(value->>'$.at' AS DOUBLE)", FAILED),
            ('{"b": 1, "at": TIME}', "CAST(value->>'at' AS DECIMAL(38, 6))", UNCLEAR),
            ('{"o": {"b": TIME}}', "CAST(value->'$.o'->>'$.b' AS DECIMAL(38, 6))", UNCLEAR),
            ('{"o": [TIME]}', "CAST(value->>'$.o[0]' AS DECIMAL(38, 6))", UNCLEAR),
            ("TIME", "CAST(value->>'$' AS DECIMAL(38, 6))", UNCLEAR),
            ("TIME", "CAST(value AS DECIMAL(38, 6))", FAILED),
        )
    ),
]


@pytest.mark.parametrize(("values", "sql", "status"), EXACT)
def test_joins_sums_products_and_digits_are_exact_or_not_evaluated(
    tmp_path: Path, values: Sequence[str], sql: str, status: Status
) -> None:
    (found,) = outcomes(tmp_path, [sql], rows(*values))
    assert found.status is status, found


NUMBERS = st.decimals(min_value=-1000, max_value=1000, places=6).map(lambda it: f"{it.normalize():f}")
FORMS = st.one_of(
    NUMBERS,
    st.sampled_from(["0", "0.0", "-0.0", "1.50", "0.00001", "0.04", "9007199254740993", "1e2", str(2**63)]),
)
CONDITIONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "{value} <> {literal}": operator.ne,
    "{value} = {literal}": operator.eq,
    "{value} < {literal}": operator.lt,
    "{value} IN ({literal}, 12345)": lambda value, literal: value in (literal, 12345),
    "CASE WHEN {value} >= {literal} THEN TRUE ELSE FALSE END": operator.ge,
    "CASE {value} WHEN {literal} THEN TRUE ELSE FALSE END": operator.eq,
}
#: How a number is taken from a row, and the scale that a written cast gives it.
TAKEN: Final = {
    "value": None,
    "(value->>'$')": None,
    "(value->'$')": None,
    "CAST(value AS DECIMAL(38, 6))": 6,
    "CAST(value->>'$' AS DECIMAL(38, 2))": 2,
    "CAST(value AS DECIMAL(38, 6)) + 0.5": 6,
    "TRY_CAST(value AS DOUBLE)": -1,
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(FORMS, min_size=1, max_size=4),
    literals=st.lists(FORMS, min_size=1, max_size=2),
    quoted=st.booleans(),
)
def test_it_is_evaluated_as_exact_arithmetic_does_or_not_at_all(
    tmp_path: Path, values: list[str], literals: list[str], quoted: bool
) -> None:
    asked = [(taken, condition, it) for taken in TAKEN for condition in CONDITIONS for it in literals]
    sqls = [
        f"SELECT key FROM state WHERE {condition.format(value=taken, literal=repr(it) if quoted else it)}"
        for taken, condition, it in asked
    ]
    found = outcomes(tmp_path, sqls, rows(*values))
    evaluated = 0
    for (taken, condition, it), outcome in zip(asked, found, strict=True):
        if outcome.status is UNCLEAR or (quoted and taken in ("value", "(value->>'$')", "(value->'$')")):
            continue  # texts are compared as texts
        evaluated += 1
        literal = float(it) if TAKEN[taken] == -1 else Decimal(it)
        expected = sum(CONDITIONS[condition](_exact(value, taken), literal) for value in values)
        assert outcome.found == expected, (taken, condition, values, it, outcome)
    assert quoted or evaluated


def _exact(value: str, taken: str) -> Decimal | float:
    scale = TAKEN[taken]
    if scale == -1:
        return float(value)
    exact = Decimal(value)
    if scale is not None:
        exact = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return exact + Decimal("0.5") if "+ 0.5" in taken else exact


# --- One alone --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(value AS BIGINT) FROM state",
        "SELECT error('no')",
        "SELECT nothing FROM state",
        "SELECT * FROM nowhere",
        "DROP VIEW state",
        "SELECT 1; SELECT 2",
        "SELEKT",
        "",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY state TO '/tmp/x'",
    ],
)
def test_one_that_cannot_be_evaluated_concerns_itself_alone(tmp_path: Path, sql: str) -> None:
    holds, broken = "SELECT 1 WHERE FALSE", "SELECT key FROM state"
    before, found, after = outcomes(tmp_path, [holds, sql, broken], rows("x"))
    assert (before.status, found.status, after.status) == (PASSED, UNCLEAR, FAILED)
    assert found.witnesses[0].what.startswith("not evaluated: ")


def test_one_that_takes_too_long_is_not_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "SECONDS_MAX", 0.2)
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range < 0"
    found, after = outcomes(tmp_path, [slow, "SELECT 1 WHERE FALSE"])
    assert (found.status, after.status) == (UNCLEAR, PASSED)


def test_a_predicate_that_cannot_be_evaluated_is_refused_before_any_work() -> None:
    with pytest.raises(BadInputError, match="nothing"):
        invariants.require_valid([InvariantEntry(name="mine", sql="SELECT nothing FROM state")])


def test_rows_are_printed_without_nulls_and_with_all_digits(tmp_path: Path) -> None:
    sql = (
        "SELECT 'é' AS a, NULL AS b, 12345678901234567890123 AS c, TRUE AS d, 1.50 AS e "
        "UNION ALL SELECT 'z', NULL, 1, FALSE, 2"
    )
    (found,) = outcomes(tmp_path, [sql])
    assert found.found == 2
    assert [it.what for it in found.witnesses] == [
        '{"a":"z","c":1,"d":false,"e":2.00}',
        '{"a":"é","c":12345678901234567890123,"d":true,"e":1.50}',
    ]


def test_a_row_points_at_a_record_and_many_are_counted(tmp_path: Path) -> None:
    sql = 'SELECT \'t\' AS topic, 0 AS "partition", range AS "offset" FROM range(25000)'
    (found,) = outcomes(tmp_path, [sql])
    assert found.found == 25_000
    assert (found.witnesses[0].topic, found.witnesses[0].partition, found.witnesses[0].offset) == ("t", 0, 0)


def test_a_message_in_flight_to_two_apps_has_one_row(tmp_path: Path) -> None:
    place = {"topic": "in", "partition": 0, "value_raw": b"10"}
    messages = [
        place | {"offset": 0, "receiver_app": "b", "value": "10", "sender": 1},
        place | {"offset": 0, "receiver_app": "a", "why_undecoded": "no codec", "sender": 1},
        place | {"offset": 1, "receiver_app": "b", "value": "10", "sender": 1},
    ]
    sql = 'SELECT "offset", receivers, value, sender, value_raw FROM in_flight'
    (found,) = outcomes(tmp_path, [sql], messages=messages)
    assert [json.loads(it.what) for it in found.witnesses] == [
        {"offset": 0, "receivers": ["a", "b"], "value": "10", "sender": 1, "value_raw": "MTA="},
        {"offset": 1, "receivers": ["b"], "value": "10", "sender": 1, "value_raw": "MTA="},
    ]


# --- Ready-made -------------------------------------------------------------------------------------------------------


def test_the_ready_made_ones_are_evaluated(tmp_path: Path) -> None:
    """A violation at most: no table has rows."""
    parameters = {"table": "t", "total": "0", "topics": "in", "waits_for": "$.x", "seconds": "1"}
    wanted = [
        item
        for name in ready_made()
        for item in load([name], {k: v for k, v in parameters.items() if k in parameters_of([name])})
    ]
    found = invariants.check(wanted, in_files(tmp_path, {}))
    assert {outcome.name.removeprefix("V6 ") for outcome in found} == {*ready_made()}
    assert UNCLEAR not in {outcome.status for outcome in found}, found


@pytest.mark.parametrize(
    ("in_flight", "taken_in", "apps", "status"),
    [
        ({"ledger": "payments", "audit": "payments"}, False, "", PASSED),
        ({"ledger": "payments"}, False, "", PASSED),
        ({"audit": "payments"}, True, "", PASSED),
        ({"audit": "payments"}, False, "", FAILED),  # neither here nor there: lost
        ({"ledger": "payments"}, True, "", FAILED),  # here and there: doubled
        ({"clearing": "transfers", "audit": "transfers"}, False, "", PASSED),
        ({"clearing": "transfers"}, False, "", UNCLEAR),
        ({"audit": "transfers"}, True, "", UNCLEAR),
        ({"clearing": "transfers"}, False, "ledger,clearing", PASSED),
        ({"audit": "transfers"}, True, "ledger,clearing", PASSED),
        ({"audit": "transfers"}, False, "ledger,clearing", FAILED),
    ],
)
def test_a_record_that_two_apps_read_is_one_until_it_is_taken_in_where_it_counts(
    tmp_path: Path, in_flight: dict[str, str], taken_in: bool, apps: str, status: Status
) -> None:
    """`ledger` has the table `balances` and takes in `payments`, `clearing` hands on what it takes in of `transfers`,
    and `audit` reads both and moves nothing. One record, of 10, is in flight to some of them."""
    named = {"table": "balances", "topics": "payments,transfers"} | ({"apps": apps} if apps else {})
    messages = [
        {"receiver_app": app, "topic": topic, "partition": 0, "offset": 5, "value": '{"amount": 10}'}
        for app, topic in in_flight.items()
    ]
    positions = [{"app": app, "topic": topic, "partition": n} for app, topic in READERS for n in (0, 1)]

    def outcome(name: str, held: str, **parameters: str) -> CheckEntry:
        state = [{"app": "ledger", "table_name": "balances", "key": "a", "value": held}]
        tables: dict[str, Any] = {"state": state, "messages": messages, "positions": positions}
        return of(tmp_path / name, name, named | parameters, **tables)

    sum_of_all = outcome("conservation", "100" if taken_in else "90", total="100")
    one = outcome("one_token", "true" if taken_in else "false")
    assert (sum_of_all.status, one.status) == (status, status), (sum_of_all.witnesses, one.witnesses)
    if status is UNCLEAR:
        said = "not all of audit and clearing have taken in transfers[0]@5: say by --set apps="
        assert said in sum_of_all.witnesses[0].what
        assert said in one.witnesses[0].what


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"seconds": "30"}, [("mail", 3), ("mail", 4), ("pay", 1)]),
        ({"seconds": "60"}, [("mail", 3), ("mail", 4)]),
        ({"seconds": "30", "topics": "pay,other"}, [("pay", 1)]),
        ({"seconds": "90", "topics": "pay"}, []),
    ],
)
def test_a_message_that_waits_too_long_or_has_no_time_is_found(
    tmp_path: Path, parameters: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    triggered_s, waited_ms = 1_795_000_000, (1_000, 30_001, 30_000, 90_000, None)
    sent_ms = (None if ms is None else triggered_s * 1_000 - ms for ms in waited_ms)
    place = {"partition": 0, "receiver_app": "a"}
    messages = [
        place | {"topic": "pay" if n < 3 else "mail", "offset": n, "timestamp_ms": at}
        for n, at in enumerate(sent_ms)
    ]
    processes = [{"triggered_at": datetime.fromtimestamp(triggered_s, UTC)}]
    found = of(tmp_path, "delivered_within", parameters, messages=messages, processes=processes)
    assert sorted((item.topic, item.offset) for item in found.witnesses) == expected


def test_a_value_that_is_no_json_has_no_amount(tmp_path: Path) -> None:
    def outcome(name: str, **parameters: str) -> CheckEntry:
        state = rows("x", '{"n":-0.25}', '{"n":0.5}')
        return of(tmp_path, name, {"table": "t", "amount": "$.n"} | parameters, state=state)

    assert json.loads(outcome("conservation", total="0.25").witnesses[0].what)["without_amount"] == 1
    assert outcome("conservation", total="0.25", without="1").status is PASSED
    assert outcome("no_negative").found == 2


@pytest.mark.parametrize(
    ("booked", "in_flight", "rows"),
    [
        (["3", "5"], 2, []),
        (["3", "5"], 1, [{"sent": 10, "booked": 8, "in_flight": 1}]),  # lost
        (["3", "6"], 2, [{"sent": 10, "booked": 9, "in_flight": 2}]),  # booked twice
        ([], 2, [{"sent": 10, "in_flight": 2}]),
    ],
)
def test_the_query_of_the_guide_finds_what_is_lost_or_doubled_between_two_services(
    tmp_path: Path, booked: list[str], in_flight: int, rows: list[dict[str, int]]
) -> None:
    (sql,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    state = [{"app": "billing", "table_name": "sent", "key": "a", "value": "10"}]
    state += [
        {"app": "ledger", "table_name": "booked", "key": str(n), "value": it} for n, it in enumerate(booked)
    ]
    messages = [
        {"topic": "invoices", "partition": 0, "offset": n, "receiver_app": app}
        for n in range(in_flight)
        for app in ("ledger", "audit")
    ]
    (found,) = outcomes(tmp_path, [sql], state, messages=messages)
    assert [json.loads(row.what) for row in found.witnesses] == rows


def test_one_token_is_in_one_place(tmp_path: Path) -> None:
    """In the table of who holds it, or on its way; a second one, wherever it is, and none at all are told."""

    def places(held: dict[str, str | None], on_the_way: list[str]) -> tuple[str, list[tuple[Any, ...]]]:
        common = {"app": "x", "partition": 0}
        state = [
            common
            | {"table_name": table, "key": who, "value": value, "changelog_offset": n}
            | {"why_undecoded": "no text" if value is None else None}
            for n, (who, value) in enumerate(held.items())
            for table in ("ring", "another")
        ]
        messages = [
            {"topic": topic, "partition": 1, "offset": 5 + n, "receiver_app": "x"}
            for n, topic in enumerate(on_the_way)
        ]
        ring = {"table": "ring", "holds": "$.token", "topics": "left,right"}
        found = of(tmp_path, "one_token", ring, state=state, messages=messages)
        printed = [json.loads(witness.what) for witness in found.witnesses]
        assert found.found == len(printed)
        return found.status, sorted(
            (one.get("tokens", -1), one.get("place"), one.get("offset")) for one in printed
        )

    a: dict[str, str | None] = {"a": '{"token": true}'}
    b: dict[str, str | None] = {"b": '{"token": true}'}
    neither: dict[str, str | None] = {"c": '{"token": false}', "d": "{}"}
    holds: tuple[str, list[tuple[Any, ...]]] = (PASSED, [])
    assert places({**neither, **a}, ["elsewhere"]) == places(neither, ["right", "elsewhere"]) == holds
    assert places({**a, **b}, []) == (FAILED, [(2, "held by a", 0), (2, "held by b", 1)])
    assert places(a, ["left"]) == (FAILED, [(2, "held by a", 0), (2, "in flight", 5)])
    assert places({}, ["left", "right"]) == (FAILED, [(2, "in flight", 5), (2, "in flight", 6)])
    assert places(neither, ["elsewhere"]) == (FAILED, [(0, None, None)])
    assert places({**a, "e": None}, []) == (FAILED, [(-1, "unknown: e: no text", 1)])


def test_ended_means_nothing_in_flight_and_nobody_busy(tmp_path: Path) -> None:
    busy = [("a", '{"busy": false}', None), ("b", '{"busy": true}', None), ("c", None, "no text")]
    state = [
        {"app": "x", "table_name": "work", "partition": 0, "key": who, "value": value, "why_undecoded": why}
        for who, value, why in busy
    ]
    positions = [{"app": "x", "topic": "in", "partition": 0}]

    def witnesses(**parameters: str) -> list[str]:
        found = of(tmp_path, "termination", parameters, state=state, positions=positions)
        return [json.loads(witness.what)["why"] for witness in found.witnesses]

    assert witnesses() == witnesses(topics="in") == []
    assert witnesses(table="work", busy="$.busy") == ["busy: b", "unknown: no text"]
    assert witnesses(topics="in,mistyped") == ["nobody reads such a topic"]


def test_a_circle_of_waiting_is_found(tmp_path: Path) -> None:
    ring = [(f"r{n}", f"r{(n + 1) % 16}") for n in range(16)]
    waits = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", None), *ring]
    state: list[dict[str, Any]] = [
        {"app": "x", "table_name": "locks", "partition": 0, "key": who, "value": whom} for who, whom in waits
    ]
    state.append({"app": "x", "table_name": "locks", "partition": 0, "key": "f", "why_undecoded": "no text"})
    found = of(tmp_path, "deadlock", {"table": "locks"}, state=state)
    circles = sorted(json.loads(witness.what)["circle"] for witness in found.witnesses)
    assert circles[:3] == ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"]
    assert "unknown: f: no text" in circles
    assert found.found == 3 + len(ring) + 1, "one for each that waits in a circle"
