"""Inputs and outputs of each run type → the attributes that hold them.

Called while a span is recording; every value goes through the `ContentGate`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from otelchain import attributes as names
from otelchain import model_facts
from otelchain.content import Attributes, ContentGate
from otelchain.messages import output_messages
from otelchain.prompt_facts import templates_json
from otelchain.retrieval_facts import documents_json
from otelchain.run_facts import RunStart
from otelchain.snapshot import utf8


def chain_input(gate: ContentGate, inputs: Any) -> Attributes:
    """A chain's input, and its type: a trajectory needs to know a Command or None from a dict."""
    return {**gate.json(names.INPUT, inputs), names.INPUT_KIND: type(inputs).__name__}


def chain_output(gate: ContentGate, outputs: Any) -> Attributes:
    """A chain's output."""
    return gate.json(names.OUTPUT, outputs)


def template(gate: ContentGate, serialized: Mapping[str, Any] | None) -> Attributes:
    """A prompt's templates."""
    return gate.json(names.PROMPT_TEMPLATE, templates_json(serialized))


def prompt(gate: ContentGate, start: RunStart, messages: Iterable[Any]) -> Attributes:
    """What a model was asked: messages, stop sequences, tool definitions."""
    if not gate.capture:
        return {}
    found = gate.json(names.GEN_AI_INPUT_MESSAGES, list(messages))
    stop = model_facts.stop_sequences(start.metadata, start.parameters)
    if stop:
        found.update(gate.texts(names.GEN_AI_REQUEST_STOP_SEQUENCES, stop))
    tools = start.parameters.get("tools") or start.parameters.get("functions")
    if tools:
        found.update(gate.json(names.GEN_AI_TOOL_DEFINITIONS, tools))
    return found


def answer(gate: ContentGate, response: Any) -> Attributes:
    """What a model answered, with usage and finish reasons, which are no content."""
    found = model_facts.response(response)
    if gate.capture:
        found.update(gate.json(names.GEN_AI_OUTPUT_MESSAGES, output_messages(response)))
    return found


def tool_call(
    gate: ContentGate, arguments: Any, call_id: str | None, serialized: Mapping[str, Any] | None
) -> Attributes:
    """How a tool was called, and how it describes itself."""
    found = gate.json(names.GEN_AI_TOOL_CALL_ARGUMENTS, arguments)
    if call_id:
        found[names.GEN_AI_TOOL_CALL_ID] = call_id
    description = (serialized or {}).get("description")
    if description:
        found.update(gate.text(names.GEN_AI_TOOL_DESCRIPTION, str(description)))
    return found


def tool_result(gate: ContentGate, output: Any) -> Attributes:
    """What a tool returned; of a ToolMessage its content, the rest has attributes of its own."""
    content = _unwrapped(output.content) if hasattr(output, "tool_call_id") else output
    return gate.json(names.GEN_AI_TOOL_CALL_RESULT, content)


def _unwrapped(content: Any) -> Any:
    """Undo the JSON text that LangChain makes of a structured result for a ToolMessage."""
    if not isinstance(content, str) or not content.startswith(("{", "[")):
        return content
    try:
        return orjson.loads(utf8(content))
    except orjson.JSONDecodeError:
        return content


def query(gate: ContentGate, text: str) -> Attributes:
    """What a retriever was asked."""
    return gate.text(names.GEN_AI_RETRIEVAL_QUERY_TEXT, text)


def documents(gate: ContentGate, found: Sequence[Any]) -> Attributes:
    """What a retriever found; number, ids, scores and lengths are no content."""
    described = documents_json(found, content=gate.capture)
    return {
        **gate.fact_json(names.GEN_AI_RETRIEVAL_DOCUMENTS, described),
        names.DOCUMENT_COUNT: len(found),
    }


def event(gate: ContentGate, value: Any) -> Attributes:
    """What a span event carries."""
    return gate.json(names.EVENT_DATA, value)
