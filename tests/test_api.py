"""Questions over HTTP, through a real server on a free port."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

import otelchain_queries
from otelchain_collector import api
from otelchain_collector.store import Store
from stored_runs import make_store

JSON = {"content-type": "application/json"}


@pytest.fixture(name="store", scope="module")
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store.open(make_store(tmp_path_factory.mktemp("api") / "otelchain.duckdb"))
    yield store
    store.close()


@pytest.fixture(name="port", scope="module")
def _port(store: Store) -> Iterator[int]:
    app = Starlette(routes=api.routes(store, allowed_hosts=["traces.example"]))
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


def test_sql_is_cut_at_the_row_limit(port: int) -> None:
    status, answer = request(port, "POST", "/sql", {"sql": "FROM range(9)", "max_rows": 2})

    assert (status, answer["rows"], answer["has_more"]) == (200, [[0], [1]], True)


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
        ("/queries/traces", {"limit": "5"}, 400, "the body must be an object with: params"),
        ("/queries/traces", "{", 400, "the body is not JSON"),
        ("/sql", {}, 400, 'the body must be {"sql": "SELECT'),
        ("/sql", {"sql": "DROP TABLE spans"}, 400, "only SELECT and EXPLAIN are allowed, not DROP"),
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
