"""What holds for every query of the bundle, whatever it answers."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import collector_process
import otelchain
from golden_runs import everything
from golden_store import T1, GoldenStore
from otelchain.reading.file_source import FileSource
from otelchain.reading.opening import open_source
from otelchain.reading.place import Place
from otelchain.reading.source import Source
from otelchain_collector.answer import Answer, QueryFailed
from otelchain_collector.answers import answer_query
from otelchain_queries import Query, load, names

every_query = pytest.mark.parametrize("query", [load(name) for name in names()], ids=names())

HOSTILE = ("x'; DROP TABLE spans; --", "' OR '1'='1", "$limit", "%", "{name}", "🦆'\"\\", "")
COUNT = "SELECT count(*) FROM spans"
# Rows of regressions need a moment between the old and the new ones of the golden store.
VALUES = {
    "regressions": {"split": "2026-11-30T11:00:00Z"},
    "unfinished-runs": {"now": "2026-11-30T11:00:00Z"},
}


@pytest.fixture(name="database", scope="module")
def _database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden") / "golden.duckdb"
    store = GoldenStore(path)
    everything(store)
    store.connection.close()
    return path


@pytest.fixture(name="from_file", scope="module")
def _from_file(database: Path) -> dict[str, Answer]:
    source = FileSource(database)
    return {name: source.query(load(name), VALUES.get(name, {})) for name in names()}


@pytest.fixture(name="frames_from_file", scope="module")
def _frames_from_file(database: Path) -> dict[str, pd.DataFrame]:
    return _frames_of(otelchain.open(database))


@pytest.fixture(name="frames", scope="module")
def _frames(
    frames_from_file: dict[str, pd.DataFrame], database: Path, collector: Source
) -> dict[str, dict[str, pd.DataFrame]]:
    assert not isinstance(collector, FileSource)
    return {"file": frames_from_file, "collector": _frames_of(otelchain.open(database))}


def _frames_of(traces: otelchain.Traces) -> dict[str, pd.DataFrame]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "more rows exist", UserWarning)
        return {name: traces.query(name, **VALUES.get(name, {})) for name in names()}


@pytest.fixture(name="collector", scope="module")
def _collector(
    database: Path,
    # Read before the collector takes the file.
    from_file: dict[str, Answer],
    frames_from_file: dict[str, pd.DataFrame],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Source]:
    assert from_file.keys() == frames_from_file.keys()
    log = tmp_path_factory.mktemp("log") / "collector.log"
    running = collector_process.start(database, log)
    yield open_source(Place(database))
    running.kill()


@every_query
def test_it_has_something_to_answer(query: Query, from_file: dict[str, Answer]) -> None:
    # These have tests of their own, with real graphs and with a collector that redacts.
    if query.name not in ("interrupted-runs", "redaction-findings"):
        assert from_file[query.name].rows


@every_query
def test_a_collector_gives_the_same_answer_as_the_file(
    query: Query, from_file: dict[str, Answer], collector: Source
) -> None:
    assert not isinstance(collector, FileSource)

    answer = collector.query(query, VALUES.get(query.name, {}))

    assert answer.to_json() == from_file[query.name].to_json()


@every_query
@pytest.mark.parametrize("where", ["file", "collector"])
def test_pandas_gives_the_same_answer_as_the_file(
    query: Query,
    where: str,
    frames: dict[str, dict[str, pd.DataFrame]],
    from_file: dict[str, Answer],
) -> None:
    frame, answer = frames[where][query.name], from_file[query.name]

    assert list(frame.columns) == [column.name for column in answer.columns]
    rows = [list(row) for row in frame.itertuples(index=False, name=None)]
    assert [[plain(value) for value in row] for row in rows] == answer.rows


def plain(value: Any) -> Any:
    """Return a value of a DataFrame as the JSON value that the other ways give."""
    if isinstance(value, (list, dict)):
        return value
    if value is None or pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        assert value.tz is not None
        text = value.tz_convert(None).isoformat(timespec="nanoseconds")
        whole, _, fraction = text.partition(".")
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
    return value.item() if hasattr(value, "item") else value


@pytest.fixture(name="hostile_runs", scope="module")
def _hostile_runs() -> GoldenStore:
    """Every text of every run is hostile, keys of JSON too."""
    store = GoldenStore()
    everything(store)
    texts = [
        column
        for column, kind, *_ in store.connection.execute("DESCRIBE spans").fetchall()
        if kind == "VARCHAR" and not column.endswith("_attribute")
    ]
    kept = {
        "trace_id",
        "span_id",
        "parent_span_id",
        "run_type",
        "run_status",
        "dialect",
        "error_type",
    }
    hostile = ", ".join(f"$text AS {column}" for column in texts if column not in kept)
    for text in HOSTILE[:-1]:
        keys: dict[str, Any] = {"text": text}
        store.connection.execute(
            f"""
            INSERT INTO spans BY NAME
            SELECT * REPLACE (
                {hostile},
                json_merge_patch(attributes, json_object($text, $text, '$[', 1)) AS attributes,
                json_object($text, $text, '$.a[', $text) AS metadata,
                [$text] AS finish_reasons,
                trace_id || $text AS trace_id
            )
            FROM spans
            WHERE starts_with(trace_id, '{T1[:-2]}')
            """,
            keys,
        )
        store.reject(text, service_name=text, name=text, trace_id=text)
    return store


def _ask_with(
    hostile_texts: Sequence[str], query: Query, ask: Callable[[Query, dict[str, str]], Answer]
) -> None:
    for param in query.params:
        for hostile in hostile_texts:
            values = {**VALUES.get(query.name, {}), param.name: hostile}
            free_text = param.default == "" or param.name == "trace_id"
            if not free_text:  # no number, no time, no such choice
                with pytest.raises(QueryFailed):
                    ask(query, values)
            # Where there are services and runs of the other names, an answer has rows: see below.
            elif hostile == HOSTILE[0] or (hostile and param.name not in ("service", "name")):
                assert ask(query, values).rows == [], (param.name, hostile)


@every_query
def test_a_value_is_data_and_never_sql(query: Query, collector: Source) -> None:
    before = collector.sql(COUNT, 1).rows

    _ask_with(HOSTILE[:1], query, collector.query)

    assert collector.sql(COUNT, 1).rows == before


@every_query
def test_any_value_is_data_and_never_sql(query: Query, hostile_runs: GoldenStore) -> None:
    # What the collector answers with, without the way to it.
    connection = hostile_runs.connection
    before = connection.execute(COUNT).fetchall()

    _ask_with(HOSTILE[1:], query, partial(answer_query, connection))

    assert connection.execute(COUNT).fetchall() == before


@every_query
def test_names_and_keys_are_only_ever_values(query: Query, hostile_runs: GoldenStore) -> None:
    values = {**VALUES.get(query.name, {}), "limit": "100000"}

    rows = hostile_runs.ask(query.name, **values)

    services = {row["service_name"] for row in rows if "service_name" in row}
    assert services <= {*HOSTILE, None, *_golden_services(hostile_runs)}
    for hostile in HOSTILE[:-1]:
        narrowed = hostile_runs.ask(query.name, **{**values, "service": hostile})
        found = {row["service_name"] for row in narrowed if "service_name" in row}
        assert found <= {hostile, *([] if query.name != "trace" else services)}


def _golden_services(store: GoldenStore) -> set[str]:
    tables = ("spans", "logs", "metric_points", "rejected_records")
    names = " UNION ".join(f"SELECT service_name FROM {table}" for table in tables)
    return {row[0] for row in store.connection.execute(names).fetchall()}


@every_query
@pytest.mark.parametrize("bound", ["since", "until"])
def test_it_shows_nothing_from_outside_its_time(
    query: Query, bound: str, hostile_runs: GoldenStore
) -> None:
    outside = "2027-01-01" if bound == "since" else "2026-01-01"

    assert hostile_runs.ask(query.name, **{bound: outside}) == []


@every_query
def test_its_limit_is_kept(query: Query, hostile_runs: GoldenStore) -> None:
    for limit in (0, 1):
        rows = hostile_runs.ask(query.name, **{**VALUES.get(query.name, {}), "limit": str(limit)})

        assert len(rows) <= limit


def test_the_golden_store_survives_all_of_it(hostile_runs: GoldenStore) -> None:
    tables = hostile_runs.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()

    assert ("spans",) in tables
    assert isinstance(hostile_runs.connection, duckdb.DuckDBPyConnection)
