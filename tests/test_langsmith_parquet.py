"""LangSmith's bulk export: Parquet as its documents describe it gives what JSON lines give."""

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exchanged import contents, count, export, imported, make_database, write_lines
from otlp_requests import request, span
from test_langsmith_import import CHILD, OTHER, ROOT, rows, run

# docs.langchain.com/langsmith/data-export, "Exportable fields", with the types of its files.
_TEXT, _WHOLE, _NUMBER = pa.string(), pa.int64(), pa.float64()
FIELDS: dict[str, pa.DataType] = {
    **dict.fromkeys(("id", "tenant_id", "session_id", "trace_id", "parent_run_id"), _TEXT),
    **dict.fromkeys(("parent_run_ids", "reference_example_id", "name", "run_type"), _TEXT),
    **dict.fromkeys(("start_time", "end_time"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("status", "dotted_order", "trace_tier"), _TEXT),
    "is_root": pa.bool_(),
    **dict.fromkeys(("inputs", "outputs", "error", "extra", "events", "tags"), _TEXT),
    "feedback_stats": _TEXT,
    **dict.fromkeys(("total_tokens", "prompt_tokens", "completion_tokens"), _WHOLE),
    **dict.fromkeys(("total_cost", "prompt_cost", "completion_cost"), _NUMBER),
    "first_token_time": pa.timestamp("us", "UTC"),
}
_TIMES = ("start_time", "end_time", "first_token_time")


def _runs() -> list[dict[str, Any]]:
    """Return three runs as list_runs has them."""
    # Every column is in every row, the empty ones as NULL.
    order = f"20261130T010203456789Z{ROOT}"
    model = run(
        id=CHILD,
        trace_id=None,
        parent_run_id=ROOT,
        parent_run_ids=[ROOT],
        dotted_order=f"{order}.20261130T010203500000Z{CHILD}",
        start_time="2026-11-30T01:02:03.500000Z",
        name="ask 🙂",
        run_type="llm",
        inputs={"messages": [["human", "où?"]]},
        extra={"metadata": {"ls_model_name": "m", "thread_id": "chat", "user_id": 7}},
        tags=["beta", "b"],
        events=[{"name": "new_token", "time": "2026-11-30T01:02:03.6Z"}],
        prompt_tokens=3,
        completion_tokens=2,
        total_tokens=5,
        total_cost=0.25,
        first_token_time="2026-11-30T01:02:03.750000Z",
        feedback_stats={"correct": {"n": 2, "avg": 0.5}},
    )
    failed = run(
        id=OTHER,
        parent_run_id=ROOT,
        run_type="retriever",
        status="error",
        error="ValueError('no')",
        outputs=None,
    )
    return [run(is_root=True, session_id=OTHER, dotted_order=order), model, failed]


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)


def _cell(name: str, value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if name in _TIMES:
        moment = _moment(value)
        return moment if kind.tz else moment.replace(tzinfo=None)
    if pa.types.is_decimal(kind):
        return Decimal(str(value))
    return json.dumps(value) if isinstance(value, (dict, list)) and kind == _TEXT else value


def write(
    path: Path, runs: list[dict[str, Any]], compression: str = "zstd", **types: pa.DataType
) -> Path:
    """Write a bulk export."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kinds = {**FIELDS, **types}
    columns = {
        name: pa.array([_cell(name, each.get(name), kind) for each in runs], kind)
        for name, kind in kinds.items()
    }
    pq.write_table(pa.table(columns), path, compression=compression)
    return path


@pytest.mark.parametrize(
    ("compression", "types"),
    [
        ("zstd", {}),
        ("gzip", dict.fromkeys(_TIMES, pa.timestamp("us"))),  # v1, self-hosted
        ("snappy", dict.fromkeys(_TIMES, pa.timestamp("ns", "UTC"))),
        ("none", dict.fromkeys(_TIMES, pa.timestamp("ms", "Europe/Berlin"))),
        ("zstd", {"tags": pa.list_(pa.string()), "parent_run_ids": pa.list_(pa.string())}),
    ],
)
def test_a_bulk_export_gives_the_same_runs_as_json_lines(
    compression: str, types: dict[str, pa.DataType], tmp_path: Path
) -> None:
    runs = _runs()
    if types.get("start_time") == pa.timestamp("ms", "Europe/Berlin"):
        for each in runs:  # A file of milliseconds has no more.
            each.update({name: each[name][:23] + "000Z" for name in _TIMES if name in each})
    file = write(tmp_path / "runs.parquet", runs, compression, **types)

    code, said = imported("langsmith", tmp_path / "parquet.duckdb", str(file))

    assert (code, said) == (0, ["imported: 3 records"])
    # In the order of the columns, in which what has no place of its own is kept.
    ordered = [{name: each[name] for name in FIELDS if name in each} for each in runs]
    lines = write_lines(tmp_path / "runs.jsonl", ordered)
    imported("langsmith", tmp_path / "json.duckdb", str(lines))
    assert contents(tmp_path / "parquet.duckdb") == contents(tmp_path / "json.duckdb")


def test_what_a_run_of_a_bulk_export_says(tmp_path: Path) -> None:
    file = write(tmp_path / "runs.parquet", _runs(), total_cost=pa.decimal128(18, 8))

    imported("langsmith", tmp_path / "t.duckdb", str(file))

    by_name = {each["run_type"]: each for each in rows(tmp_path / "t.duckdb")}
    model = by_name["llm"]
    assert (model["name"], model["trace_id"]) == ("ask 🙂", ROOT.replace("-", ""))
    assert (model["parent_run_id"], model["session_id"], model["user_id"]) == (ROOT, "chat", "7")
    assert (model["model"], model["input_tokens"], model["output_tokens"]) == ("m", 3, 2)
    assert (model["cost_usd"], model["tags"]) == (0.25, ["beta", "b"])
    assert model["time_to_first_token_ms"] == 250.0
    assert json.loads(model["inputs"]) == {"messages": [["human", "où?"]]}
    retriever = by_name["retriever"]
    assert (retriever["status"], retriever["error_type"]) == ("error", "ValueError")


def test_a_folder_of_a_bulk_export_is_read_at_any_depth(tmp_path: Path) -> None:
    first, *others = _runs()
    day = tmp_path / "export_id=1" / f"tenant_id={OTHER}" / "session_id=2" / "runs" / "year=2026"
    write(day / "month=11" / "day=30" / "a.parquet", [first])
    write(day / "month=12" / "day=01" / "b.parquet", others)

    code, said = imported("langsmith", tmp_path / "t.duckdb", str(tmp_path / "export_id=1"))

    assert (code, said) == (0, ["imported: 3 records"])
    again = imported("langsmith", tmp_path / "t.duckdb", str(tmp_path))
    assert again == (0, ["imported: 0 records; 3 were there already"])
    assert count(tmp_path / "t.duckdb") == {"spans": 3}


def test_a_bad_row_is_told_with_its_number_and_the_others_are_imported(tmp_path: Path) -> None:
    first, second, third = _runs()
    bad = [{**second, "id": "secret"}, {**second, "start_time": "1960-01-01T00:00:00.000000Z"}]
    file = write(tmp_path / "runs.parquet", [first, *bad, third])

    code, said = imported("langsmith", tmp_path / "t.duckdb", str(file))

    assert code == 1
    assert said == [
        f"{file}:2: id is not a UUID",
        f"{file}:3: start_time is a time before 1970 or after 2262",
        "imported: 2 records",
        "not imported: 2",
    ]
    assert imported("langsmith", tmp_path / "s.duckdb", "--strict", str(file))[0] == 2
    assert not (tmp_path / "s.duckdb").exists()


def test_a_run_whose_fields_were_left_out_keeps_the_others(tmp_path: Path) -> None:
    file = tmp_path / "runs.parquet"
    chosen = ("id", "trace_id", "run_type", "name", "total_cost", "start_time", "parent_run_id")
    table = pq.read_table(write(tmp_path / "whole.parquet", _runs()))
    pq.write_table(table.select(chosen).slice(2), file)

    imported("langsmith", tmp_path / "t.duckdb", str(file))

    [found] = rows(tmp_path / "t.duckdb")
    # Nothing says how it ended, or that it did.
    assert (found["run_type"], found["status"], found["inputs"]) == ("retriever", "pending", None)


def test_a_parquet_file_that_is_no_bulk_export_is_refused_in_words(tmp_path: Path) -> None:
    def said(file: Path, form: str = "langsmith") -> str:
        code, lines = imported(form, tmp_path / "t.duckdb", str(file))
        assert (code, len(lines)) == (2, 1)
        return lines[0]

    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert "a.parquet is no bulk export of LangSmith" in said(tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"], "run_type": ["llm"]}), tmp_path / "b.parquet")
    assert "b.parquet lacks the columns trace_id and dotted_order" in said(tmp_path / "b.parquet")
    database = make_database(tmp_path / "own.duckdb", request(span()))
    export("parquet", database, "-o", str(tmp_path / "own"), "--signal", "traces")
    own = tmp_path / "own" / "spans.parquet"
    assert "use: otelchain import parquet" in said(own)
    bulk = write(tmp_path / "bulk.parquet", _runs())
    assert "use: otelchain import langsmith" in said(bulk, "parquet")
    (tmp_path / "empty").mkdir()
    assert "there is no .parquet file in the folder" in said(tmp_path / "empty")
    (tmp_path / "torn.parquet").write_bytes(bulk.read_bytes()[:500])
    assert "cannot read" in said(tmp_path / "torn.parquet")
    assert not (tmp_path / "t.duckdb").exists()
