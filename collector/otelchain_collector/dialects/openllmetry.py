"""OpenLLMetry (Traceloop): opentelemetry-instrumentation-langchain and its siblings."""

from typing import Any

from otelchain_collector.dialects import gen_ai
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.values import (
    as_json,
    identifier,
    integer,
    json_object,
    one_of,
    other_than,
    text,
    text_list,
)

PROPERTIES = gen_ai.PROPERTIES
_ENTITY_INPUT = "traceloop.entity.input"
_ENTITY_OUTPUT = "traceloop.entity.output"

# Read from the operation name where it is right, else from the kind: a workflow's operation says
# invoke_agent, and a retriever's kind says task.
_RUN_TYPES = {
    "chat": "llm",
    "text_completion": "llm",
    "completion": "llm",
    "embeddings": "embedding",
    "embedding": "embedding",
    "rerank": "reranker",
    "vector_db_retrieve": "retriever",
    "goto": "event",
    "workflow": "chain",
    "task": "chain",
    "agent": "agent",
    "tool": "tool",
}
_by_operation = one_of(gen_ai.RUN_TYPES)
_SUFFIXES = (".workflow", ".task", ".agent", ".tool", ".chat", ".completion")


def _complete(span: SpanFacts, found: Found) -> None:
    found.setdefault("run_name", _without_suffix(span.name))
    # Its LangGraph wrapper writes the GenAI operation alone.
    operation = span.attributes.get("gen_ai.operation.name")
    found.setdefault("run_type", _by_operation(operation))
    if found["run_type"] == "agent":  # on workflows the agent's name is the chain's
        agent = text(span.attributes.get("gen_ai.agent.name"))
        found.setdefault("agent_name", agent)
        found["run_name"] = found["run_name"] or agent
    elif found["run_type"] == "llm":  # says "unknown" and "langchain" where LangChain knows more
        for column, key in (("model", "ls_model_name"), ("provider", "ls_provider")):
            found.setdefault(column, text(span.attributes.get(PROPERTIES + key)))
    properties = {
        name[len(PROPERTIES) :]: value
        for name, value in span.attributes.items()
        if name.startswith(PROPERTIES)
    }
    if properties:
        found["metadata"] = as_json(properties)
    reason = text(span.attributes.get("gen_ai.completion.0.finish_reason"))
    if reason is not None:
        found.setdefault("finish_reasons", [reason])
    gen_ai.read_finish_reasons(span, found)
    if span.events:
        gen_ai.read_events(span, found)
    written = json_object(span.attributes.get(_ENTITY_INPUT))
    found["tags"] = text_list(written.get("tags"))
    if "metadata" in written:
        _unwrap(written, "inputs", ("inputs", "query", "input_str"), found)
    written = json_object(span.attributes.get(_ENTITY_OUTPUT))
    if "kwargs" in written:
        _unwrap(written, "outputs", ("outputs", "output"), found)


def _unwrap(written: dict[str, Any], side: str, keys: tuple[str, ...], found: Found) -> None:
    """Take the payload out of an object that also holds tags, metadata and arguments of the run.

    These differ from call to call, so that no two inputs would be equal.
    """
    if found.get(f"{side}_attribute") not in (_ENTITY_INPUT, _ENTITY_OUTPUT):
        return
    for key in keys:
        payload = as_json(written[key]) if key in written else None
        if payload is not None:
            found[f"{side}_built"] = payload
            del found[f"{side}_attribute"]
            return


def _without_suffix(name: str) -> str | None:
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)] or None
    return None


DIALECT = Dialect(
    name="openllmetry",
    columns={
        **gen_ai.COLUMNS,
        "run_id": (identifier, ("gen_ai.task.id",)),
        "parent_run_id": (identifier, ("gen_ai.task.parent.id",)),
        "run_name": (text, ("traceloop.entity.name",)),
        "run_type": (
            one_of(_RUN_TYPES),
            ("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type"),
        ),
        "model": (
            other_than(text, "unknown"),
            ("gen_ai.response.model", "gen_ai.request.model"),
        ),
        # On everything but models the framework is written where the provider belongs.
        "provider": (
            other_than(text, "langchain", "langgraph"),
            ("gen_ai.provider.name", "gen_ai.system"),
        ),
        "session_id": (
            identifier,
            (
                *(PROPERTIES + "session_id", PROPERTIES + "thread_id"),
                *(PROPERTIES + "conversation_id", "gen_ai.conversation.id", "session.id"),
            ),
        ),
        "user_id": (identifier, (PROPERTIES + "user_id", "user.id")),
        "agent_name": (text, (PROPERTIES + "lc_agent_name",)),
        "langgraph_node": (text, (PROPERTIES + "langgraph_node",)),
        "langgraph_step": (integer, (PROPERTIES + "langgraph_step",)),
        "langgraph_checkpoint_ns": (text, (PROPERTIES + "langgraph_checkpoint_ns",)),
    },
    inputs=(
        *("gen_ai.input.messages", _ENTITY_INPUT, "gen_ai.task.input"),
        *("gen_ai.tool.call.arguments", "gen_ai.retrieval.query.text"),
    ),
    outputs=(
        *("gen_ai.output.messages", _ENTITY_OUTPUT, "gen_ai.task.output"),
        *("gen_ai.tool.call.result", "gen_ai.retrieval.documents"),
    ),
    inputs_flattened=("gen_ai.prompt",),
    outputs_flattened=("gen_ai.completion",),
    complete=_complete,
)
