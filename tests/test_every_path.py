"""Every route of the collector, under every spelling of its path, with every kind of token."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2

import collector_process
from collector_process import RunningCollector

# The collector itself, its routes and all that stands before them; but each route only says which
# one it is, or meets a system that has nothing left.
PROGRAM = """
import errno, json
from starlette.responses import Response
from starlette.routing import request_response
from otelchain_collector import __main__, server

guarded = server.guarded

def says(path):
    async def answer(request):
        if {broken}:
            raise OSError(errno.EMFILE, "Too many open files")
        return Response(headers={{"x-reached": path}})
    return request_response(answer)

def with_answers(app, *others):
    with open({told!r}, "w") as told:
        json.dump([[route.path, sorted(route.methods)] for route in app.routes], told)
    for route in app.routes:
        route.app = says(route.path)
    return guarded(app, *others)

server.guarded = with_answers
__main__.main()
"""

OTLP = {
    *("/v1/traces", "/v1/logs", "/v1/metrics"),
    # What an exporter uses whose base endpoint already names the path.
    *("/v1/traces/v1/traces", "/v1/logs/v1/logs", "/v1/metrics/v1/metrics"),
}
HEALTH = {"/healthz", "/livez", "/readyz"}
#: What each token may reach: the whole promise, written by hand.
MAY: dict[str, set[str]] = {
    "": HEALTH,
    "nobodys": HEALTH,
    "write": HEALTH | {"/questions/{id}"} | OTLP,
    "read": HEALTH | {"/questions/{id}", "/queries", "/queries/{name}"},
    "sql": HEALTH | {"/questions/{id}", "/sql", "/snapshot"},
    "metrics": HEALTH | {"/questions/{id}", "/metrics"},
    "maintain": HEALTH | {"/questions/{id}", "/reindex"},
}
MAY["all"] = set[str]().union(*MAY.values())
TOKENS = {name: f"{name}-token-of-the-tests" if name else "" for name in MAY}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "PROPFIND")


@contextmanager
def walked(folder: Path, *, broken: bool = False) -> Iterator[tuple[RunningCollector, Any]]:
    """Yield the collector and its routes: path and methods."""
    tokens, told = folder / "tokens", folder / "routes"
    lines = [f"{token} {name}" for name, token in TOKENS.items() if name not in ("", "nobodys")]
    tokens.write_text("\n".join(lines).replace(" all", ""))
    tokens.chmod(0o600)
    program = ("-c", PROGRAM.format(broken=broken, told=str(told)))
    collector = collector_process.start(
        folder / "t.duckdb", folder / "log", "--token-file", str(tokens), program=program
    )
    yield collector, json.loads(told.read_text())
    collector.kill()


@pytest.fixture(name="walk", scope="module")
def _walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningCollector, Any]]:
    with walked(tmp_path_factory.mktemp("paths")) as found:
        yield found


@pytest.fixture(name="reach")
def _reach(walk: tuple[RunningCollector, Any]) -> Callable[[str, str, str], str | int]:
    """Send a request with a token; return the route that it reached, or the status."""

    def reach(token: str, method: str, target: str) -> str | int:
        shown = {"authorization": f"Bearer {TOKENS[token]}"} if token else {}
        headers = {**shown, "connection": "close"}
        status, answered, _ = collector_process.ask(walk[0], method, target, "", headers)
        return answered["x-reached"] if status == 200 else status

    return reach


def plain(route: str) -> str:
    return route.replace("{name}", "traces").replace("{id}", "some-id")


def spellings(path: str) -> list[str]:
    """Return what somebody might take for this path, and somebody else for another one."""
    bare = path[1:]
    behind = (
        *("%0A", "%0a%0a", "%0D", "%0D%0A", "%00", "%09", "%0B", "%0C", "%1C", "%20", "%7F"),
        *("%C2%85", "%E2%80%A8", "%E2%80%A9", "%FF", "/", "//", "/%0A", "/.", "/..", "/%2e%2e"),
        *("%2F", "%2f%0a", ";x", ";x=/livez", "?x", "?%0A", "?/livez", "%3Fx", "#x", "%23", "."),
        *("%5C", "\\", "%2500", "%250A", "/livez", "%0A/livez", "/../livez"),
    )
    before = (
        *("//", "///", "/./", "/x/../", "/%2e/", "/%2E%2E/", "/livez/../", "/livez%0A/../"),
        *("/livez//", "/v1/../", "/queries/../", "/questions/", "/questions/../", "/questions/x/"),
        *("/\\", "/%5C", "/%2F", "/%0A", "/%00", "/%0A/", "/;/", "", "http:/", "http:///"),
        *("http://localhost/", "HTTPS://LOCALHOST//", "http://livez/", "http://localhost/./"),
        *("http://localhost/livez/../", "http://localhost/%0A", "http://localhost?/"),
    )
    return [
        *(path + end for end in behind),
        *(start + bare for start in before),
        *(f"http://localhost:1{path}{end}" for end in ("%0A", "%0a%0A", "%00", "?x", "/", "%20")),
        f"/%{ord(bare[0]):02x}{bare[1:]}",
        "/" + "".join(f"%{ord(letter):02X}" for letter in bare),
        "/" + "".join(f"%{ord(letter):02X}" for letter in bare) + "%0A",
        f"/%25{ord(bare[0]):02x}{bare[1:]}",
        f"/%EF%BD%{ord(bare[0]) + 0x20:02X}{bare[1:]}",  # of full width
        path.upper(),
        path.title(),
        path.replace("/", "%2F"),
        path.replace("/", "%0A/"),
        path.replace("/", "/%0A"),
        path.replace("/", "//"),
        path.replace("e", "%C3%A9").replace("s", "%C5%BF"),  # capital of U+017F is S
    ]


def test_a_token_reaches_what_it_permits_and_nothing_else(
    walk: tuple[RunningCollector, Any], reach: Callable[[str, str, str], str | int]
) -> None:
    routes = walk[1]
    assert {path for path, _ in routes} == MAY["all"]  # A new route has its place in MAY.
    for path, methods in routes:
        for token, may in MAY.items():
            refused = 403 if token not in ("", "nobodys") else 401
            expected = path if path in may else refused
            for method in methods:
                assert (method, reach(token, method, plain(path))) == (method, expected)


def test_no_method_reaches_more(
    walk: tuple[RunningCollector, Any], reach: Callable[[str, str, str], str | int]
) -> None:
    for path in {path for path, _ in walk[1]}:
        taken = {method for each, methods in walk[1] for method in methods if each == path}
        for token, may in MAY.items():
            refused = 403 if token not in ("", "nobodys") else 401
            for method in METHODS:
                expected: object = path if method in taken else 405
                expected = expected if path in may else refused
                assert (method, reach(token, method, plain(path))) == (method, expected)


@pytest.mark.parametrize("token", MAY)
def test_no_spelling_of_a_path_gives_a_token_more(
    walk: tuple[RunningCollector, Any], reach: Callable[[str, str, str], str | int], token: str
) -> None:
    answers = [
        (method, target, reach(token, method, target))
        for path, methods in walk[1]
        for target in spellings(plain(path))
        for method in methods
    ]

    statuses = {status for _, _, status in answers if isinstance(status, int)}
    assert [each for each in answers if each[2] not in MAY[token] | statuses] == []
    assert statuses <= {400, 401, 403, 404, 405}
    # Without a token nobody learns which paths there are.
    known = {"": {400, 401}, "nobodys": {400, 401}}.get(token, {400, 403, 404, 405})
    assert statuses <= known


@pytest.mark.parametrize("end", ["%0A", "%0a%0a", "%0D", "%00", "%7F", "%C2%85", "/%0Ax", "%1B"])
@pytest.mark.parametrize("start", ["", "http://localhost", "HTTPS://LOCALHOST:1"])
def test_a_path_with_a_control_character_is_refused_before_anything_looks_at_it(
    reach: Callable[[str, str, str], str | int], start: str, end: str
) -> None:
    assert reach("all", "GET", f"{start}/livez{end}") == 400
    assert reach("all", "GET", f"{start}/queries{end}") == 400


def test_every_route_asks_to_come_again_when_the_system_has_nothing_left(tmp_path: Path) -> None:
    with walked(tmp_path, broken=True) as (collector, routes):
        for path, methods in routes:
            for method in set(methods) - {"HEAD"}:
                token = {"authorization": f"Bearer {TOKENS['all']}"}
                status, headers, body = collector_process.ask(
                    collector, method, plain(path), "", token
                )

                assert (path, status, headers["retry-after"]) == (path, 503, "1")
                assert "error" in json.loads(body)


SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


@pytest.mark.parametrize(
    "method",
    [
        *(f"/{SERVICE}/Export{end}" for end in ("%0A", "/", ";x", "?x", "%00")),
        *(f"/{SERVICE}{middle}" for middle in ("//Export", "/export", "/%45xport", "/./Export")),
        f"//{SERVICE}/Export",
        f"/{SERVICE.lower()}/Export",
        "/sql",
    ],
)
def test_over_grpc_there_are_the_methods_by_their_letters_only(
    walk: tuple[RunningCollector, Any], method: str
) -> None:
    def code(token: str) -> int:
        shown = (("authorization", f"Bearer {TOKENS[token]}"),)
        with grpc.insecure_channel(walk[0].grpc) as channel:
            call = channel.unary_unary(method)
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", metadata=shown, timeout=30)
        found: int = caught.value.code().value[0]
        return found

    assert code("write") == code_pb2.UNIMPLEMENTED
    for token in TOKENS.keys() - {"write", "all", "", "nobodys"}:
        assert code(token) == code_pb2.PERMISSION_DENIED
    assert code("nobodys") == code_pb2.UNAUTHENTICATED
