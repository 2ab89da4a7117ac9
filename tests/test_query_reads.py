"""What the queries read, as DuckDB's plans say: payload only where it is shown, and by row."""

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

import pytest

from golden_runs import everything
from golden_store import GoldenStore
from otelchain_collector.guard import guard
from otelchain_queries import Query, load, names

#: Columns of ``spans`` that may be long: 11 of the 15 GB of ten million spans.
PAYLOAD = {"attributes", "events", "links", "inputs_built", "outputs_built"}
RUN = {"attributes", "inputs_built"}  # what runs.inputs is made of
RUN_OUTPUT = {"attributes", "outputs_built"}

#: What each query shows of it, or looks into: nothing, for those that are not named here.
SHOWN = {
    "echoed-queries": RUN,  # of the newest retriever runs
    "failed-retrievers": RUN,
    "fallbacks": {"attributes"},  # the name that a run says of its alternative
    "interrupted-runs": {"attributes", "links"},
    "mixed-status-parents": RUN_OUTPUT,
    "repeated-tool-calls": RUN,
    "rubric-criteria": {"attributes"},
    "rubric-verdicts": {"attributes"},
    "slow-tools": RUN | RUN_OUTPUT,
    "tool-argument-errors": RUN,
    "trace": RUN | RUN_OUTPUT | {"links"},
    "unfilled-variables": RUN,
}
every_query = pytest.mark.parametrize("query", [load(name) for name in names()], ids=names())


class Scan(NamedTuple):
    """A read of a table of spans.

    Attributes:
        columns: What it gives to the plan above it.
        join: The conditions of the first join above it; None where there is none.
        tried: What is tried on its rows before that join.
    """

    columns: set[str]
    join: tuple[str, ...] | None
    tried: str


@pytest.fixture(name="store", scope="module")
def _store() -> GoldenStore:
    store = GoldenStore()
    everything(store)
    guard(store.connection)
    return store


def scans(store: GoldenStore, query: Query, values: dict[str, str]) -> list[Scan]:
    plan = store.connection.execute(f"EXPLAIN (FORMAT JSON) {query.sql}", query.bind(values))
    [(_, text)] = plan.fetchall()
    return [scan for node in json.loads(text) for scan in _scans(node, None, "")]


def _scans(node: dict[str, Any], join: tuple[str, ...] | None, tried: str) -> Iterator[Scan]:
    said = node["extra_info"]
    if node["name"].strip() == "SEQ_SCAN" and _table(said) in {"spans", "pending_spans"}:
        tried += str(said.get("Filters", ""))
        yield Scan(set(_listed(said.get("Projections", []))), join, tried)
    if "Conditions" in said:
        join, tried = tuple(_listed(said["Conditions"])), ""
    elif node["name"].strip() == "FILTER":
        tried += str(said["Expression"])
    for child in node["children"]:
        yield from _scans(child, join, tried)


def _table(said: dict[str, Any]) -> str:
    return PurePath(said.get("Table", "")).name.rpartition(".")[2]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@every_query
def test_it_reads_no_payload_that_it_does_not_show(query: Query, store: GoldenStore) -> None:
    for values in ({}, {"since": "2026-11-30", "service": "shop"}):
        found = scans(store, query, values)

        read = set().union(*(scan.columns for scan in found)) & PAYLOAD
        assert read <= SHOWN.get(query.name, set())
        if query.name not in ("rejected-spans", "redaction-findings"):
            assert found, "the plan names no scan: this test would see nothing"


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_payload_is_read_of_rows_that_were_picked_before(name: str, store: GoldenStore) -> None:
    found = [scan for scan in scans(store, load(name), {}) if scan.columns & PAYLOAD]

    assert found, f"{name} reads no payload: take it out of SHOWN"
    for scan in found:
        assert scan.join is not None, "every payload of the store would be read"
        # The links of one trace are looked up by its id.
        if (name, scan.columns & PAYLOAD) != ("trace", {"links"}):
            assert any(_of_rows(condition) for condition in scan.join)
            assert not any(column in scan.tried for column in PAYLOAD)


def _of_rows(condition: str) -> bool:
    sides = {side.strip() for side in condition.split("=")}
    return sides <= {"row_id", "rowid", "first_row", "newest_row", "first_failure"}


def test_a_query_that_reads_what_it_does_not_show_is_found(store: GoldenStore) -> None:
    query = load("slow-tools")
    careless = "SELECT max(duration_ms) FROM runs WHERE inputs LIKE '%x%'"

    (spans, _) = scans(store, Query(**{**vars(query), "sql": careless, "params": ()}), {})

    assert "attributes" in spans.columns
    assert spans.join is None
