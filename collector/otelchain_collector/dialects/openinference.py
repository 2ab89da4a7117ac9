"""OpenInference: openinference/semconv/trace and what its LangChain tracer writes.

With OPENINFERENCE_ENABLE_GENAI_SEMCONV it writes ``gen_ai.*`` as well; each column is read from
one of the two, so nothing is counted twice.
"""

from otelchain_collector.dialects import gen_ai
from otelchain_collector.dialects.agents import announce_agent
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.generation import DETAILS, answering_model, usage
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.status import (
    exception_text,
    last_exception,
    type_in_repr,
    without_traceback,
)
from otelchain_collector.dialects.values import (
    amount,
    count,
    identifier,
    integer,
    json_object,
    json_text,
    one_of,
    text,
    text_list,
)

_RUN_TYPES = {
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    "CHAIN": "chain",
    "EMBEDDING": "embedding",
    "RERANKER": "reranker",
    "GUARDRAIL": "guardrail",
    "EVALUATOR": "evaluator",
    "PROMPT": "prompt",
    "DECISION": "decision",
}
_FROM_METADATA = {
    "langgraph_node": text,
    "langgraph_step": integer,
    "langgraph_checkpoint_ns": text,
}


_LANGCHAIN_SCOPE = "openinference.instrumentation.langchain"


def _complete(span: SpanFacts, found: Found) -> None:
    reason = text(span.attributes.get("llm.finish_reason"))
    if reason is not None:
        found["finish_reasons"] = [reason]
    metadata = json_object(span.attributes.get("metadata"))
    for column, reader in _FROM_METADATA.items():
        found[column] = reader(metadata.get(column))
    found.setdefault("agent_name", text(metadata.get("lc_agent_name")))
    found.setdefault("user_id", identifier(metadata.get("user_id")))
    if found.get("run_type") == "llm":
        _read_answer(span, found)
    if span.events:
        gen_ai.read_events(span, found)
    announce_agent(found, span.name, guessed=span.scope_name == _LANGCHAIN_SCOPE)
    # The status message is repr and stack trace in one; the event has them apart.
    event = last_exception(span)
    found["error"] = exception_text(event, "exception.message") or without_traceback(
        text(span.status_message)
    )
    if event is None:
        found.setdefault("error_type", type_in_repr(found["error"]))


def _read_answer(span: SpanFacts, found: Found) -> None:
    """Read what LangChain's answer says and the attributes do not."""
    if "llm.response.model_name" in span.attributes:
        return
    output = json_object(span.attributes.get("output.value"))
    found["model"] = answering_model(output) or found.get("model")
    # Attributes leave counts of 0 out.
    details = usage(output)
    for column, (side, name) in DETAILS.items():
        if found.get(column) is None:
            found[column] = count(json_object(details.get(side)).get(name))


DIALECT = Dialect(
    name="openinference",
    columns={
        "run_type": (one_of(_RUN_TYPES), ("openinference.span.kind",)),
        "error_type": (text, ("error.type",)),
        "model": (
            text,
            (
                "llm.response.model_name",
                "llm.model_name",
                "llm.request.model_name",
                "embedding.model_name",
                "reranker.model_name",
                "gen_ai.response.model",
                "gen_ai.request.model",
            ),
        ),
        "provider": (text, ("llm.provider", "llm.system", *gen_ai.COLUMNS["provider"][1])),
        "input_tokens": (count, ("llm.token_count.prompt", "gen_ai.usage.input_tokens")),
        "output_tokens": (count, ("llm.token_count.completion", "gen_ai.usage.output_tokens")),
        "total_tokens": (count, ("llm.token_count.total",)),
        **{
            column: (count, (name, *gen_ai.COLUMNS[column][1]))
            for column, name in (
                ("cache_read_tokens", "llm.token_count.prompt_details.cache_read"),
                ("cache_write_tokens", "llm.token_count.prompt_details.cache_write"),
                ("reasoning_tokens", "llm.token_count.completion_details.reasoning"),
            )
        },
        "finish_reasons": gen_ai.COLUMNS["finish_reasons"],
        "time_to_first_token_ms": gen_ai.COLUMNS["time_to_first_token_ms"],
        "cost_usd": (amount, ("llm.cost.total",)),
        "session_id": (identifier, ("session.id", "gen_ai.conversation.id")),
        "user_id": (identifier, ("user.id",)),
        "agent_name": (text, ("agent.name",)),
        "tool_call_id": (
            identifier,
            ("tool.id", "message.tool_call_id", "tool_call.id", "gen_ai.tool.call.id"),
        ),
        "tags": (text_list, ("tag.tags",)),
        "metadata": (json_text, ("metadata",)),
    },
    inputs=("input.value", *gen_ai.INPUTS),
    outputs=("output.value", *gen_ai.OUTPUTS),
    inputs_flattened=("llm.input_messages", "llm.prompts"),
    outputs_flattened=(
        "llm.output_messages",
        "retrieval.documents",
        "reranker.output_documents",
    ),
    complete=_complete,
)
