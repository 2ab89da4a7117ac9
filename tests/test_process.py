"""What the collector sets up in its process, seen from outside it."""

import asyncio
import errno
import logging
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import collector_process
from collector_process import RunningCollector, ask, readiness
from otelchain_collector.doors import too_few_files
from otelchain_collector.loop_faults import LoopFaults
from otlp_requests import body, span

SCRIPT = """
import gc, sys
from otelchain_collector import process
import pyarrow as pa

class Request:
    pass

there = [Request() for _ in range(1000)]
process.share_the_interpreter()
process.keep_memory_of_requests()
process.leave_out_of_collections()
known = {id(found) for found in gc.get_objects()}
print(sys.getswitchinterval(), pa.default_memory_pool().backend_name, id(there[0]) in known)
"""


def test_a_process_hands_over_often_shares_one_allocator_and_leaves_out_what_stays() -> None:
    # In a process of its own, because nothing takes these settings back for the other tests.
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )

    switch_seconds, allocator, is_looked_at = run.stdout.split()
    assert float(switch_seconds) < 0.001
    assert allocator == ("system" if sys.platform == "linux" else allocator)
    assert is_looked_at == "False"


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere threads have no priority of their own"
)
def test_decoding_and_writing_give_way_to_all_else(tmp_path: Path, start_collector: Any) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    headers = {"Content-Type": "application/x-protobuf"}
    assert ask(collector, "POST", "/v1/traces", body(span()), headers)[0] == 200

    # proc_pid_stat(5): the name in brackets is the second field, the nice value the 19th.
    stats = Path(f"/proc/{collector.process.pid}/task").glob("*/stat")
    nice = [int(stat.read_text().rsplit(")", 1)[1].split()[16]) for stat in stats]

    assert sum(value > min(nice) for value in nice) == 2


# Soft and hard limit come as arguments.
LIMITED = """
import resource, sys
limits = tuple(int(each) for each in sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
"""
needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")


@needs_limits
@pytest.mark.parametrize(("soft", "hard"), [(64, 200), (100, 100)])
def test_a_process_may_open_as_many_files_as_the_system_allows(soft: int, hard: int) -> None:
    script = LIMITED + (
        "from otelchain_collector.process import open_as_many_files_as_may_be as may\n"
        "print(may(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    command = [sys.executable, "-c", script, str(soft), str(hard)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert run.stdout.split() == [str(hard)] * 3


def test_connections_that_do_not_fit_are_told_with_the_numbers_and_a_remedy() -> None:
    # Two ports, and 64 for all else.
    assert too_few_files(1088, 512) == ""
    assert too_few_files(None, 1_000_000) == ""
    told = too_few_files(1024, 512)
    assert "may open 1024 files" in told
    assert "--max-connections 512" in told
    assert "need 1088" in told
    assert told.endswith("ulimit nofile= of Docker), or set --max-connections 480")
    assert too_few_files(20, 512).endswith("--max-connections 1")


@pytest.fixture(name="few_files")
def _few_files(tmp_path: Path) -> Any:
    program = LIMITED + "from otelchain_collector.__main__ import main; main(sys.argv[3:])"
    collector = collector_process.start(
        tmp_path / "t.duckdb", tmp_path / "log", program=("-c", program, "64", "100")
    )
    yield collector
    collector.kill()


@needs_limits
def test_a_collector_without_descriptors_goes_on_and_says_so_once(
    few_files: RunningCollector,
) -> None:
    assert "may open 100 files" in few_files.log.read_text()
    with ExitStack() as open_ones:
        for address in (few_files.http, few_files.grpc):
            host, port = address.rsplit(":", 1)
            for _ in range(120):
                # They wait in the queue of the system, as long as that has room.
                with suppress(TimeoutError):
                    open_ones.enter_context(socket.create_connection((host, int(port)), 0.2))
        for _ in range(500):
            if "no file descriptors left" in few_files.log.read_text():
                break
            threading.Event().wait(0.01)
        # asyncio tries again after a second.
        threading.Event().wait(2.5)
    assert readiness(few_files)["status"] == "ready"
    log = few_files.log.read_text()
    assert log.count("no file descriptors left") == 1
    assert "Traceback" not in log
    assert len(log) < 5_000


@needs_limits
def test_a_collector_without_descriptors_ends_when_it_is_told_to(
    few_files: RunningCollector,
) -> None:
    host, port = few_files.http.rsplit(":", 1)
    with ExitStack() as open_ones:
        for _ in range(150):
            with suppress(TimeoutError):
                open_ones.enter_context(socket.create_connection((host, int(port)), 0.2))
        threading.Event().wait(0.5)
        assert few_files.stop() == 0
    assert len(few_files.log.read_text()) < 5_000


def test_a_fault_of_the_loop_is_told_once_a_minute_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    faults = LoopFaults(lambda: now)
    loop = asyncio.new_event_loop()
    caplog.set_level(logging.WARNING)

    def told(error: Exception) -> list[str]:
        caplog.clear()
        faults(loop, {"message": "something of a connection", "exception": error})
        return [record.getMessage() for record in caplog.records]

    none_left = OSError(errno.EMFILE, "Too many open files")
    assert len(told(none_left)) == 1
    assert told(none_left) == told(none_left) == []
    # Another kind is not hidden behind it.
    assert told(ValueError("x")) == ["something of a connection"]
    now = 59.9
    assert told(none_left) == []
    now = 60.0
    assert told(none_left)[0] == "of what follows there were 3 more since it was told last"
    loop.close()
