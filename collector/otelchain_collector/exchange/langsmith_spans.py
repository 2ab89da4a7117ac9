"""A LangSmith run → an OTLP span in the dialect ``langsmith`` (dialects/langsmith.py reads it).

The attributes are those of LangSmith's own OpenTelemetry export, and a few of ours for what that
leaves out. What no attribute says is kept whole in ``langsmith.run.fields``.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from otelchain_collector.dialects.langsmith import (
    COST,
    FIELDS,
    METADATA,
    PARENT_ID,
    RUN_ID,
    STATUS,
    THREAD_ID,
)
from otelchain_collector.dialects.status import PENDING, STATUSES
from otelchain_collector.exchange.langsmith_runs import Json, Run
from otelchain_collector.exchange.langsmith_times import span_id_of, unix_nano

#: What an export of ours adds to a run for what LangSmith has no field for (langsmith_export.py).
OURS = "otelchain"

# Fields that have an attribute, or a place in the span, of their own.
_SAID = {
    *("id", "run_id", "trace_id", "parent_run_id", "name", "run_type", "start_time", "end_time"),
    *("inputs", "outputs", "tags", "metadata", "status", "session_name", OURS),
}
_OK, _ERROR = 1, 2
_INT64 = range(-(2**63), 2**63)


def span_of(run: Run) -> Json:
    """Return the span, in OTLP/JSON."""
    end = run.end_unix_nano if run.end_unix_nano is not None else run.start_unix_nano
    name = _text(run.fields.get("name")) or _text(run.fields.get("run_type")) or "run"
    span: Json = {
        "traceId": run.trace_id.hex,
        "spanId": span_id_of(run.run_id),
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(run.start_unix_nano),
        "endTimeUnixNano": str(max(end, run.start_unix_nano)),
        "attributes": [
            {"key": key, "value": _value(value)} for key, value in _attributes(run).items()
        ],
        "events": [*_error_event(run, end), *_verdicts(run, end)],
        "status": {"code": _ERROR if _failed(run) else _OK},
    }
    if run.parent_id is not None:
        span["parentSpanId"] = span_id_of(run.parent_id)
    return span


def _attributes(run: Run) -> Json:
    fields, ours = run.fields, _object(run.fields.get(OURS))
    kept = {
        key: value for key, value in fields.items() if key not in _SAID and value not in _NOTHING
    }
    if "status" in ours:  # Then it is the text that the store shows, and nothing more.
        kept.pop("error", None)
    kept["extra"] = {
        key: value for key, value in _object(fields.get("extra")).items() if key != "metadata"
    }
    found = {
        RUN_ID: ours.get("run_id") or str(run.run_id),
        PARENT_ID: str(run.parent_id) if run.parent_id else None,
        "langsmith.trace.name": _text(fields.get("name")),
        # Also of a run of unknown type: it is what the dialect is known by.
        "langsmith.span.kind": ours.get("run_type") or str(fields.get("run_type") or "").lower(),
        "langsmith.trace.session_name": fields.get("session_name"),
        "langsmith.trace.session_id": fields.get("session_id"),
        "langsmith.span.tags": fields.get("tags") or None,
        THREAD_ID: fields.get("thread_id"),
        STATUS: _status(run, ours),
        "error.type": ours.get("error_type"),
        "gen_ai.prompt": _payload(fields.get("inputs"), "input", ours.get("inputs")),
        "gen_ai.completion": _payload(fields.get("outputs"), "output", ours.get("outputs")),
        "gen_ai.request.model": _model(run),
        "gen_ai.tool.call.id": ours.get("tool_call_id")
        or _object(fields.get("extra")).get("tool_call_id")
        or run.metadata.get("tool_call_id"),
        "gen_ai.response.time_to_first_chunk": _first_token_seconds(run),
        COST: _cost(fields.get("total_cost")),
        **_usage(run),
        **{METADATA + key: value for key, value in run.metadata.items()},
        FIELDS: _json({key: value for key, value in kept.items() if value not in _NOTHING}),
    }
    return {key: value for key, value in found.items() if value is not None}


def _status(run: Run, ours: Json) -> str | None:
    if ours.get("status") in STATUSES:
        return str(ours["status"])
    return None if run.ended else PENDING


def _failed(run: Run) -> bool:
    ours = _object(run.fields.get(OURS)).get("status")
    if ours in STATUSES:
        return bool(ours == "error")
    return bool(run.fields.get("error")) or str(run.fields.get("status")).lower() == "error"


def _payload(value: Any, key: str, form: Any) -> str | None:
    """Return inputs or outputs as they are stored; an export of ours says what they were.

    ``form`` is text or json (it stands under the key) or none (there was nothing).
    """
    if form is not None and isinstance(value, dict):
        value = value.get(key)
        if form == "text" and isinstance(value, str):
            return value
    return _json(value)


def _model(run: Run) -> str | None:
    params = _object(_object(run.fields.get("extra")).get("invocation_params"))
    params = params or _object(run.metadata.get("invocation_params"))
    names = (run.metadata.get("ls_model_name"), params.get("model"), params.get("model_name"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _usage(run: Run) -> Json:
    fields, other = run.fields, _usage_metadata(run)
    details = {
        side: _object(fields.get(f"{name}_token_details"))
        or _object(other.get(f"{side}_token_details"))
        for side, name in (("input", "prompt"), ("output", "completion"))
    }
    return {
        "gen_ai.usage.input_tokens": _first(fields.get("prompt_tokens"), other.get("input_tokens")),
        "gen_ai.usage.output_tokens": _first(
            fields.get("completion_tokens"), other.get("output_tokens")
        ),
        "gen_ai.usage.total_tokens": _first(fields.get("total_tokens"), other.get("total_tokens")),
        # As the repr of a dictionary, the form of LangSmith's own export.
        "gen_ai.usage.input_token_details": str(details["input"]) if details["input"] else None,
        "gen_ai.usage.output_token_details": str(details["output"]) if details["output"] else None,
    }


def _cost(stated: Any) -> float | None:
    """Return a cost in US dollars, which LangSmith writes as text or as a number."""
    try:
        return None if stated is None else float(stated)
    except (TypeError, ValueError):
        return None


def _usage_metadata(run: Run) -> Json:
    """Find the usage where tracers put it, while LangSmith had not yet counted itself."""
    outputs = _object(run.fields.get("outputs"))
    message = _object(_object(_item(_item(outputs.get("generations")))).get("message"))
    for place in (
        run.metadata,
        outputs,
        _object(outputs.get("output")),
        message,
        _object(message.get("kwargs")),
    ):
        if found := _object(place.get("usage_metadata")):
            return found
    return {}


def _first_token_seconds(run: Run) -> float | None:
    try:
        first = unix_nano(run.fields.get("first_token_time"))
    except ValueError:
        return None
    if first is None or not run.start_unix_nano or first < run.start_unix_nano:
        return None
    return (first - run.start_unix_nano) / 10**9


def _error_event(run: Run, end_unix_nano: int) -> list[Json]:
    error = run.fields.get("error")
    if not error:
        return []
    text = error if isinstance(error, str) else _json(error)
    return [_event("exception", end_unix_nano, {"exception.message": text})]


def _verdicts(run: Run, end_unix_nano: int) -> Iterable[Json]:
    """Yield one event per feedback key, which the view ``evaluations`` shows."""
    for key, stats in _object(run.fields.get("feedback_stats")).items():
        found = _object(stats)
        score, count = found.get("avg"), found.get("n")
        attributes: Json = {"gen_ai.evaluation.name": key}
        if isinstance(score, (int, float)) and not isinstance(score, bool):
            attributes["gen_ai.evaluation.score.value"] = float(score)
        if isinstance(count, int):
            attributes["langsmith.feedback.count"] = count
        yield _event("gen_ai.evaluation.result", end_unix_nano, attributes)


def _event(name: str, unix_nano_: int, attributes: Mapping[str, Any]) -> Json:
    return {
        "timeUnixNano": str(unix_nano_),
        "name": name,
        "attributes": [{"key": key, "value": _value(value)} for key, value in attributes.items()],
    }


def _value(value: Any) -> Json:
    """Return a JSON value as OTLP/JSON's AnyValue."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        # Beyond 64 bits there is text only.
        return {"intValue" if value in _INT64 else "stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if isinstance(value, dict):
        values = [{"key": key, "value": _value(item)} for key, item in value.items()]
        return {"kvlistValue": {"values": values}}
    return {"stringValue": value}


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _first(*values: Any) -> int | None:
    """Return the first number; LangSmith counts in integers."""
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and value in _INT64:
            return value
    return None


def _item(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_NOTHING: tuple[Any, ...] = (None, "", [], {})
