"""What the collector sets up in its process, seen from outside it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collector_process import ask
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
