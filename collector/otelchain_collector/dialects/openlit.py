"""OpenLIT: the GenAI conventions with names of its own beside them."""

import re
from typing import Any

from otelchain_collector.dialects import gen_ai
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.python_repr import literal_at
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.values import amount, count, one_of, other_than, text

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_LANGCHAIN_SCOPE = "openlit.instrumentation.langchain"
_LANGGRAPH_SCOPE = "openlit.instrumentation.langgraph"
# str() of a ToolMessage: status is its last field, and left out unless it is an error.
_MESSAGE_START = "content="
_MESSAGE_ID = " tool_call_id='"
_MESSAGE_FAILED = " status='error'"


def _complete(span: SpanFacts, found: Found) -> None:
    gen_ai.name_and_instructions(span, found)
    gen_ai.read_finish_reasons(span, found)
    if span.events:
        gen_ai.read_events(span, found)
    if span.scope_name == _LANGGRAPH_SCOPE:  # the model of a message on its way through
        found.pop("model", None)
    _tell_agents(span, found)
    # At most three documents are written, so the list is no count.
    found.setdefault("document_count", None)
    # Its LangChain tracer writes the run id where the tool call's id belongs, and on models the
    # ids of all the tools they call.
    if found.get("run_type") != "tool" or _UUID.fullmatch(found.get("tool_call_id") or ""):
        found.pop("tool_call_id", None)
    # Without streaming it gives the whole duration for the time to the first token.
    if span.attributes.get("gen_ai.request.stream") is False:
        found.pop("time_to_first_token_ms", None)
    if found.get("run_type") == "tool":
        _read_tool_message(span.attributes.get("gen_ai.tool.call.result"), found)


def _tell_agents(span: SpanFacts, found: Found) -> None:
    """Take for chains what it calls agents for no reason but a name or a place in a graph."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation == "create_agent" and span.scope_name == _LANGGRAPH_SCOPE:
        # It is the compiling of any graph: no run, and the name is mostly "default".
        found.pop("run_type", None)
        found["run_name"] = found.pop("agent_name", None)
        return
    if operation != "invoke_agent":
        return
    if span.scope_name == _LANGCHAIN_SCOPE:  # any chain with "agent" in its name
        found["run_type"] = "chain"
        found.pop("agent_name", None)
    elif span.scope_name == _LANGGRAPH_SCOPE:  # any node of any graph
        found["run_type"] = "chain"
        found["langgraph_node"] = found.pop("agent_name", None)


def _read_tool_message(result: Any, found: Found) -> None:
    if not (
        isinstance(result, str)
        and result.startswith(_MESSAGE_START)
        and result.endswith(_MESSAGE_FAILED)
        and _MESSAGE_ID in result
    ):
        return
    found["run_status"] = "handled_error"
    found["error"] = literal_at(result, len(_MESSAGE_START)) or result


DIALECT = Dialect(
    name="openlit",
    columns={
        **gen_ai.COLUMNS,
        "run_type": (
            one_of({**gen_ai.RUN_TYPES, "execute_task": "chain"}),
            ("gen_ai.operation.name",),
        ),
        "model": (
            other_than(text, "unknown"),
            ("gen_ai.response.model", "gen_ai.request.model"),
        ),
        "provider": (
            other_than(text, "langchain", "langgraph"),
            ("gen_ai.provider.name", "gen_ai.system"),
        ),
        # It writes 0 for a model whose price it does not know.
        "cost_usd": (lambda value: amount(value) or None, ("gen_ai.usage.cost",)),
        "document_count": (count, ("gen_ai.retrieval.document_count",)),
    },
    inputs=(
        *gen_ai.INPUTS,
        "gen_ai.workflow.input",
        "gen_ai.tool.input",
        "gen_ai.retrieval.query",
    ),
    outputs=(*gen_ai.OUTPUTS, "gen_ai.workflow.output", "gen_ai.tool.output"),
    complete=_complete,
)
