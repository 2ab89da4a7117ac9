"""otelchain.open: DataFrames and trees, of a file and of a collector."""

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import otelchain
from collector_process import RunningCollector
from otelchain.reading import runs_pages
from otelchain.reading.file_source import FileSource
from otelchain.reading.runs_question import RunsQuestion
from otelchain_collector import answers
from otelchain_collector.answer import ArrowAnswer
from otelchain_queries import Query, QueryError
from stored_runs import SUPPORT_RUNS, TRACE, add_runs, asked, make_store, run

HOSTILE = "<script>alert(1)</script>\x1b[2J"
NOON = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)


@pytest.fixture(name="traces", params=["file", "collector", "address"])
def _traces(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    start_collector: Callable[..., RunningCollector],
) -> otelchain.Traces:
    database = make_store(tmp_path / "otelchain.duckdb")
    if request.param == "file":
        return otelchain.open(database)
    collector = start_collector(database)
    return otelchain.open(database if request.param == "collector" else f"http://{collector.http}")


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    return make_store(tmp_path / "x.duckdb")


def test_runs_keep_nanoseconds_and_whole_numbers(traces: otelchain.Traces) -> None:
    runs = traces.runs()

    assert list(runs["name"]) == ["fake-1", "lookup", "search", "assistant"]
    assert str(runs["start_time"].dtype) == "datetime64[ns, UTC]"
    assert runs["start_time"].astype("int64").iloc[-1] == 1_796_079_894_123_456_789
    assert runs["input_tokens"].dtype == pd.Int64Dtype()
    assert list(runs["input_tokens"].isna()) == [False, True, True, True]
    assert runs["input_tokens"].iloc[0] == 120
    assert {"inputs", "outputs", "row_id"}.isdisjoint(runs.columns)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"status": "error"}, ["search"]),
        ({"status": ["error", "pending"]}, ["search"]),
        ({"status": []}, []),
        ({"run_type": ["tool", "llm"]}, ["fake-1", "lookup"]),
        ({"name": "lookup", "run_type": "tool"}, ["lookup"]),
        ({"service": "bank"}, []),
        ({"session_id": "s1"}, ["assistant"]),
        ({"trace_id": TRACE, "limit": 1}, ["fake-1"]),
        ({"since": "2026-11-30T23:04:54.160Z"}, ["fake-1"]),
        ({"until": "2026-12-01T01:04:54.130+02:00"}, ["assistant"]),
        ({"since": NOON}, []),
        ({"until": NOON.replace(tzinfo=None), "status": "error"}, ["search"]),
        # A Timestamp has nanoseconds, a datetime has not.
        ({"since": pd.Timestamp("2026-11-30T23:04:54.163456790Z")}, []),
        ({"since": pd.Timestamp("2026-11-30T23:04:54.163456789Z")}, ["fake-1"]),
        ({"since": timedelta(days=36_500), "limit": 2}, ["fake-1", "lookup"]),
        ({"name": "' OR '1'='1"}, []),
        ({"name": HOSTILE}, []),
    ],
)
def test_filters_narrow_the_runs(
    database: Path, filters: dict[str, Any], expected: list[str]
) -> None:
    assert list(otelchain.open(database).runs(**filters)["name"]) == expected


def test_payload_is_read_when_it_is_named_and_decoded_on_request(traces: otelchain.Traces) -> None:
    columns = ["name", "inputs"]

    texts = traces.runs(columns=columns).set_index("name")["inputs"]
    decoded = traces.runs(columns=columns, json=True).set_index("name")["inputs"]

    assert texts["lookup"] == '{"id":42}'
    assert decoded["lookup"] == {"id": 42}
    assert decoded["search"] == "orders of 42", "text that is not JSON stays text"
    assert decoded["fake-1"] is None


def test_a_query_takes_values_of_python(traces: otelchain.Traces) -> None:
    slow = traces.query("slow-tools", min_duration=timedelta(seconds=7), since=NOON - timedelta(1))

    assert list(slow["name"]) == ["lookup"]
    assert list(traces.query("slow_tools", min_duration="8s")["name"]) == []
    assert traces.query("interrupted-runs", waiting=True, service=None).empty


def test_sql_answers_any_type(traces: otelchain.Traces) -> None:
    frame = traces.sql(
        """
        SELECT
            1::HUGEINT AS whole, NULL::BOOLEAN AS maybe, [1, NULL] AS list, {'a': 'b'} AS object,
            1.50::DECIMAL(5, 2) AS exact, DATE '2026-12-01' AS day, 'x'::BLOB AS bytes,
            TIMESTAMP '2026-12-01 10:00:00' AS time, TIMESTAMP '0001-01-01' AS ancient,
            NULL::VARCHAR AS missing, 1 AS whole
        """
    )

    row = frame.iloc[0]
    assert list(frame.columns).count("whole") == 2
    assert frame.dtypes.iloc[0] == pd.Int64Dtype()
    assert frame["maybe"].dtype == pd.BooleanDtype()
    assert row["list"] == [1, None]
    assert row["object"] == {"a": "b"}
    assert str(row["exact"]) == "1.50"
    assert row["bytes"] == b"x"
    assert row["time"] == pd.Timestamp("2026-12-01T10:00:00Z")
    assert row["ancient"].isoformat() == "0001-01-01T00:00:00+00:00"
    assert frame["missing"].dtype == pd.Series(["text"]).dtype


def test_a_limit_that_was_not_asked_for_is_said(database: Path) -> None:
    add_runs(database, [run(n, None, "more", "chain", start_ms=n) for n in range(100, 1_200)])
    traces = otelchain.open(database)

    with pytest.warns(UserWarning, match="more rows exist; raise limit") as caught:
        runs = traces.runs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked_for = traces.runs(limit=5)

    assert (len(runs), len(asked_for)) == (1_000, 5)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("running", [False, True], ids=["file", "collector"])
def test_runs_are_read_page_by_page(
    database: Path,
    start_collector: Callable[..., RunningCollector],
    monkeypatch: pytest.MonkeyPatch,
    running: bool,
) -> None:
    # Of one time all: only the ids tell where a page ends.
    add_runs(database, [run(n, None, "more", "chain", start_ms=50) for n in range(100, 125)])
    traces = otelchain.open(database)
    expected = traces.runs(limit=1_000)
    if running:
        start_collector(database)
    monkeypatch.setattr(runs_pages, "_PAGE_ROWS", 4)

    for limit in (0, 3, 4, 5, 29, 1_000):
        pd.testing.assert_frame_equal(traces.runs(limit=limit), expected[:limit])
    one = traces.runs(columns=["span_id", "name", "span_id"], limit=10)
    assert list(one.columns) == ["span_id", "name", "span_id"]
    assert len(expected) == 29


class Arriving(FileSource):
    """A file into which a newer run comes after every answer."""

    def query_arrow(self, query: Query, values: Mapping[str, str]) -> ArrowAnswer:
        answer = super().query_arrow(query, values)
        add_runs(self._database, [run(1_000, None, "newer", "chain", start_ms=1_000)])
        return answer


def test_what_arrives_between_two_pages_moves_no_run(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_pages, "_PAGE_ROWS", 2)
    question = RunsQuestion.of({}, since=None, until=None, columns=["name"])

    rows, has_more = runs_pages.runs_table(Arriving(database), question, 100)

    assert rows.column("name").to_pylist() == ["fake-1", "lookup", "search", "assistant"]
    assert not has_more


def test_a_page_that_is_too_large_is_asked_for_in_halves(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [run(n, None, "more", "tool", start_ms=n, outputs="y" * 300) for n in range(100, 110)]
    add_runs(database, more)
    monkeypatch.setattr(answers, "MAX_ANSWER_BYTES", 2_000)
    monkeypatch.setattr(runs_pages, "_PAGE_ROWS", 100)
    traces = otelchain.open(database)

    texts = traces.runs(columns=["name", "inputs", "outputs"])

    assert list(texts["name"]) == [*["more"] * 10, "fake-1", "lookup", "search", "assistant"]
    with pytest.raises(otelchain.OtelchainError, match="the answer is larger than"):
        traces.sql("SELECT name, inputs, outputs FROM runs, range(9)")


def test_after_a_question_that_failed_the_next_one_is_answered(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileSource(database).held() as source:
        with monkeypatch.context() as small:
            small.setattr(answers, "MAX_ANSWER_BYTES", 100)
            with pytest.raises(answers.QueryFailed, match="larger than"):
                source.sql("SELECT * FROM runs", 10)

        assert source.sql("SELECT count(*) FROM runs", 1).rows == [[4]]


@pytest.mark.parametrize("limit", [-1, 1.5, "5", True])
def test_a_limit_is_a_number_of_rows(database: Path, limit: Any) -> None:
    traces = otelchain.open(database)

    with pytest.raises(otelchain.OtelchainError, match="limit must be a whole number, not"):
        traces.runs(limit=limit)


def test_more_than_an_answer_has_is_refused_and_never_cut_in_silence(database: Path) -> None:
    traces = otelchain.open(database)

    for ask in (
        lambda: traces.query("traces", limit=100_001),
        lambda: traces.sql("SELECT 1", limit=100_001),
    ):
        with pytest.raises(otelchain.OtelchainError, match="limit must be at most 100,000; runs"):
            ask()
    with pytest.warns(UserWarning, match="more rows exist"):
        assert len(traces.sql("SELECT range FROM range(100001)")) == 100_000


@pytest.mark.parametrize("trace_id", ["4bf9", "last", TRACE.upper(), f"{TRACE[:8]}-{TRACE[8:]}"])
def test_the_beginning_of_an_id_is_enough(traces: otelchain.Traces, trace_id: str) -> None:
    slow = traces.query("slow-tools", trace_id=trace_id)
    runs = traces.runs(trace_id=trace_id)

    assert (list(slow["name"]), len(runs)) == (["lookup"], 4)
    assert len(traces.runs(trace_id=[trace_id, "f" * 32])) == 4
    with pytest.raises(otelchain.OtelchainError, match="no trace has an id that begins with 'ab'"):
        traces.query("slow-tools", trace_id="ab")


def test_a_tree_prints_as_the_command_prints_it(traces: otelchain.Traces, tmp_path: Path) -> None:
    tree = traces.tree("4bf9")

    shown = asked("show", "last", "--database", str(tmp_path / "otelchain.duckdb"))
    waterfall = asked(
        "show", TRACE, "--waterfall", "--database", str(tmp_path / "otelchain.duckdb")
    )
    assert f"{tree}\n" == f"{tree!r}\n" == shown.stdout.decode()
    assert f"{tree.waterfall()}\n" == waterfall.stdout.decode()
    assert (tree.trace_id, len(tree)) == (TRACE, 4)
    assert list(tree.frame["depth"]) == [0, 1, 1, 2]
    assert str(tree.frame["start_time"].dtype) == "datetime64[ns, UTC]"
    assert tree.frame["start_time"].astype("int64").iloc[0] == 1_796_079_894_123_456_789
    assert tree.frame["inputs"].iloc[2] == '{"id":42}'
    assert tree.to_frame(json=True)["inputs"].iloc[2] == {"id": 42}


@pytest.mark.failure("stored-scripts")
def test_a_tree_shows_itself_in_a_notebook_and_obeys_nothing_of_what_was_stored(
    tmp_path: Path,
) -> None:
    hostile = run(
        *(1, None, HOSTILE, HOSTILE),
        status="error",
        error=HOSTILE,
        inputs=HOSTILE,
        outputs="</pre></details>" + "x" * 5_000,
        model=HOSTILE,
        session_id='" onload="alert(1)',
        service_name=HOSTILE,
        langgraph_node=HOSTILE,
    )
    child = run(2, 1, "child", "tool", start_ms=500, duration_ms=250)
    tree = otelchain.open(make_store(tmp_path / "x.duckdb", [hostile, child])).tree()

    html = tree._repr_html_()

    tags = set(re.findall(r"<(/?[a-z]+)", html))
    assert {tag.strip("/") for tag in tags} == {
        *("b", "details", "div", "p", "pre", "summary", "table", "tbody", "td", "tr")
    }
    assert "\x1b" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[2J" in html
    assert '" onload' not in html
    assert "x" * 2_001 not in html
    # A quarter of a second, half a second into one second.
    assert "margin-left:50.0%;width:25.1%" in html
    for tag in ("div", "details", "pre", "td", "tr", "table"):
        assert html.count(f"<{tag}") == html.count(f"</{tag}>")


def test_what_arrives_later_is_seen(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    database = make_store(tmp_path / "x.duckdb", SUPPORT_RUNS[:1])
    traces = otelchain.open(database)
    before = len(traces.runs())

    add_runs(database, SUPPORT_RUNS[1:])
    after = len(traces.runs())
    start_collector(database)

    assert (before, after, len(traces.runs())) == (1, 4, 4)


def test_own_queries_join_the_bundle(
    tmp_path: Path, start_collector: Callable[..., RunningCollector]
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "named_like.sql").write_text(
        "-- title: Runs by name\n-- description: Rows.\n-- why: Test.\n"
        "-- param: name = %  a pattern\n"
        "SELECT name FROM runs WHERE name LIKE $name ORDER BY name"
    )
    database = make_store(tmp_path / "x.duckdb")
    traces = otelchain.open(database, queries_dirs=[folder])
    from_file = list(traces.query("named-like", name="%a%")["name"])
    start_collector(database)

    assert from_file == list(traces.query("named-like", name="%a%")["name"])
    assert from_file == ["assistant", "fake-1", "search"]
    assert "named-like" in list(traces.queries()["name"])


def test_what_is_wrong_is_said(database: Path, tmp_path: Path) -> None:
    traces = otelchain.open(database)

    def refused(kind: type[Exception], ask: Callable[[], object]) -> str:
        with pytest.raises(kind) as caught:
            ask()
        return str(caught.value)

    error = otelchain.OtelchainError
    assert "there is no database" in refused(error, lambda: otelchain.open(tmp_path / "no.duckdb"))
    assert "no collector answers" in refused(error, lambda: otelchain.open("http://127.0.0.1:9"))
    assert "is not an HTTP address" in refused(error, lambda: otelchain.open("http://[x"))
    assert "did you mean 'slow-tools'" in refused(error, lambda: traces.query("slow-tool"))
    assert refused(QueryError, lambda: traces.query("traces", sinc="1h")) == (
        "traces has no parameter 'sinc'; did you mean 'since'?"
    )
    assert "since='someday' is not a time" in refused(
        error, lambda: traces.query("traces", since="someday")
    )
    assert "traces: service must be text, a number, a boolean or a timedelta, not list" in refused(
        error, lambda: traces.query("traces", service=["a"])
    )
    assert "status" in refused(error, lambda: traces.runs(columns=["statu"]))
    assert "only SELECT" in refused(error, lambda: traces.sql("DROP TABLE spans"))
    assert "no trace has an id that begins with 'ffff'" in refused(
        error, lambda: traces.tree("ffff")
    )
    assert repr(traces) == f"otelchain.open({str(database)!r})"


def test_a_column_name_is_a_name_and_never_sql(database: Path) -> None:
    traces = otelchain.open(database)

    with pytest.raises(otelchain.OtelchainError):
        traces.runs(columns=['name" FROM runs; DROP TABLE spans; --'])

    assert len(traces.runs()) == 4


def test_a_star_import_leaves_the_own_open_alone() -> None:
    names: dict[str, object] = {}

    exec("from otelchain import *\nkept = open is __builtins__['open']", names)

    assert names["kept"] is True
    assert "open" in dir(otelchain)


def test_without_the_extra_the_way_to_install_it_is_said(
    monkeypatch: pytest.MonkeyPatch, database: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(otelchain.OtelchainError) as caught:
        otelchain.open(database)

    assert str(caught.value) == (
        "'otelchain.open' needs the collector extra; "
        "install it with: pip install 'otelchain[collector]'"
    )


def test_the_file_is_free_between_two_answers(database: Path) -> None:
    traces = otelchain.open(database)
    traces.runs()
    traces.tree()

    duckdb.connect(str(database)).close()
