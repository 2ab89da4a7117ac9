"""The gRPC port below gRPC: HTTP/2 from clients that are broken, hostile or gone."""

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

import collector_process
from collector_process import RunningCollector, ask, hold, readiness, wait_for_queue
from http2_client import METHOD, PREFACE, Client, connect, ended, message
from otlp_requests import body, span

MIB = 1024 * 1024
OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = (
    *("0", "3", "8", "12", "13", "14"),
)


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("http2")
    collector = collector_process.start(
        folder / "t.duckdb",
        folder / "log",
        *("--max-request-bytes", "8MiB", "--queue-bytes", "16MiB", "--request-seconds", "2"),
    )
    yield collector
    collector.kill()
    # A fault in our code would be here; what a client does wrong is not worth a line.
    assert "Traceback" not in collector.log.read_text()


@pytest.fixture(name="client")
def _client(collector: RunningCollector) -> Iterator[Client]:
    with Client(collector.grpc) as client:
        yield client


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """Return a frame as RFC 9113, 4.1 says."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


DATA, HEADERS, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 4, 6, 7, 9


@pytest.mark.parametrize(
    ("head", "data", "status"),
    [
        ({"grpc_encoding": "br"}, message(b""), UNIMPLEMENTED),
        ({"path": METHOD + "/"}, message(b""), UNIMPLEMENTED),
        ({"path": METHOD + "?a=b"}, message(b""), UNIMPLEMENTED),
        ({"path": METHOD.replace("Export", "%45xport")}, message(b""), UNIMPLEMENTED),
        ({"path": "/grpc.health.v1.Health/Check"}, message(b""), UNIMPLEMENTED),
        ({"x_long": "x" * 20_000}, message(b""), RESOURCE_EXHAUSTED),
        ({}, message(bytes(8 * MIB + 1)), RESOURCE_EXHAUSTED),
        ({}, b"", INVALID_ARGUMENT),
        ({}, message(b"")[:3], INVALID_ARGUMENT),
        ({}, message(b"12345")[:-1], INVALID_ARGUMENT),
        ({}, message(b"") + message(b""), INVALID_ARGUMENT),
        ({}, message(b"") + b"more", INVALID_ARGUMENT),
        ({}, message(b"", flag=1), INTERNAL),
        ({}, message(b"", flag=2), INTERNAL),
        ({"grpc_encoding": "gzip"}, message(b"not gzip", flag=1), INVALID_ARGUMENT),
        # The message's own flag says whether it is compressed.
        ({"grpc_encoding": "gzip"}, message(b"", flag=0), OK),
        ({"content_type": "application/grpc+proto"}, message(b""), OK),
        ({"content_type": "Application/GRPC; charset=utf-8"}, message(b""), OK),
    ],
)
def test_a_call_that_is_not_quite_right(
    collector: RunningCollector, client: Client, head: dict[str, str], data: bytes, status: str
) -> None:
    answer = client.call(data, **head)

    assert (answer[":status"], answer["grpc-status"]) == ("200", status)
    # Neither the connection nor the queue has suffered.
    assert client.call(message(body(span())))["grpc-status"] == OK
    wait_for_queue(collector, 0)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ({"content_type": "application/json"}, "415"),
        ({"content_type": "application/grpc+json"}, "415"),
        ({"content_type": ""}, "415"),
        ({"method": "GET"}, "405"),
    ],
)
def test_what_is_no_grpc_call_is_answered_in_http(
    client: Client, head: dict[str, str], status: str
) -> None:
    assert client.call(message(b""), **head)[":status"] == status
    assert client.call(message(body(span())))["grpc-status"] == OK


def test_a_client_learns_what_compression_is_known(client: Client) -> None:
    assert client.call(message(b""), grpc_encoding="br")["grpc-accept-encoding"] == (
        "identity,deflate,gzip"
    )


def test_a_message_that_finds_no_room_is_refused_at_its_first_piece(
    collector: RunningCollector, client: Client
) -> None:
    with hold(collector, 8 * MIB - 1), hold(collector, 8 * MIB - 1):
        stream_id = client.begin()
        with suppress(ProtocolError):  # It was refused at the piece before.
            client.send(stream_id, message(bytes(4 * MIB))[:100_000], end=False)
        answer = client.answer(stream_id)
    wait_for_queue(collector, 0)

    assert answer["grpc-status"] == UNAVAILABLE
    # RFC 9113, 8.1: the rest need not be sent.
    reset = client.wait_for(lambda event: isinstance(event, StreamReset))
    assert reset.error_code == ErrorCodes.NO_ERROR


def test_messages_beyond_the_queue_are_not_held_in_memory(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(
        tmp_path / "t.duckdb", "--max-request-bytes", "32MiB", "--queue-bytes", "64MiB"
    )
    before = peak_memory_mib(collector)

    def send() -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        with (
            grpc.insecure_channel(collector.grpc, options) as channel,
            pytest.raises(grpc.RpcError),  # It is no OTLP.
        ):
            channel.unary_unary(METHOD)(b"\xff" * (30 * MIB), timeout=30)

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # The queue, and one message twice while its pieces are put together: not 12 of 30 MiB, twice.
    assert peak_memory_mib(collector) - before < 64 + 2 * 30 + 50


def peak_memory_mib(collector: RunningCollector) -> float:
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def test_bytes_of_a_client_that_goes_away_are_given_back(
    collector: RunningCollector, client: Client
) -> None:
    first, second = client.begin(), client.begin()
    for stream_id in (first, second):
        client.send(stream_id, message(bytes(3 * MIB))[:MIB], end=False)
    wait_for_queue(collector, 2 * MIB - 2 * 5)

    client.h2.reset_stream(first, ErrorCodes.CANCEL)
    client.flush()
    wait_for_queue(collector, MIB - 5)
    client.socket.close()
    wait_for_queue(collector, 0)


@pytest.mark.parametrize("how", ["reset", "close"])
def test_what_has_come_whole_is_stored_though_its_client_is_gone(
    collector: RunningCollector, how: str
) -> None:
    sent = span(name=f"after {how}")
    with Client(collector.grpc) as client:
        stream_id = client.begin()
        client.h2.send_data(stream_id, message(body(sent)), end_stream=True)
        if how == "reset":
            client.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        client.flush()
        if how == "reset":
            # The deadline of a client passes while its request waits.
            assert client.call(message(b""))["grpc-status"] == OK
        else:
            # Closed with something unread, a socket is reset, and what it has sent is lost.
            client.socket.shutdown(socket.SHUT_WR)
            ended(client.socket)

    sql = {"sql": f"SELECT count(*) FROM spans WHERE span_id = '{sent.span_id.hex()}'"}
    headers = {"Content-Type": "application/json"}
    for _ in range(100):
        _, _, answer = ask(collector, "POST", "/sql", json.dumps(sql), headers)
        # On a busy machine it may say that it is too busy.
        if json.loads(answer).get("rows") == [[1]]:
            return
        time.sleep(0.05)
    raise AssertionError("the span is not stored")


def test_a_client_that_says_goodbye_still_gets_its_answers(
    collector: RunningCollector, client: Client
) -> None:
    stream_id = client.begin()
    client.socket.sendall(frame(GOAWAY, bytes(8)))
    client.send(stream_id, message(body(span(name="last"))))

    assert client.answer(stream_id)["grpc-status"] == OK
    assert ended(client.socket) == b""
    assert readiness(collector)["queue_bytes"] == 0


def test_an_answer_waits_until_its_client_has_room_for_it(collector: RunningCollector) -> None:
    with Client(collector.grpc, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        stream_id = client.begin()
        client.send(stream_id, message(body(span())))
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.answer(stream_id)
        client.socket.settimeout(20)
        client.h2.increment_flow_control_window(1_000, stream_id)
        client.flush()

        assert client.answer(stream_id)["grpc-status"] == OK
        assert client.body(stream_id) == message(b"")


def test_an_answer_for_which_there_is_never_room_ends_the_connection(
    collector: RunningCollector,
) -> None:
    with Client(collector.grpc, {SettingCodes.INITIAL_WINDOW_SIZE: 0}) as client:
        client.send(client.begin(), message(body(span())))
        with pytest.raises(ConnectionError):
            client.goaway()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        PREFACE[:10],
        PREFACE,
        PREFACE + frame(SETTINGS) + frame(HEADERS, b"\x82", stream=1),
        PREFACE + frame(SETTINGS) + frame(DATA, bytes(100), stream=1)[:-1],
    ],
    ids=["silence", "half a preface", "no settings", "half a head", "half a frame"],
)
def test_what_does_not_arrive_in_time_is_cut_off(collector: RunningCollector, begun: bytes) -> None:
    start = time.monotonic()
    with connect(collector.grpc) as connection:
        connection.sendall(begun)
        ended(connection)

    assert time.monotonic() - start < 10


def test_a_message_that_drips_is_told_to_come_again(client: Client) -> None:
    stream_id = client.begin()
    client.send(stream_id, message(bytes(1_000))[:5], end=False)
    start = time.monotonic()
    while not any(isinstance(event, StreamReset) for event in client.events):
        client.send(stream_id, b"\0", end=False)
        client.socket.settimeout(0.2)
        try:
            client.read()
        except TimeoutError:
            assert time.monotonic() - start < 10

    assert client.answer(stream_id)["grpc-status"] == UNAVAILABLE


def test_a_connection_rests_between_two_calls(client: Client) -> None:
    for _ in range(2):
        assert client.call(message(body(span())))["grpc-status"] == OK
        time.sleep(3)
    assert not any(isinstance(event, ConnectionTerminated) for event in client.events)


def test_keepalive_pings_are_answered(collector: RunningCollector) -> None:
    options = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    with grpc.insecure_channel(collector.grpc, options) as channel:
        seen: list[Any] = []
        channel.subscribe(seen.append, try_to_connect=True)
        for _ in range(3):
            assert channel.unary_unary(METHOD)(body(span()), timeout=5) == b""
            time.sleep(0.7)

    assert grpc.ChannelConnectivity.TRANSIENT_FAILURE not in seen


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, bytes(8)) * 2_000,
        frame(SETTINGS) * 2_000,
        # A frame of 16 MB, and headers without an end, would be held before anything is counted.
        frame(DATA, bytes(2**24 - 1), stream=1)[:300_000],
        frame(HEADERS, bytes(60_000), stream=1) + frame(CONTINUATION, bytes(60_000), stream=1) * 4,
    ],
    ids=["pings", "settings", "long frame", "endless headers"],
)
def test_a_flood_ends_the_connection(collector: RunningCollector, flood: bytes) -> None:
    with connect(collector.grpc) as connection:
        connection.sendall(PREFACE + frame(SETTINGS))
        start = time.monotonic()
        try:
            connection.sendall(flood)
            ended(connection)
        except ConnectionError:
            pass

    # Not by the clock of --request-seconds.
    assert time.monotonic() - start < 1.8


def test_calls_that_are_cancelled_at_once_end_the_connection(client: Client) -> None:
    try:
        for _ in range(5_000):
            client.h2.reset_stream(client.begin(), ErrorCodes.CANCEL)
            client.flush()
    except ConnectionError:
        return

    assert client.goaway().error_code == ErrorCodes.ENHANCE_YOUR_CALM


def test_frames_that_make_no_sense_harm_nobody_else(
    collector: RunningCollector, client: Client
) -> None:
    choose = random.Random(3)
    with Client(collector.grpc) as other:
        stream_id = other.begin()
        other.h2.send_data(stream_id, message(body(span())), end_stream=True)
        sensible = PREFACE + frame(SETTINGS) + other.h2.data_to_send()
    for _ in range(300):
        broken = bytearray(sensible)
        for _ in range(choose.randint(1, 8)):
            broken[choose.randrange(len(PREFACE), len(broken))] = choose.randrange(256)
        kinds = b"".join(
            frame(
                choose.randrange(12),
                choose.randbytes(choose.randrange(40)),
                flags=choose.randrange(256),
                stream=choose.randrange(4),
            )
            for _ in range(5)
        )
        for data in (bytes(broken), sensible + kinds):
            with connect(collector.grpc) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    ended(connection)
                except OSError:
                    pass

    assert client.call(message(body(span())))["grpc-status"] == OK
    wait_for_queue(collector, 0)


def test_a_stopping_collector_answers_open_calls_and_refuses_new_ones(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    with Client(collector.grpc) as client:
        stream_id = client.begin()
        client.send(stream_id, message(body(span(name="open")))[:10], end=False)
        wait_for_queue(collector, 5)
        collector.process.terminate()
        goaway = client.goaway()
        client.h2.state_machine.state = type(client.h2.state_machine.state).CLIENT_OPEN
        late = client.begin()
        refused = client.wait_for(lambda event: isinstance(event, StreamReset))
        client.send(stream_id, message(body(span(name="open")))[10:])

        assert (goaway.error_code, goaway.last_stream_id) == (ErrorCodes.NO_ERROR, stream_id)
        assert (refused.stream_id, refused.error_code) == (late, ErrorCodes.REFUSED_STREAM)
    assert collector.wait() == 0
