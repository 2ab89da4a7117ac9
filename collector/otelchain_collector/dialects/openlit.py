"""OpenLIT: the GenAI conventions with names of its own beside them."""

import re

from otelchain_collector.dialects import gen_ai
from otelchain_collector.dialects.dialect import Dialect, Found
from otelchain_collector.dialects.spans import SpanFacts
from otelchain_collector.dialects.values import amount, count, one_of, other_than, text

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _complete(span: SpanFacts, found: Found) -> None:
    gen_ai.name_and_instructions(span, found)
    # At most three documents are written, so the list is no count.
    found.setdefault("document_count", None)
    # Its LangChain tracer writes the run id where the tool call's id belongs.
    if _UUID.fullmatch(found.get("tool_call_id") or ""):
        del found["tool_call_id"]


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
        "cost_usd": (amount, ("gen_ai.usage.cost",)),
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
