"""Stored runs of every dialect → JSON lines in the shape of LangSmith's ``list_runs``.

``langsmith_import`` makes the same runs of them again. What LangSmith has no field for goes into an
object of our own, ``otelchain``; what an import had kept of LangSmith's own fields comes out again.
"""

import json
from collections.abc import Callable
from typing import IO, Any
from uuid import UUID

from otelchain_collector.dialects.langsmith import FIELDS
from otelchain_collector.exchange.langsmith_runs import Json
from otelchain_collector.exchange.langsmith_spans import OURS
from otelchain_collector.exchange.langsmith_times import run_id_of, span_id_of, time_text
from otelchain_collector.exchange.pages import RELATIONS, Ask, Filters, pages
from otelchain_collector.signals import TRACES

_RUN_TYPES = frozenset({"chain", "llm", "tool", "retriever", "embedding", "prompt", "parser"})
_STATUSES = {"ok": "success", "handled_error": "success", "pending": "pending"}
# Where LangSmith looks for what other dialects say in attributes of their own.
_METADATA = {
    "session_id": "session_id",
    "user_id": "user_id",
    "ls_model_name": "model",
    "ls_provider": "provider",
    "lc_agent_name": "agent_name",
    "langgraph_node": "langgraph_node",
    "langgraph_step": "langgraph_step",
    "langgraph_checkpoint_ns": "langgraph_checkpoint_ns",
}
# What an import finds in other places of a run too.
_SAID_ELSEWHERE = ("ls_model_name", "session_id")
_COLUMNS = (
    *("trace_id", "span_id", "parent_span_id", "start_time_unix_nano", "end_time_unix_nano"),
    *("dialect", "run_id", "parent_run_id", "run_type", "run_status", "error_type", "error"),
    *("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "tags", "metadata", "service_name", "tool_call_id", *_METADATA.values()),
    "cost_usd::VARCHAR AS cost_usd",
    "coalesce(run_name, name) AS name",
    "time_to_first_token_ms::VARCHAR AS time_to_first_token_ms",
    "coalesce(inputs_built::VARCHAR, attributes ->> inputs_attribute) AS inputs",
    "coalesce(outputs_built::VARCHAR, attributes ->> outputs_attribute) AS outputs",
    f"CASE WHEN dialect = 'langsmith' THEN attributes ->> '{FIELDS}' END AS kept",
)
_RUNS = RELATIONS[TRACES.name]._replace(columns=", ".join(_COLUMNS))


def write_langsmith(
    ask: Ask, filters: Filters, stream: IO[bytes], advance: Callable[[int], None]
) -> None:
    """Write one JSON object per run; ``advance`` is told how many were written."""
    for rows in pages(ask, _RUNS, filters):
        for row in rows:
            stream.write(json.dumps(_run(row), ensure_ascii=False).encode() + b"\n")
        advance(len(rows))


def _run(row: Json) -> Json:
    kept = _loaded(row["kept"])
    kept = kept if isinstance(kept, dict) else {}
    inputs, inputs_form = _payload(row["inputs"], "input")
    outputs, outputs_form = _payload(row["outputs"], "output")
    extra = kept.get("extra")
    known_type = row["run_type"] in _RUN_TYPES
    run = {
        "id": str(_id(row)),
        "name": row["name"],
        "start_time": time_text(row["start_time_unix_nano"]),
        "run_type": row["run_type"] if known_type else "chain",
        "end_time": None if _is_pending(row) else time_text(row["end_time_unix_nano"]),
        "extra": {**(extra if isinstance(extra, dict) else {}), "metadata": _metadata(row, kept)},
        "error": row["error"],
        # LangSmith has no run without.
        "inputs": {} if inputs is None else inputs,
        "outputs": outputs,
        "parent_run_id": _parent(row),
        "tags": row["tags"],
        "status": _STATUSES.get(row["run_status"], "error"),
        "trace_id": str(UUID(hex=row["trace_id"])),
        "session_name": row["service_name"],
        **_usage(row),
        "first_token_time": _first_token(row),
        OURS: _without_nothing(
            {
                # Where LangSmith's own text of the error is kept, that says it.
                "status": None if "error" in kept else row["run_status"],
                "run_type": None if known_type else row["run_type"],
                "error_type": None if "error" in kept else row["error_type"],
                "inputs": "none" if inputs is None else inputs_form,
                "outputs": outputs_form,
                "run_id": row["run_id"] if str(_id(row)) != row["run_id"] else None,
                "tool_call_id": row["tool_call_id"],
            }
        ),
    }
    # As LangSmith had written it, where that says more: a stack trace, the usage of a chain.
    return {**run, **{name: value for name, value in kept.items() if name != "extra"}}


def _is_pending(row: Json) -> bool:
    return bool(row["run_status"] == "pending")


def _id(row: Json) -> UUID:
    return _uuid(row["run_id"], row["trace_id"], row["span_id"])


def _parent(row: Json) -> str | None:
    span_id = row["parent_span_id"]
    return span_id and str(_uuid(row["parent_run_id"], row["trace_id"], span_id))


def _uuid(own: str | None, trace_id: str, span_id: str) -> UUID:
    """Return the run's own id where import gives the same span id for it, else one that does."""
    try:
        found = UUID(own or "")
    except ValueError:
        return run_id_of(trace_id, span_id)
    return found if span_id_of(found) == span_id else run_id_of(trace_id, span_id)


def _metadata(row: Json, kept: Json) -> Json:
    written = _loaded(row["metadata"])
    written = written if isinstance(written, dict) else {}
    facts = {name: row[column] for name, column in _METADATA.items()}
    # LangSmith's own words stay as they are where they say it.
    for name in _SAID_ELSEWHERE if row["dialect"] == "langsmith" else ():
        if _says(name, written, kept):
            del facts[name]
    # In the order that it was written in.
    return written | {
        name: fact for name, fact in _without_nothing(facts).items() if name not in written
    }


def _says(name: str, written: Json, kept: Json) -> bool:
    if name == "ls_model_name":
        extra = kept.get("extra")
        params = extra.get("invocation_params") if isinstance(extra, dict) else None
        params = params or written.get("invocation_params")
        return isinstance(params, dict) and bool(params.get("model") or params.get("model_name"))
    return any(
        each.get(key) for each in (written, kept) for key in ("thread_id", "conversation_id")
    )


def _usage(row: Json) -> Json:
    details = {
        "prompt_token_details": {
            "cache_read": row["cache_read_tokens"],
            "cache_creation": row["cache_write_tokens"],
        },
        "completion_token_details": {"reasoning": row["reasoning_tokens"]},
    }
    return {
        "prompt_tokens": row["input_tokens"],
        "completion_tokens": row["output_tokens"],
        "total_tokens": row["total_tokens"],
        "total_cost": None if row["cost_usd"] is None else float(row["cost_usd"]),
        **{name: _without_nothing(counts) or None for name, counts in details.items()},
    }


def _first_token(row: Json) -> str | None:
    after_ms = row["time_to_first_token_ms"]
    if after_ms is None:
        return None
    return time_text(row["start_time_unix_nano"] + round(float(after_ms) * 10**6))


def _payload(text: str | None, key: str) -> tuple[Json | None, str | None]:
    """Return a payload as the object that LangSmith wants, and what it was before."""
    if text is None:
        return None, None
    value = _loaded(text)
    if isinstance(value, dict):
        return value, None
    # json.loads has no other way to say that it is no JSON.
    return ({key: text}, "text") if value is _NOT_JSON else ({key: value}, "json")


_NOT_JSON: Any = object()


def _loaded(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return _NOT_JSON


def _without_nothing(facts: Json) -> Json:
    return {name: value for name, value in facts.items() if value is not None}
