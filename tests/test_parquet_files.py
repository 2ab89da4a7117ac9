"""Tables as Parquet, and runs as CSV."""

import csv
import io
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exchanged import contents, count, export, imported, make_database
from otlp_requests import START, log_record, logs_request, metrics_request, point, request, span
from stored_runs import SUPPORT_RUNS, asked, make_store
from test_otlp_json_files import ZERO, _log, _metrics, _spans


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    equal = [log_record(time_unix_nano=START) for _ in range(600)]
    numbers = (point(as_double=number) for number in (float("nan"), float("-inf"), ZERO))
    return make_database(
        tmp_path / "a.duckdb",
        request(*_spans()),
        logs_request(_log(), *equal),
        metrics_request(*numbers),
        _metrics(),
    )


def test_every_table_comes_back_from_parquet(database: Path, tmp_path: Path) -> None:
    export("parquet", database, "-o", str(tmp_path / "out"))

    code, said = imported("parquet", tmp_path / "b.duckdb", "--strict", str(tmp_path / "out"))

    assert (code, said) == (0, ["imported: 614 records"])
    assert contents(tmp_path / "b.duckdb") == contents(database)
    assert imported("parquet", tmp_path / "b.duckdb", str(tmp_path / "out"))[0] == 0
    assert contents(tmp_path / "b.duckdb") == contents(database)


def test_parquet_has_the_columns_and_types_of_the_tables(database: Path, tmp_path: Path) -> None:
    export("parquet", database, "-o", str(tmp_path))

    with duckdb.connect(str(database), read_only=True) as connection:
        for table in ("logs", "metric_points", "spans"):
            file = tmp_path / f"{table}.parquet"
            stored = connection.execute(
                "SELECT column_name, replace(column_type, 'JSON', 'VARCHAR') "
                f"FROM (DESCRIBE {table})"
            ).fetchall()
            written = connection.execute(
                f"SELECT column_name, column_type FROM (DESCRIBE FROM '{file}')"
            ).fetchall()
            assert sorted(written) == sorted(stored)
        same = (
            f"(FROM '{tmp_path}/spans.parquet' SELECT trace_id, span_id, attributes, kind) "
            "EXCEPT ALL (SELECT trace_id, span_id, attributes, kind FROM spans UNION ALL "
            "SELECT trace_id, span_id, attributes, kind FROM pending_spans)"
        )
        assert connection.execute(same).fetchall() == []
    assert (tmp_path / "spans.parquet").stat().st_mode & 0o777 == 0o600


def test_filters_and_signals_choose_rows(tmp_path: Path) -> None:
    database = make_database(
        tmp_path / "a.duckdb", request(span(), service="a"), request(span(), service="b")
    )

    export("parquet", database, "-o", str(tmp_path / "o"), "--signal", "traces", "--service", "b")

    assert [path.name for path in (tmp_path / "o").iterdir()] == ["spans.parquet"]
    assert pq.read_table(tmp_path / "o" / "spans.parquet").num_rows == 1


def test_one_file_can_be_imported(database: Path, tmp_path: Path) -> None:
    export("parquet", database, "-o", str(tmp_path / "out"))

    imported("parquet", tmp_path / "b.duckdb", str(tmp_path / "out" / "spans.parquet"))

    assert count(tmp_path / "b.duckdb") == {"spans": 3, "pending_spans": 1}


def test_what_is_no_file_of_ours_is_refused_in_words(tmp_path: Path, database: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("no")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    export("parquet", database, "-o", str(tmp_path / "out"))
    whole = pq.read_table(tmp_path / "out" / "spans.parquet")
    pq.write_table(whole.drop(["flags"]), tmp_path / "part.parquet")

    for name, reason in (
        ("empty", "there is no .parquet file in the folder"),
        ("text.parquet", "cannot read"),
        ("no.parquet", "No such file or directory"),
        ("other.parquet", "is not a file that 'otelchain export parquet' wrote"),
        ("part.parquet", "lacks the column flags"),
        ("-", "cannot be read from standard input"),
    ):
        argument = name if name == "-" else str(tmp_path / name)
        code, said = imported("parquet", tmp_path / "b.duckdb", argument)
        assert code == 2, name
        assert reason in said[-1], name


def test_csv_has_the_view_runs(tmp_path: Path) -> None:
    database = make_store(tmp_path / "a.duckdb")

    content = export("csv", database)

    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    view = asked(
        *("sql", "SELECT * EXCLUDE (row_id) FROM runs ORDER BY start_time"),
        *("--database", str(database), "--format", "jsonl"),
    )
    expected = [json.loads(line) for line in view.stdout.splitlines()]
    assert len(rows) == len(SUPPORT_RUNS)
    assert [list(row) for row in rows] == [list(row) for row in expected]
    assert rows[1]["error"] == "refused\nby \x1b[31mhost"
    assert [row["name"] for row in rows] == [row["name"] for row in expected]
    assert rows[0]["model"] == ""
    assert content.count(b"\r\n") >= 5
