"""Slow clients, too many of them, and a container with little memory."""

import asyncio
import gzip
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

import collector_process
from collector_process import RunningCollector, readiness
from otelchain_collector.memory_limit import memory_limit
from otlp_requests import body, span

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 1024 * 1024
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"


@pytest.fixture(name="impatient", scope="module")
def _impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("impatient")
    collector = collector_process.start(
        folder / "t.duckdb", folder / "log", "--request-seconds", "1", "--max-connections", "8"
    )
    yield collector
    collector.kill()


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


def drip(connection: socket.socket, text: bytes) -> None:
    """Send a byte at a time, five a second, until the other side has had enough."""
    try:
        for byte in text:
            connection.sendall(bytes([byte]))
            time.sleep(0.2)
    except OSError:
        return


def ended(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    said = b""
    try:
        while piece := connection.recv(65_536):
            said += piece
    except ConnectionError:
        pass
    return said


@pytest.mark.failure("slow-clients")
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"POST /v1/tr",
        HEAD,
        HEAD + b"Content-Length: 1000\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        # The rest of a refused request is read and dropped, but not for ever either.
        b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    ],
    ids=["silence", "half a line", "half a head", "no body", "half a body", "refused"],
)
def test_a_request_that_does_not_arrive_in_time_is_cut_off(
    impatient: RunningCollector, begun: bytes
) -> None:
    with connect(impatient.http) as connection:
        connection.sendall(begun)
        threading.Thread(target=drip, args=(connection, b"x" * 60), daemon=True).start()
        # Otherwise recv() would time out after 20 s.
        assert b"200 OK" not in ended(connection)

    assert readiness(impatient)["queue_bytes"] == 0


def test_a_connection_may_rest_between_two_requests(impatient: RunningCollector) -> None:
    connection = http.client.HTTPConnection(impatient.http, timeout=20)
    connection.connect()
    mine = connection.sock.getsockname()
    for _ in range(3):
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b'{"status":"ok"}'
        time.sleep(1.2)

    assert connection.sock.getsockname() == mine
    connection.close()


def test_a_client_that_does_not_take_its_answer_is_cut_off(impatient: RunningCollector) -> None:
    sql = b'{"sql": "SELECT repeat(\'x\', 1000) FROM range(50000)", "max_rows": 100000}'
    head = b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with connect(impatient.http) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(sql), sql))
        assert connection.recv(12) == b"HTTP/1.1 200"
        time.sleep(2)
        # What was in the buffers of the machine, not all of the 50 MB.
        assert len(ended(connection)) < 30 * MIB


@pytest.mark.failure("slow-clients")
def test_connections_beyond_the_number_are_told_to_come_again(impatient: RunningCollector) -> None:
    idle = [connect(impatient.http) for _ in range(8)]
    with connect(impatient.http) as connection:
        said = ended(connection)
    for each in idle:
        each.close()

    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in said
    for _ in range(100):
        with connect(impatient.http) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            if ended(connection).startswith(b"HTTP/1.1 200 "):
                return
        time.sleep(0.05)
    raise AssertionError("closed connections are still counted")


@pytest.mark.failure("slow-clients")
def test_a_call_whose_message_does_not_arrive_is_told_to_come_again(
    impatient: RunningCollector,
) -> None:
    async def call() -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(impatient.grpc) as channel:
            # A stream that sends nothing looks like a unary call whose message is on its way.
            stream = channel.stream_unary(METHOD)(timeout=20)
            code: grpc.StatusCode = await stream.code()
            return code

    assert asyncio.run(call()) is grpc.StatusCode.UNAVAILABLE


def test_calls_beyond_the_number_are_told_to_come_again(impatient: RunningCollector) -> None:
    async def calls() -> list[grpc.StatusCode]:
        async with grpc.aio.insecure_channel(impatient.grpc) as channel:
            slow = [channel.stream_unary(METHOD)(timeout=20) for _ in range(8)]
            await asyncio.sleep(0.3)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(METHOD)(body(span()), timeout=20)
            trailing = dict(refused.value.trailing_metadata())
            assert "google.rpc.retryinfo-bin" in trailing
            await asyncio.gather(*(each.code() for each in slow))
            await channel.unary_unary(METHOD)(body(span()), timeout=20)
            return [refused.value.code()]

    assert asyncio.run(calls()) == [grpc.StatusCode.UNAVAILABLE]


@pytest.mark.failure("gzip-bomb")
def test_a_bomb_is_stopped_at_the_limit_whatever_it_is_wrapped_in(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(
        tmp_path / "t.duckdb", "--max-request-bytes", "1MiB", "--queue-bytes", "2MiB"
    )
    zeros = gzip.compress(bytes(3 * MIB))
    bombs = {
        "one member": zeros,
        "many members": gzip.compress(bytes(200_000)) * 6,
        # Inside is gzip again, which is no OTLP request; it is not unpacked twice.
        "nested": gzip.compress(gzip.compress(zeros)),
    }
    statuses = {}
    for name, bomb in bombs.items():
        with connect(collector.http) as connection:
            head = HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\n"
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(bomb) + bomb)
            statuses[name] = ended(connection)[9:12]

    assert statuses == {"one member": b"413", "many members": b"413", "nested": b"400"}
    with grpc.insecure_channel(collector.grpc) as channel:
        call = channel.unary_unary(METHOD)
        with pytest.raises(grpc.RpcError) as refused:
            call(bytes(3 * MIB), timeout=20, compression=grpc.Compression.Gzip)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    assert readiness(collector)["queue_bytes"] == 0


def cgroup(root: Path, lines: str, **limits: str) -> Path:
    """Make a file system with these cgroups; ``__`` stands for a slash."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/").replace("memory_", "memory.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


V1_LINES = "4:memory:/docker/abc\n3:cpuset:/\n0::/\n"


@pytest.mark.failure("out-of-memory")
@pytest.mark.parametrize(
    ("lines", "limits", "expected", "origin"),
    [
        ("0::/\n", {"memory_max": str(512 * MIB)}, 256 * MIB, "/sys/fs/cgroup/memory.max"),
        ("0::/\n", {"memory_max": "max"}, 512 * MIB, "the default"),
        ("0::/\n", {"memory_max": str(4096 * MIB)}, 512 * MIB, "the default"),
        # A limit of a group above counts too.
        (
            "0::/pod/container\n",
            {"pod__container__memory_max": "max", "pod__memory_max": str(300 * MIB)},
            150 * MIB,
            "/sys/fs/cgroup/pod/memory.max",
        ),
        # The path is the host's, the mount is the container's own group.
        ("0::/kubepods/x\n", {"memory_max": str(200 * MIB)}, 100 * MIB, "memory.max"),
        (
            V1_LINES,
            {"memory__docker__abc__memory_limit_in_bytes": str(400 * MIB)},
            200 * MIB,
            "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
        ),
        (V1_LINES, {"memory__memory_limit_in_bytes": str(64 * MIB)}, 32 * MIB, "half of"),
        (V1_LINES, {"memory__memory_limit_in_bytes": str(2**63 - 4096)}, 512 * MIB, "the default"),
        (V1_LINES, {}, 512 * MIB, "the default"),
        ("", {}, 512 * MIB, "the default"),
    ],
)
def test_the_memory_limit_is_half_of_the_containers_where_that_is_less(
    tmp_path: Path, lines: str, limits: dict[str, str], expected: int, origin: str
) -> None:
    found = memory_limit(None, cgroup(tmp_path, lines, **limits))

    assert found.limit_bytes == expected
    assert origin in found.origin


def test_a_limit_that_was_set_is_taken_with_a_word_when_it_cannot_be_had(tmp_path: Path) -> None:
    root = cgroup(tmp_path, "0::/\n", memory_max=str(512 * MIB))

    assert memory_limit(100 * MIB, root) == (100 * MIB, "as set")
    limit_bytes, origin = memory_limit(600 * MIB, root)
    assert limit_bytes == 600 * MIB
    assert "MORE than /sys/fs/cgroup/memory.max allows" in origin


def test_the_log_says_which_memory_limit_is_in_use(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb", "--memory-limit-bytes", "100MiB")

    assert "DuckDB may use 100 MiB (as set), the queue 128 MiB" in collector.log.read_text()
