"""A run of `otelchain.demo.turns` as a span of the instrumentation that traces its service.

Attribute names are those that the collector's dialects read; what they say of each is beside them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from otelchain import attributes as names
from otelchain.demo.turns import RUN, SESSION, USER, Step

Attributes = dict[str, Any]

_OPERATIONS: Final = {
    "llm": "chat",
    "tool": "execute_tool",
    "retriever": "retrieval",
    "agent": "invoke_agent",
}
_USAGE: Final = {
    "input_tokens": names.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": names.GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_tokens": names.GEN_AI_USAGE_CACHE_READ,
}
_GEN_AI: Final = {
    "model": names.GEN_AI_REQUEST_MODEL,
    "provider": names.GEN_AI_PROVIDER_NAME,
    **_USAGE,
    "finish_reasons": names.GEN_AI_RESPONSE_FINISH_REASONS,
    "agent_name": names.GEN_AI_AGENT_NAME,
    "tool_call_id": names.GEN_AI_TOOL_CALL_ID,
}
_OWN: Final = {
    **_GEN_AI,
    "cost_usd": names.COST_TOTAL_USD,
    "document_count": names.DOCUMENT_COUNT,
    "retry_attempt": names.RETRY_ATTEMPT,
    "langgraph_node": names.LANGGRAPH_NODE,
    "langgraph_step": names.LANGGRAPH_STEP,
    "langgraph_checkpoint_ns": names.LANGGRAPH_CHECKPOINT_NS,
}
_PAYLOAD: Final = {
    "llm": (names.GEN_AI_INPUT_MESSAGES, names.GEN_AI_OUTPUT_MESSAGES),
    "tool": (names.GEN_AI_TOOL_CALL_ARGUMENTS, names.GEN_AI_TOOL_CALL_RESULT),
    "retriever": (names.GEN_AI_RETRIEVAL_QUERY_TEXT, names.GEN_AI_RETRIEVAL_DOCUMENTS),
}


class Spelling(NamedTuple):
    """How an instrumentation writes: its scope, a span's name and its attributes."""

    scope: str
    name: Callable[[Step], str]
    attributes: Callable[[Step], Attributes]


def _given(facts: Mapping[str, Any], spelled: Mapping[str, str]) -> Attributes:
    return {name: facts[fact] for fact, name in spelled.items() if facts.get(fact) is not None}


def _payload(step: Step, asked: str, answered: str) -> Attributes:
    return _given(step.facts, {"inputs": asked, "outputs": answered})


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _conventional(step: Step, other: tuple[str, str]) -> Attributes:
    """Return the payload as the GenAI conventions have it."""
    asked, answered = _PAYLOAD.get(step.run_type, other)
    payload = _payload(step, asked, answered)
    if step.run_type == "llm":
        roles = {asked: "user", answered: "assistant"}
        return {name: _messages(roles[name], text) for name, text in payload.items()}
    return payload


def _first_token(step: Step) -> Attributes:
    first_ms = step.facts.get("time_to_first_token_ms")
    return {} if first_ms is None else {names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: first_ms / 1e3}


def _failure(step: Step) -> Attributes:
    return {} if step.error_type is None else {names.ERROR_TYPE: step.error_type}


def _otelchain(step: Step) -> Attributes:
    run_types = {"llm": "chat_model", "agent": "chain"}
    found: Attributes = {
        names.RUN_ID: f"{RUN}-{step.place:012x}",
        names.RUN_TYPE: run_types.get(step.run_type, step.run_type),
        names.RUN_NAME: step.name,
        names.RUN_STATUS: step.status,
        names.GEN_AI_CONVERSATION_ID: SESSION,
        names.USER_ID: USER,
        **_given(step.facts, _OWN),
        **_conventional(step, (names.INPUT, names.OUTPUT)),
        **_first_token(step),
        **_failure(step),
        **step.attributes,
    }
    if step.parent is not None:
        found[names.RUN_PARENT_ID] = f"{RUN}-{step.parent:012x}"
    if step.run_type in _OPERATIONS:
        found[names.GEN_AI_OPERATION_NAME] = _OPERATIONS[step.run_type]
    if step.status == "abandoned":
        found[names.RUN_END_REASON] = step.error
    if "metadata" in step.facts:
        found[names.METADATA] = json.dumps(step.facts["metadata"])
    return found


def _gen_ai(step: Step) -> Attributes:
    found = {
        names.GEN_AI_OPERATION_NAME: _OPERATIONS.get(step.run_type, "invoke_workflow"),
        names.GEN_AI_CONVERSATION_ID: SESSION,
        names.USER_ID: USER,
        **_given(step.facts, _GEN_AI),
        **_conventional(step, (names.GEN_AI_INPUT_MESSAGES, names.GEN_AI_OUTPUT_MESSAGES)),
        **_first_token(step),
        **_failure(step),
    }
    if step.run_type == "tool":
        found[names.GEN_AI_TOOL_NAME] = step.name
    return found


def _openinference(step: Step) -> Attributes:
    spelled = {
        "model": "llm.model_name",
        "provider": "llm.provider",
        "input_tokens": "llm.token_count.prompt",
        "output_tokens": "llm.token_count.completion",
        "cache_read_tokens": "llm.token_count.prompt_details.cache_read",
        "cost_usd": "llm.cost.total",
        "agent_name": "agent.name",
        "tool_call_id": "tool.id",
    }
    return {
        "openinference.span.kind": step.run_type.upper(),
        "session.id": SESSION,
        "user.id": USER,
        **_given(step.facts, spelled),
        **_payload(step, "input.value", "output.value"),
    }


def _langsmith(step: Step) -> Attributes:
    metadata = {"thread_id": SESSION, "user_id": USER, "ls_provider": step.facts.get("provider")}
    usage = {name: spelled for name, spelled in _USAGE.items() if name != "cache_read_tokens"}
    return {
        "langsmith.span.kind": step.run_type,
        "langsmith.trace.name": step.name,
        **{f"langsmith.metadata.{name}": text for name, text in metadata.items() if text},
        **_given(step.facts, {"model": names.GEN_AI_REQUEST_MODEL, **usage}),
        **_payload(step, "gen_ai.prompt", "gen_ai.completion"),
    }


def _openllmetry(step: Step) -> Attributes:
    kind = {"tool": "tool", "chain": "task"}.get(step.run_type)
    found: Attributes = {
        "traceloop.association.properties.session_id": SESSION,
        "traceloop.association.properties.user_id": USER,
        **_given(step.facts, {"model": names.GEN_AI_REQUEST_MODEL, **_USAGE}),
        **_failure(step),
    }
    if kind is None:
        found[names.GEN_AI_OPERATION_NAME] = "chat"
        return {**found, **_given(step.facts, _GEN_AI), **_conventional(step, ("", ""))}
    found["traceloop.span.kind"] = "workflow" if step.parent is None else kind
    found["traceloop.entity.name"] = step.name
    return {**found, **_payload(step, "traceloop.entity.input", "traceloop.entity.output")}


def _by_operation(step: Step) -> str:
    said = step.facts.get("model") if step.run_type == "llm" else step.name
    return f"{_OPERATIONS.get(step.run_type, 'invoke_workflow')} {said}"


def _by_run(step: Step) -> str:
    return step.name


SPELLINGS: Final = {
    "otelchain": Spelling("otelchain", _by_run, _otelchain),
    "gen_ai": Spelling("opentelemetry.util.genai", _by_operation, _gen_ai),
    "openinference": Spelling("openinference.instrumentation.langchain", _by_run, _openinference),
    "langsmith": Spelling("langsmith", _by_run, _langsmith),
    "openllmetry": Spelling(
        "opentelemetry.instrumentation.langchain", lambda step: f"{step.name}.task", _openllmetry
    ),
}
