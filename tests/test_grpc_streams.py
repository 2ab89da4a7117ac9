"""Streams that are gone before the collector speaks of them harm no other call of a connection."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, PingAckReceived, StreamReset
from h2.settings import SettingCodes, Settings

import collector_process
import http2_fuzz
from collector_process import RunningCollector
from http2_client import Client, ended, message
from http2_fuzz import MAX_REQUEST_BYTES, TOKEN
from otelchain_collector.http2 import Http2
from otlp_requests import body, span

OK = "0"
ALLOWED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("streams")
    tokens = folder / "tokens"
    tokens.write_text(TOKEN + "\n")
    tokens.chmod(0o600)
    collector = collector_process.start(
        folder / "t.duckdb",
        folder / "log",
        *("--token-file", str(tokens), "--max-request-bytes", str(MAX_REQUEST_BYTES)),
        *("--request-seconds", "3"),
    )
    yield collector
    collector.kill()


@pytest.fixture(autouse=True)
def _no_fault_of_ours(collector: RunningCollector) -> Iterator[None]:
    yield
    log = collector.log.read_text()
    for sign in ("Traceback", "Fatal error", "never retrieved", "a fault of the collector"):
        assert sign not in log


@pytest.mark.parametrize(
    ("head", "data"),
    [
        ({"path": "/a.Service/Method"}, b""),
        ({"content_type": "text/plain"}, b""),
        ({"method": "GET"}, b""),
        ({"authorization": "Bearer wrong"}, b""),
        ({"grpc_encoding": "br"}, b""),
        ({"x_long": "x" * 16_384}, b""),
        ({}, b"\0\x7f\xff\xff\xff"),
        ({}, message(b"") * 2),
        ({}, message(b"", flag=2)),
    ],
)
def test_a_refused_call_that_is_cancelled_costs_no_other(
    collector: RunningCollector, head: dict[str, str], data: bytes
) -> None:
    with Client(collector.grpc) as client:
        neighbour = client.begin(**ALLOWED)
        refused = _unflushed(client, **{**ALLOWED, **head})
        if data:
            client.h2.send_data(refused, data)
        client.h2.reset_stream(refused, ErrorCodes.CANCEL)
        client.send(neighbour, message(body(span())))

        assert client.answer(neighbour)["grpc-status"] == OK


def test_refused_calls_that_are_cancelled_are_a_flood_too(collector: RunningCollector) -> None:
    with Client(collector.grpc) as client:
        try:
            for _ in range(2_000):
                client.h2.reset_stream(_unflushed(client, path="/a.Service/Method"))
                client.flush()
            ended = client.goaway()
        # What is still on its way to a connection that was ended resets it.
        except ConnectionError:
            return
        assert ended.error_code == ErrorCodes.ENHANCE_YOUR_CALM


def _unflushed(client: Client, **head: str) -> int:
    """Begin a call in the same piece as what comes next."""
    send, client.flush = client.flush, lambda: None  # type: ignore[method-assign]
    stream_id = client.begin(**head)
    client.flush = send  # type: ignore[method-assign]
    return stream_id


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_call_that_is_cancelled_as_its_answer_gets_room_costs_no_other(
    collector: RunningCollector, *, forgotten: bool
) -> None:
    with Client(collector.grpc, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        waiting = _answered_without_room(client, collector)
        client.h2.increment_flow_control_window(1_000)
        client.h2.reset_stream(waiting, ErrorCodes.CANCEL)
        if forgotten:
            # h2 drops streams that have ended when the next one begins.
            _unflushed(client, **ALLOWED)
        good = client.begin(**ALLOWED)
        client.h2.increment_flow_control_window(1_000, good)
        client.send(good, message(body(span())))

        assert client.answer(good)["grpc-status"] == OK


def test_no_room_for_an_answer_that_nobody_waits_for_ends_nothing(
    collector: RunningCollector,
) -> None:
    with Client(collector.grpc, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        waiting = _answered_without_room(client, collector)
        client.h2.reset_stream(waiting, ErrorCodes.CANCEL)
        late = client.begin(**ALLOWED)

        # This call's time ends after the time that the answer had.
        reset = client.wait_for(lambda event: isinstance(event, StreamReset))
        assert reset.stream_id == late
        good = client.begin(**ALLOWED)
        client.h2.increment_flow_control_window(1_000, good)
        client.send(good, message(body(span())))
        assert client.answer(good)["grpc-status"] == OK


def _answered_without_room(client: Client, collector: RunningCollector) -> int:
    """Make a call whose answer is there, and waits until the client has room for it."""
    before = _answered(collector)
    waiting = client.begin(**ALLOWED)
    client.send(waiting, message(body(span())))
    _wait_for_an_answer(collector, before)
    return waiting


def _answered(collector: RunningCollector) -> str:
    """Return the count of calls with a good answer, whether it could be sent or not."""
    url = f"http://{collector.http}/metrics"
    with urllib.request.urlopen(urllib.request.Request(url, None, ALLOWED), timeout=30) as response:
        lines: list[str] = response.read().decode().splitlines()
    signs = ("otelchain_requests_total{", '"grpc"', '"accepted"')
    return "".join(line for line in lines if all(sign in line for sign in signs))


def _wait_for_an_answer(collector: RunningCollector, before: str) -> None:
    for _ in range(1_000):
        if _answered(collector) != before:
            return
        sleep(0.01)
    raise AssertionError("the call has no answer")


@pytest.mark.parametrize("seed", range(8))
def test_calls_in_any_mixture_get_their_own_answers(collector: RunningCollector, seed: int) -> None:
    for number in range(20):
        case = http2_fuzz.make(1_000 * seed + number, lawful=True)
        http2_fuzz.check_lawful(case, http2_fuzz.send(collector.grpc, case))


@pytest.mark.parametrize("seed", range(8))
def test_frames_that_no_client_may_send_end_a_connection_with_a_reason_or_do_nothing(
    collector: RunningCollector, seed: int
) -> None:
    for number in range(20):
        case = http2_fuzz.make(1_000 * seed + number, lawful=False)
        http2_fuzz.check_unlawful(case, http2_fuzz.send(collector.grpc, case))


# The collector, with a fault in one method, which shows once: what nobody expects there is raised.
_FAULTY = """
from otelchain_collector import receive_grpc
from otelchain_collector.__main__ import main

owner = getattr(receive_grpc, {owner!r})
whole = owner.{method}
right_calls = {right_calls}

def faulty(self, *arguments):
    global right_calls
    right_calls -= 1
    if right_calls >= 0:
        return whole(self, *arguments)
    owner.{method} = whole
    raise ZeroDivisionError("what a client has sent")

owner.{method} = faulty
main()
"""


@pytest.fixture(name="faulty")
def _faulty(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningCollector]:
    owner, method, right_calls = request.param
    program = _FAULTY.format(owner=owner, method=method, right_calls=right_calls)
    log = tmp_path / "log"
    collector = collector_process.start(tmp_path / "t.duckdb", log, program=("-c", program))
    yield collector
    if collector.process.poll() is None:
        collector.kill()


@pytest.mark.parametrize(
    ("faulty", "is_cancelled"),
    [
        (("GrpcReceiver", "open", 1), False),
        (("Call", "add", 0), False),
        (("Call", "answer", 0), False),
        (("Call", "abandon", 0), True),
    ],
    indirect=["faulty"],
)
def test_a_fault_of_the_collector_costs_one_connection_which_is_told(
    faulty: RunningCollector, *, is_cancelled: bool
) -> None:
    with Client(faulty.grpc) as other, Client(faulty.grpc) as client:
        neighbour = other.begin()
        # The fault has to be the client's: let the collector know the other's call first.
        other.h2.ping(b"12345678")
        other.flush()
        other.wait_for(lambda event: isinstance(event, PingAckReceived))
        stream_id = _unflushed(client)
        if is_cancelled:
            client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        else:
            client.h2.send_data(stream_id, message(body(span())), end_stream=True)
        client.flush()
        last = client.h2.receive_data(ended(client.socket))[-1]

        assert isinstance(last, ConnectionTerminated)
        assert last.error_code == ErrorCodes.INTERNAL_ERROR
        other.send(neighbour, message(body(span())))
        assert other.answer(neighbour)["grpc-status"] == OK
    assert faulty.stop() == 0
    log = faulty.log.read_text()
    assert log.count("a fault of the collector has ended a gRPC connection") == 1
    assert log.count("Traceback") == 1
    for sign in ("Fatal error", "never retrieved", "what a client has sent"):
        assert sign not in log


def test_no_more_is_remembered_for_a_client_than_usual() -> None:
    client = H2Connection()
    client.local_settings = Settings(initial_values={SettingCodes.HEADER_TABLE_SIZE: 2**31})
    client.initiate_connection()
    server = Http2()
    server.greet()

    server.receive_data(client.data_to_send())

    assert server.remote_settings.header_table_size == 2**31
    assert server.encoder.header_table_size == 4096
