"""Questions over HTTP, through a real server on a free port."""

import asyncio
import contextlib
import errno
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

import otelchain_collector.rendering as rendering_module
import otelchain_queries
from otelchain_collector import api
from otelchain_collector.answers import answer_sql, as_json
from otelchain_collector.api_requests import MAX_BODIES_BYTES
from otelchain_collector.budget import ByteBudget
from otelchain_collector.json_values import json_rows
from otelchain_collector.questions import WAITING_PER_THREAD
from otelchain_collector.readers import THREADS, Readers
from otelchain_collector.rendering import JSON as JSON_TYPE
from otelchain_collector.rendering import Rendering
from otelchain_collector.response_headers import ResponseHeaders
from otelchain_collector.store import Store
from stored_runs import make_store

MAX_WAITING = THREADS * WAITING_PER_THREAD
JSON = {"content-type": "application/json"}


@pytest.fixture(name="store", scope="module")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store.open(make_store(tmp_path_factory.mktemp("api") / "otelchain.duckdb"))
    yield store
    store.close()


@pytest.fixture(name="readers", scope="module")
def _readers(store: Store) -> Readers:
    return Readers(store.database, 512 * 1024 * 1024)


@pytest.fixture(name="port", scope="module")
def _port(readers: Readers) -> Iterator[int]:
    with serving(api.routes(readers, allowed_hosts=["traces.example"])) as port:
        yield port
    readers.close()


@contextmanager
def serving(routes: Sequence[Route]) -> Iterator[int]:
    app = ResponseHeaders(Starlette(routes=routes))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def request(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    connection.request(method, path, text, JSON if headers is None else headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    is_json = response.headers.get_content_type() == "application/json"
    return response.status, json.loads(content) if is_json else content


def test_sql_is_answered_with_columns_and_rows(port: int) -> None:
    sql = "SELECT name, start_time FROM runs WHERE run_type = 'tool'"

    status, answer = request(port, "POST", "/sql", {"sql": sql})

    assert status == 200
    assert answer == {
        "columns": [
            {"name": "name", "type": "VARCHAR"},
            {"name": "start_time", "type": "TIMESTAMP_NS"},
        ],
        "rows": [["lookup", "2026-11-30T23:04:54.153456789Z"]],
        "has_more": False,
    }


def test_a_question_that_outlasts_the_drain_is_told_to_come_again(
    port: int, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(*_: Any) -> None:  # What uvicorn does at the end of its grace.
        raise asyncio.CancelledError

    monkeypatch.setattr(readers, "answer", cancelled)

    status, answer = request(port, "POST", "/sql", {"sql": "SELECT 1"})

    assert status == 503
    assert answer == {"error": "the collector is stopping; ask again in a second"}


def test_sql_is_cut_at_the_row_limit(port: int) -> None:
    status, answer = request(port, "POST", "/sql", {"sql": "FROM range(9)", "max_rows": 2})

    assert (status, answer["rows"], answer["has_more"]) == (200, [[0], [1]], True)


def test_the_parameters_of_sql_are_bound_as_values(port: int) -> None:
    sql = "SELECT $a::INTEGER + 1 AS b, $c AS c"
    body = {"sql": sql, "params": {"a": "41", "c": "'; DROP TABLE spans; --"}}

    status, answer = request(port, "POST", "/sql", body)

    assert (status, answer["rows"]) == (200, [[42, "'; DROP TABLE spans; --"]])


def test_a_named_query_is_answered(port: int) -> None:
    body = {"params": {"min_duration": "7s"}}

    status, answer = request(port, "POST", "/queries/slow-tools", body)

    assert status == 200
    names = [column["name"] for column in answer["columns"]]
    assert [row[names.index("name")] for row in answer["rows"]] == ["lookup"]


def test_the_queries_are_listed_with_their_parameters(port: int) -> None:
    status, listed = request(port, "GET", "/queries")

    assert status == 200
    assert [query["name"] for query in listed] == otelchain_queries.names()
    [slow_tools] = [query for query in listed if query["name"] == "slow-tools"]
    assert slow_tools["title"] == "Slow tools"
    assert slow_tools["params"][0]["name"] == "min_duration"
    assert slow_tools["params"][0]["default"] == "5s"


@pytest.mark.parametrize(
    ("path", "body", "expected_status", "text"),
    [
        ("/queries/slow-tool", {}, 404, "no query is named 'slow-tool'; did you mean 'slow-tools'"),
        ("/queries/..%2fsecret", {}, 404, ""),
        ("/queries/traces", {"params": {"nope": "1"}}, 400, "traces has no parameter 'nope'"),
        ("/queries/traces", {"params": {"limit": "x"}}, 400, "limit must be a whole number"),
        ("/queries/traces", {"params": {"limit": 5}}, 400, "params must be an object of text"),
        ("/queries/traces", {"params": ["limit"]}, 400, "params must be an object of text"),
        (
            "/queries/traces",
            {"limit": "5"},
            400,
            "the body must be an object with: id, offset, params",
        ),
        ("/queries/traces", "{", 400, "the body is not JSON"),
        ("/sql", {}, 400, 'the body must be {"sql": "SELECT'),
        ("/sql", {"sql": "DROP TABLE spans"}, 400, "only SELECT and EXPLAIN are allowed, not DROP"),
        ("/sql", {"sql": "SELECT $a", "params": {"a": 1}}, 400, "params must be an object of text"),
        (
            "/sql",
            {"sql": "SELECT $a::DATE", "params": {"a": "x"}, "name": "own"},
            400,
            "own: a must be a date such as 2026-11-30, not 'x'",
        ),
        ("/sql", {"sql": "DROP TABLE spans", "params": {"a": "1"}}, 400, "only SELECT"),
        ("/sql", {"sql": "SELECT nope FROM runs"}, 400, 'Referenced column "nope" not found'),
        ("/sql", {"sql": "FROM read_text('/etc/hostname')"}, 400, "'read_text' is not allowed"),
        ("/sql", {"sql": "SELECT 1", "max_rows": -1}, 400, "max_rows must be a whole number"),
        ("/sql", {"sql": "SELECT 1", "max_rows": True}, 400, "max_rows must be a whole number"),
        ("/sql", {"sql": f"SELECT '{'x' * 1_100_000}'"}, 413, "larger than 1048576 bytes"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(
    port: int, path: str, body: Any, expected_status: int, text: str
) -> None:
    status, answer = request(port, "POST", path, body)

    assert status == expected_status
    if text:
        assert text in answer["error"]
        assert "\n" not in answer["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_a_web_page_can_send_unasked_is_refused(port: int, kind: str) -> None:
    status, answer = request(port, "POST", "/sql", {"sql": "SELECT 1"}, {"content-type": kind})

    assert status == 415
    assert "application/json" in answer["error"]


@pytest.mark.parametrize("path", ["/sql", "/queries/traces"])
def test_a_question_is_never_asked_by_get(port: int, path: str) -> None:
    status, _ = request(port, "GET", path)

    assert status == 405


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:4318", 200),
        ("localhost", 200),
        ("[::1]:4318", 200),
        ("traces.example:4318", 200),
        ("TRACES.example", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
    ],
)
def test_a_name_that_is_not_the_collectors_is_refused(port: int, host: str, expected: int) -> None:
    headers = {**JSON, "host": host}

    asked, answer = request(port, "POST", "/sql", {"sql": "SELECT 1"}, headers)
    listed, _ = request(port, "GET", "/queries", headers=headers)

    assert (asked, listed) == (expected, expected)
    if expected == 400:
        assert answer == {"error": f"host '{host}' is not this collector's address"}


@pytest.mark.failure("shared-connection")
def test_many_questions_at_once_each_get_their_own_answer(port: int) -> None:
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        sql = f"SELECT sum(range) + {number} FROM range(100000)"
        answers[number] = request(port, "POST", "/sql", {"sql": sql})[1]["rows"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {number: [[4999950000 + number]] for number in range(16)}


def test_answers_are_not_kept_by_caches(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/sql", '{"sql": "SELECT 1"}', JSON)
    response = connection.getresponse()

    assert response.getheader("cache-control") == "no-store"
    assert response.getheader("access-control-allow-origin") is None
    connection.close()


def test_a_row_written_later_is_in_the_next_answer(tmp_path: Path, port: int, store: Store) -> None:
    count = {"sql": "SELECT count(*) FROM rejected_spans"}
    before = request(port, "POST", "/sql", count)[1]["rows"]

    from otelchain_collector.rows import RejectedRecord

    store.reject([RejectedRecord(1, "no end", None, None, None, None, "traces")])

    after = request(port, "POST", "/sql", count)[1]["rows"]
    assert (before, after) == ([[0]], [[1]])


def test_pages_follow_one_another_without_gap_or_overlap(port: int) -> None:
    sql = "FROM range(25)"
    pages, offset, more = [], 0, True
    while more:
        _, answer = request(port, "POST", "/sql", {"sql": sql, "max_rows": 10, "offset": offset})
        pages.append([row[0] for row in answer["rows"]])
        offset, more = offset + len(answer["rows"]), answer["has_more"]

    assert pages == [list(range(10)), list(range(10, 20)), list(range(20, 25))]


def test_a_named_query_has_pages_of_its_limit(port: int) -> None:
    def page(limit: int, offset: int) -> tuple[list[Any], bool]:
        body = {"params": {"limit": str(limit), "min_duration": "0s"}, "offset": offset}
        status, answer = request(port, "POST", "/queries/slow-tools", body)
        assert status == 200
        return answer["rows"], answer["has_more"]

    whole, _ = page(100, 0)
    assert len(whole) > 0
    for place, row in enumerate(whole):
        assert page(1, place) == ([row], place + 1 < len(whole))
    assert page(1, len(whole)) == ([], False)


@pytest.mark.parametrize("offset", [-1, "1", 1.5, True, 10**10])
def test_an_offset_of_another_form_is_refused(port: int, offset: Any) -> None:
    for path, body in (("/sql", {"sql": "SELECT 1"}), ("/queries/traces", {})):
        status, answer = request(port, "POST", path, {**body, "offset": offset})

        assert (status, answer["error"]) == (400, "offset must be a whole number up to 1000000000")


ARROW = "application/vnd.apache.arrow.stream"


def arrow(port: int, path: str, body: dict[str, Any]) -> tuple[pa.Table, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body), {**JSON, "accept": ARROW})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    assert (response.status, response.headers["content-type"]) == (200, ARROW), content
    with pa.ipc.open_stream(content) as stream:
        return stream.read_all(), response.headers


def test_an_arrow_stream_has_the_types_of_the_columns(port: int) -> None:
    sql = (
        "SELECT 1::BIGINT AS a, [1.5, NULL]::DOUBLE[] AS b, 'x' AS c, "
        "TIMESTAMP_NS '2026-11-30 23:04:54.153456789' AS d, 2::HUGEINT AS e"
    )

    table, headers = arrow(port, "/sql", {"sql": sql})

    assert [str(kind) for kind in table.schema.types][:4] == [
        "int64",
        "list<element: double>" if "element" in str(table.schema.types[1]) else "list<l: double>",
        "string",
        "timestamp[ns]",
    ]
    assert table.column("a").to_pylist() == [1]
    assert table.column("b").to_pylist() == [[1.5, None]]
    assert table.column("d").cast(pa.int64()).to_pylist() == [1_796_079_894_153_456_789]
    assert headers["otelchain-has-more"] == "false"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sql", {"sql": "SELECT name, run_type FROM runs ORDER BY name", "max_rows": 2}),
        ("/sql", {"sql": "SELECT name FROM runs ORDER BY name", "offset": 2}),
        ("/sql", {"sql": "SELECT name FROM runs WHERE false"}),
        ("/sql", {"sql": "FROM range(5000)", "max_rows": 4000}),
        ("/queries/traces", {"params": {"limit": "1"}}),
    ],
)
def test_arrow_and_json_hold_the_same_rows(port: int, path: str, body: dict[str, Any]) -> None:
    status, answer = request(port, "POST", path, body)
    table, headers = arrow(port, path, body)

    assert status == 200
    assert table.column_names == [column["name"] for column in answer["columns"]]
    assert list(json_rows(table.to_batches())) == answer["rows"]
    assert headers["otelchain-has-more"] == str(answer["has_more"]).lower()


def test_an_error_is_json_also_for_who_wanted_arrow(port: int) -> None:
    status, answer = request(port, "POST", "/sql", {"sql": "SELEC"}, {**JSON, "accept": ARROW})

    assert status == 400
    assert "syntax error" in answer["error"]


ENDLESS = "SELECT sum(a.range & b.range) FROM range(100000000) a, range(1000000) b"


def test_a_question_is_cancelled_by_its_id(port: int) -> None:
    answers: list[tuple[int, Any]] = []
    body = {"sql": ENDLESS, "id": "mine"}
    asking = threading.Thread(target=lambda: answers.append(request(port, "POST", "/sql", body)))
    asking.start()
    statuses = []
    while 204 not in statuses:
        statuses.append(request(port, "DELETE", "/questions/mine")[0])
        time.sleep(0.01)
    asking.join()

    assert answers == [(400, {"error": "the question was cancelled"})]
    assert set(statuses) <= {204, 404}
    assert request(port, "DELETE", "/questions/mine")[0] == 404


@pytest.mark.parametrize("name", ["", "x" * 65, 5])
def test_an_id_of_another_form_is_refused(port: int, name: Any) -> None:
    status, answer = request(port, "POST", "/sql", {"sql": "SELECT 1", "id": name})

    assert (status, answer["error"]) == (400, "id must be text of up to 64 characters")


@pytest.mark.failure("hungry-reads")
def test_a_question_ends_when_its_sender_hangs_up(port: int, readers: Readers) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/sql", json.dumps({"sql": ENDLESS}), JSON)
    wait_until(lambda: readers.running == 1)

    connection.close()

    wait_until(lambda: readers.running == 0)


def test_too_many_questions_are_told_to_come_again(port: int, readers: Readers) -> None:
    waiting = []
    for _ in range(THREADS + MAX_WAITING):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/sql", json.dumps({"sql": ENDLESS}), JSON)
        waiting.append(connection)
    wait_until(lambda: readers.waiting == MAX_WAITING)
    one_more = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    one_more.request("POST", "/sql", '{"sql": "SELECT 1"}', JSON)
    response = one_more.getresponse()

    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert b"too many questions at once" in response.read()
    for connection in (*waiting, one_more):
        connection.close()
    wait_until(lambda: readers.running + readers.waiting == 0)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def test_answers_that_nobody_takes_leave_no_room_for_others_until_they_are_taken(
    port: int,
) -> None:
    # 40 MB each, of 64 MiB for all.
    large = {"sql": "SELECT repeat('x', 1000) FROM range(40000)", "max_rows": 100_000}
    small = {"sql": "SELECT repeat('x', 1000) FROM range(2000)"}

    def ask(body: dict[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/sql", json.dumps(body), JSON)
        return connection, connection.getresponse()

    kept, first = ask(large)
    other, second = ask(large)
    third, _ = request(port, "POST", "/sql", small)
    said = second.read()
    assert (first.status, second.status, third) == (200, 503, 200)
    assert second.headers["retry-after"] == "1"
    assert b"too many large answers at once" in said

    assert len(json.loads(first.read())["rows"]) == 40_000
    again, fourth = ask(large)
    assert fourth.status == 200
    # Hanging up in the middle gives the room back too.
    for connection in (kept, other, again):
        connection.close()
    wait_until(lambda: request(port, "POST", "/sql", large)[0] == 200)


def test_who_takes_an_answer_bit_by_bit_loses_it_and_others_get_theirs(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering_module, "_BYTES_PER_SECOND", 1 << 30)
    large = {"sql": "SELECT repeat('x', 1000) FROM range(40000)", "max_rows": 100_000}
    with serving(api.routes(readers, taking_seconds=2)) as port:
        slow = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        slow.request("POST", "/sql", json.dumps(large), JSON)
        response = slow.getresponse()
        started = time.monotonic()
        taken, others = 0, []
        with suppress(ConnectionError, http.client.IncompleteRead):
            while piece := response.read(256 * 1024):
                taken += len(piece)
                others.append(request(port, "POST", "/sql", large))
                time.sleep(0.2)

        assert taken < 40_000_000
        assert time.monotonic() - started > 1.5
        # Who asks meanwhile does not wait: he is told at once to come again.
        full = {"error": "too many large answers at once; ask again in a second"}
        assert others[0] == (503, full)
        assert others[-1][0] == 200
        slow.close()


def test_an_answer_that_was_made_for_nobody_holds_nothing(store: Store) -> None:
    budget = ByteBudget(1_000_000)

    def rendering() -> Rendering[duckdb.DuckDBPyConnection]:
        held = budget.reserve()
        return Rendering(
            lambda cursor: answer_sql(cursor, "SELECT 1", form=partial(as_json, hold=held.add)),
            held,
            JSON_TYPE,
            taking_seconds=30,
        )

    before, after = rendering(), rendering()
    before.abandon()
    before(store.database.cursor())
    after(store.database.cursor())
    assert budget.used_bytes > 0
    after.abandon()

    assert budget.used_bytes == 0


def test_a_system_without_room_is_told_as_json_and_to_come_again(
    port: int, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(readers, "answer", fails)

    for path, body in (("/sql", {"sql": "SELECT 1"}), ("/queries/traces", {})):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", path, json.dumps(body), JSON)
        response = connection.getresponse()
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert "error" in json.loads(response.read())
        connection.close()


def test_bodies_of_questions_have_so_much_room_together(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ByteBudget(MAX_BODIES_BYTES)
    monkeypatch.setattr(api, "ByteBudget", lambda _: budget)
    question = {"sql": f"SELECT 1 -- {'x' * 1000}"}
    with serving(api.routes(readers, allowed_hosts=[])) as port, contextlib.ExitStack() as open_:
        for _ in range(MAX_BODIES_BYTES // (1024 * 1024)):
            sock = open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            sock.sendall(
                b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1048576\r\n\r\n" + bytes(1024 * 1024 - 1)
            )
        wait_until(lambda: budget.used_bytes == MAX_BODIES_BYTES - 8)

        status, answer = request(port, "POST", "/sql", question)

        assert (status, answer) == (
            503,
            {"error": "too many large questions at once; ask again in a second"},
        )
        open_.close()
        wait_until(lambda: request(port, "POST", "/sql", question)[0] == 200)


@pytest.mark.parametrize(
    "host", ["localhost:1@evil.example", "[::1].evil.example", "localhost:80.evil.example", "[::1"]
)
def test_a_host_that_only_begins_with_our_name_is_refused(port: int, host: str) -> None:
    assert request(port, "GET", "/queries", headers={"host": host})[0] == 400
