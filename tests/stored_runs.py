"""A database file with runs written by hand, and the command asked about it in a real process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from otelchain.cli import cli
from otelchain_collector.rows import SpanRow
from otelchain_collector.store import Store

ROOT = Path(__file__).parent.parent
# 2026-11-30T23:04:54.123456789Z
START_UNIX_NANO = 1_796_079_894_123_456_789
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def run(
    span: int,
    parent: int | None,
    name: str,
    run_type: str,
    *,
    trace_id: str = TRACE,
    start_ms: int = 0,
    duration_ms: int = 1000,
    status: str = "ok",
    inputs: Any = None,
    outputs: Any = None,
    **columns: Any,
) -> SpanRow:
    start = START_UNIX_NANO + start_ms * 10**6
    payload = {"otelchain.input": inputs, "otelchain.output": outputs}
    values: dict[str, Any] = dict.fromkeys(SpanRow._fields)
    texts = "trace_state status_message scope_version scope_schema_url resource_schema_url"
    counts = [name for name in SpanRow._fields if name.endswith("_count") and name.count("dropped")]
    values.update(dict.fromkeys(texts.split(), ""), **dict.fromkeys(counts, 0))
    values.update(
        trace_id=trace_id,
        span_id=f"{span:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        flags=0,
        name=name,
        kind=1,
        start_time_unix_nano=start,
        end_time_unix_nano=start + duration_ms * 10**6,
        status_code=0,
        attributes=json.dumps({key: text for key, text in payload.items() if text is not None}),
        events="[]",
        links="[]",
        scope_name="otelchain",
        scope_attributes="{}",
        resource_attributes="{}",
        dialect="otelchain",
        service_name="support",
        run_type=run_type,
        run_status=status,
        inputs_attribute="otelchain.input",
        outputs_attribute="otelchain.output",
        received_time_unix_nano=START_UNIX_NANO,
    )
    return SpanRow(**{**values, **columns})


SUPPORT_RUNS = (
    run(
        *(1, None, "assistant", "agent"),
        duration_ms=9000,
        inputs='{"question":"where is my order?"}',
        outputs='"on its way"',
        session_id="s1",
    ),
    run(
        *(2, 1, "search", "retriever"),
        start_ms=10,
        duration_ms=12,
        status="error",
        error_type="ConnectionError",
        error="refused\nby \x1b[31mhost",
        inputs="orders of 42",
        langgraph_node="retrieve",
        langgraph_step=1,
    ),
    run(
        *(3, 1, "lookup", "tool"),
        start_ms=30,
        duration_ms=7250,
        retry_attempt=2,
        inputs='{"id":42}',
        outputs='"' + "x" * 300 + '"',
    ),
    run(
        *(4, 3, "fake-1", "llm"),
        start_ms=40,
        duration_ms=1500,
        model="fake-1",
        input_tokens=120,
        output_tokens=34,
        total_tokens=154,
    ),
)


def make_store(path: Path, runs: Sequence[SpanRow] = SUPPORT_RUNS) -> Path:
    add_runs(path, runs)
    return path


def add_runs(path: Path, runs: Sequence[SpanRow]) -> None:
    """Store runs; those with the status pending as runs that have not ended."""
    store = Store.open(path)
    ended = [run for run in runs if run.run_status != "pending"]
    pending = [run for run in runs if run.run_status == "pending"]
    if ended:
        store.insert(ended)
    if pending:
        store.insert_pending(pending)
    store.close()


def asked(
    *arguments: str, stdin: str | None = None, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in this process, which is ten times faster than in its own."""
    result = CliRunner().invoke(cli, arguments, input=stdin, env=variables, prog_name="otelchain")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess(
        arguments, result.exit_code, result.stdout_bytes, result.stderr_bytes
    )


def otelchain(
    *arguments: str, stdin: str | None = None, **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the command as a process of its own, its output going to pipes."""
    return subprocess.run(
        [sys.executable, "-c", "from otelchain.cli import main; main()", *arguments],
        input=None if stdin is None else stdin.encode(),
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env={**os.environ, **variables},
        timeout=60,
        check=False,
    )
