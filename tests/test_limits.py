"""Slow clients, too many of them, and a container with little memory."""

import asyncio
import gzip
import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

import collector_process
from collector_process import RunningCollector, ask, readiness
from otelchain_collector.memory_limit import cgroup_limit, memory_plan
from otlp_requests import body, span, text
from tls_files import Files

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 1024 * 1024
PROTOBUF = {"Content-Type": "application/x-protobuf"}
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


def test_connections_to_the_grpc_port_are_counted_too(impatient: RunningCollector) -> None:
    with grpc.insecure_channel(impatient.grpc) as channel:
        assert channel.unary_unary(METHOD)(body(span()), timeout=20) == b""
        idle = [connect(impatient.grpc) for _ in range(7)]
        with connect(impatient.grpc) as connection:
            assert ended(connection) == b""
        # The ones before are not disturbed.
        assert channel.unary_unary(METHOD)(body(span()), timeout=20) == b""
        for each in idle:
            # They say nothing: their place is free after a second.
            ended(each)
            each.close()
        with connect(impatient.grpc) as connection:
            assert connection.recv(9)


@pytest.mark.parametrize("port", ["http", "grpc"])
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["none", "half"])
def test_a_handshake_that_does_not_end_takes_a_place_but_not_for_ever(
    tmp_path: Path, start_collector: Callable[..., RunningCollector], port: str, said: bytes
) -> None:
    files = Files(tmp_path / "files")
    limits = ("--request-seconds", "2", "--max-connections", "4")
    collector = start_collector(tmp_path / "t.duckdb", *files.options(), *limits)
    address = getattr(collector, port)
    begun = [connect(address) for _ in range(4)]
    for each in begun:
        each.sendall(said)
    start = time.monotonic()
    with connect(address) as connection:
        assert ended(connection) == b""
    assert time.monotonic() - start < 1.5, "the fifth connection was let in"
    for each in begun:
        ended(each)
        each.close()
    assert time.monotonic() - start < 10

    host, number = address.rsplit(":", 1)
    with (
        socket.create_connection((host, int(number)), timeout=20) as plain,
        files.context().wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.version()
    assert "Traceback" not in collector.log.read_text()


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
    for name, content in limits.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/").replace("memory_", "memory.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")
    return root


V1_LINES = "4:memory:/docker/abc\n3:cpuset:/\n0::/\n"


@pytest.mark.failure("out-of-memory")
@pytest.mark.parametrize(
    ("lines", "limits", "expected", "origin"),
    [
        ("0::/\n", {"memory_max": str(512 * MIB)}, 512 * MIB, "/sys/fs/cgroup/memory.max"),
        ("0::/\n", {"memory_max": "max"}, None, ""),
        # A limit of a group above counts too.
        (
            "0::/pod/container\n",
            {"pod__container__memory_max": "max", "pod__memory_max": str(300 * MIB)},
            300 * MIB,
            "/sys/fs/cgroup/pod/memory.max",
        ),
        # The path is the host's, the mount is the container's own group.
        ("0::/kubepods/x\n", {"memory_max": str(200 * MIB)}, 200 * MIB, "memory.max"),
        (
            V1_LINES,
            {"memory__docker__abc__memory_limit_in_bytes": str(400 * MIB)},
            400 * MIB,
            "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
        ),
        (V1_LINES, {"memory__memory_limit_in_bytes": str(64 * MIB)}, 64 * MIB, "in_bytes"),
        (V1_LINES, {"memory__memory_limit_in_bytes": str(2**63 - 4096)}, None, ""),
        (V1_LINES, {}, None, ""),
        ("", {}, None, ""),
    ],
)
def test_the_limit_of_the_container_is_found(
    tmp_path: Path, lines: str, limits: dict[str, str], expected: int | None, origin: str
) -> None:
    found = cgroup_limit(cgroup(tmp_path, lines, **limits))

    assert (found and found.limit_bytes) == expected
    assert found is None or origin in found.origin


@pytest.mark.parametrize(
    ("container", "duckdb", "queue", "largest"),
    [
        ("max", 512, 128, 64),
        (4096, 512, 128, 64),
        # 1/4 of 1,200 is 300, 1/12 is 100, and a quarter of that is 25.
        (1200, 300, 100, 25),
        (480, 120, 40, 10),
    ],
)
def test_duckdb_queue_and_requests_follow_the_containers_limit(
    tmp_path: Path, container: int | str, duckdb: int, queue: int, largest: int
) -> None:
    limit = str(container * MIB) if isinstance(container, int) else container
    root = cgroup(tmp_path, "0::/\n", memory_max=limit)

    plan = memory_plan(None, None, 64 * MIB, root)

    shares = (plan.duckdb.limit_bytes, plan.queue.limit_bytes, plan.max_request_bytes)
    assert shares == (duckdb * MIB, queue * MIB, largest * MIB)
    assert plan.warning == ""
    if isinstance(container, int):
        # An idle collector, DuckDB, the rows of a full queue, and answers fit into it.
        assert 190 + duckdb + 3 * queue + 40 <= container


def test_what_was_set_is_taken_with_a_word_when_it_cannot_be_had(tmp_path: Path) -> None:
    root = cgroup(tmp_path, "0::/\n", memory_max=str(512 * MIB))

    plan = memory_plan(100 * MIB, 64 * MIB, 32 * MIB, root)
    assert (plan.duckdb, plan.queue) == ((100 * MIB, "as set"), (64 * MIB, "as set"))
    assert plan.max_request_bytes == 32 * MIB
    assert plan.warning == ""
    # 200 for itself, 300, and 3 times 64.
    assert "allows 512 MiB, but under load the collector may take 692 MiB" in (
        memory_plan(300 * MIB, 64 * MIB, 32 * MIB, root).warning
    )


def test_a_container_that_is_too_small_is_told(tmp_path: Path) -> None:
    root = cgroup(tmp_path, "0::/\n", memory_max=str(128 * MIB))

    assert "allows 128 MiB" in memory_plan(None, None, 64 * MIB, root).warning


def test_the_queue_holds_two_of_the_largest_requests_unless_it_is_set() -> None:
    assert memory_plan(None, None, 100 * MIB, Path("/none")).queue.limit_bytes == 200 * MIB


def test_the_log_says_which_memory_limits_are_in_use(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(
        tmp_path / "t.duckdb",
        *("--memory-limit-bytes", "100MiB", "--queue-bytes", "20MiB"),
        *("--max-request-bytes", "10MiB"),
    )

    assert (
        "DuckDB may use 100 MiB (as set), the queue 20 MiB (as set), a request 10 MiB"
        in collector.log.read_text()
    )


@pytest.fixture(name="container")
def _container() -> Iterator[Path]:
    """A cgroup of 400 MiB, where this process may make one."""
    root = Path("/sys/fs/cgroup/memory")
    unified = not root.is_dir()
    root = Path("/sys/fs/cgroup") if unified else root
    group = root / f"otelchain-test-{os.getpid()}"
    try:
        group.mkdir()
        limit = group / ("memory.max" if unified else "memory.limit_in_bytes")
        limit.write_text(str(480 * MIB))
    except OSError as error:
        if group.is_dir():
            group.rmdir()
        pytest.skip(f"no cgroup can be made here: {error}")
    yield group
    group.rmdir()


def test_a_small_container_is_not_killed_by_more_than_it_can_hold(
    tmp_path: Path, container: Path
) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        f"Path({str(container / 'cgroup.procs')!r}).write_text(str(os.getpid()))\n"
        "from otelchain_collector.__main__ import main; main(sys.argv[1:])"
    )
    database = tmp_path / "t.duckdb"
    collector = collector_process.start(database, tmp_path / "log", program=("-c", program))
    try:
        assert "1/4 of what /sys/fs/cgroup" in collector.log.read_text()
        large = body(*(span(attributes=[text("k", "x" * MIB)]) for _ in range(8)))
        said: list[str] = []

        def send(number: int) -> None:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
            for data in (large, bytes(60 * MIB), large):
                try:
                    if number % 2:
                        said.append(str(ask(collector, "POST", "/v1/traces", data, PROTOBUF)[0]))
                        continue
                    with grpc.insecure_channel(collector.grpc, options) as channel:
                        channel.unary_unary(METHOD)(data, timeout=60)
                        said.append("200")
                except grpc.RpcError as error:
                    said.append(error.code().name)  # type: ignore[attr-defined]
                except OSError:
                    said.append("closed")

        threads = [threading.Thread(target=send, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert collector.process.poll() is None, "it was killed"
        # Some are stored, some have to wait, those of 60 MB are too large for this container.
        assert "200" in said
        assert {"413", "RESOURCE_EXHAUSTED"} & set(said)
        assert set(said) <= {
            *("200", "413", "503", "closed"),
            *("RESOURCE_EXHAUSTED", "UNAVAILABLE"),
        }
        assert readiness(collector)["queue_bytes"] == 0
    finally:
        collector.kill()
