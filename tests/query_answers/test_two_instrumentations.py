"""LangChain traced, and the provider's client too: the same tokens twice in the store."""

from pathlib import Path
from typing import Any

import pytest

from stored_runs import asked, make_store, run

_SESSION = {"session_id": "chat-1", "service_name": "support"}


def _client(span: int, parent: int, total: int | None, **columns: Any) -> Any:
    """Return the span that OpenTelemetry's instrumentation of OpenAI's client writes."""
    values = {"dialect": "gen_ai", "model": "gpt-4o", "total_tokens": total, **_SESSION}
    return run(span, parent, "chat gpt-4o", "llm", **{**values, **columns})


def _model(span: int, total: int | None, **columns: Any) -> Any:
    values = {"model": "gpt-4o", "total_tokens": total, **_SESSION}
    return run(span, 1, "ChatOpenAI", "llm", **{**values, **columns})


ROWS = [
    run(1, None, "answer", "chain", **_SESSION),
    # Both have them: once.
    _model(2, 10),
    _client(3, 2, 10),
    # The run of the model says nothing: the client does.
    _model(4, None),
    _client(5, 4, 200),
    # A client below a tool stands for itself.
    run(6, 1, "search", "tool", **_SESSION),
    _client(7, 6, 3_000),
    # Tracers of others too.
    _model(8, 40_000, dialect="openinference"),
    _client(9, 8, 40_000, dialect="openllmetry"),
    # A model of ours that asks another model has tokens of its own.
    _model(10, 500_000),
    run(11, 10, "inner", "llm", model="gpt-4o", total_tokens=500_000, **_SESSION),
]
TOTAL = 10 + 200 + 3_000 + 40_000 + 2 * 500_000


@pytest.mark.parametrize("query", ["token-use", "traces", "sessions"])
def test_tokens_are_counted_once(query: str, tmp_path: Path) -> None:
    database = make_store(tmp_path / "t.duckdb", ROWS)

    result = asked("query", query, "--database", str(database), "--format", "jsonl")

    assert f'"total_tokens":{TOTAL},' in result.stdout.decode().replace(" ", "")
