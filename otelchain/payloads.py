"""Inputs and outputs of each run type → the attributes that hold them.

Called while a span is recording; every value goes through the `ContentGate`.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import lru_cache, partial
from typing import Any

import orjson
from langchain_core.messages import ToolMessage

from otelchain import attributes as names
from otelchain import cost, model_facts
from otelchain.content import Attributes, ContentGate
from otelchain.graph_facts import goto
from otelchain.messages import output_messages
from otelchain.prompt_facts import templates_json
from otelchain.retrieval_facts import documents_json
from otelchain.rubric_facts import rubric_attributes
from otelchain.run_facts import RunStart
from otelchain.snapshot import utf8


def chain_input(gate: ContentGate, inputs: Any) -> Attributes:
    """A chain's input, and its type: a trajectory needs to know a Command or None from a dict."""
    found = gate.json(names.INPUT, inputs)
    found[names.INPUT_KIND] = gate.fact(names.INPUT_KIND, type(inputs).__name__)
    return found


def chain_output(gate: ContentGate, outputs: Any) -> Attributes:
    """A chain's output."""
    found = gate.json(names.OUTPUT, outputs)
    if not isinstance(outputs, str):
        found.update(rubric_attributes(gate, outputs))
        found.update(goto(gate, outputs))
    return found


def template(gate: ContentGate, serialized: Mapping[str, Any] | None) -> Attributes:
    """A prompt's templates."""
    if not gate.capture:
        return {}
    try:
        encoded = orjson.dumps(serialized)
    except TypeError:
        encoded = b""
    # The same prompt again and again: written in 0.4 µs, where collecting its templates takes 3.
    if not 0 < len(encoded) <= _MAX_KNOWN_PROMPT_BYTES:
        return gate.json(names.PROMPT_TEMPLATE, templates_json(serialized))
    return gate.json(names.PROMPT_TEMPLATE, _known_templates(encoded))


_MAX_KNOWN_PROMPT_BYTES = 16_384


@lru_cache(maxsize=128)
def _known_templates(serialized: bytes) -> list[dict[str, Any]]:
    return templates_json(orjson.loads(serialized))


def prompt(gate: ContentGate, start: RunStart, messages: Iterable[Any]) -> Attributes:
    """What a model was asked: messages, stop sequences, tool definitions."""
    cost.prepare()
    if not gate.capture:
        return {}
    found = gate.json(names.GEN_AI_INPUT_MESSAGES, list(messages))
    stop = model_facts.stop_sequences(start.metadata, start.parameters)
    if stop:
        found.update(gate.texts(names.GEN_AI_REQUEST_STOP_SEQUENCES, stop))
    for key in model_facts.TOOLS:
        if start.parameters.get(key):
            found.update(gate.json(names.GEN_AI_TOOL_DEFINITIONS, start.parameters[key]))
            break
    return found


def answer(gate: ContentGate, response: Any) -> Attributes:
    """What a model answered, with usage and finish reasons, which are no content."""
    found = gate.facts(model_facts.response(response))
    if gate.capture:
        found.update(gate.json(names.GEN_AI_OUTPUT_MESSAGES, output_messages(response)))
    return found


def tool_call(
    gate: ContentGate, arguments: Any, call_id: Any, serialized: Mapping[str, Any] | None
) -> Attributes:
    """How a tool was called, and how it describes itself."""
    found = {**gate.json(names.GEN_AI_TOOL_CALL_ARGUMENTS, arguments), **_call_id(gate, call_id)}
    description = (serialized or {}).get("description")
    if description and isinstance(description, str):
        found.update(gate.text(names.GEN_AI_TOOL_DESCRIPTION, description))
    return found


def tool_result(gate: ContentGate, output: Any) -> Attributes:
    """What a tool returned; of a ToolMessage its content, the rest has attributes of its own."""
    if not isinstance(output, ToolMessage):
        return gate.json(names.GEN_AI_TOOL_CALL_RESULT, output) | goto(gate, output)
    found = gate.json(names.GEN_AI_TOOL_CALL_RESULT, _unwrapped(output.content))
    # Older releases of langchain-core do not tell a tool's start which call it answers.
    return {**found, **_call_id(gate, output.tool_call_id)}


def _call_id(gate: ContentGate, call_id: Any) -> Attributes:
    if type(call_id) is int and abs(call_id) < 2**63:
        call_id = str(call_id)
    if not call_id or not isinstance(call_id, str):
        return {}
    return {names.GEN_AI_TOOL_CALL_ID: gate.fact(names.GEN_AI_TOOL_CALL_ID, call_id)}


def _unwrapped(content: Any) -> Any:
    """Undo the JSON text that LangChain makes of a structured result for a ToolMessage."""
    if not isinstance(content, str) or not content.startswith(("{", "[")):
        return content
    try:
        return orjson.loads(utf8(content))
    except orjson.JSONDecodeError:
        return content


def query(gate: ContentGate, text: Any) -> Attributes:
    """What a retriever was asked: a text, or with some retrievers a JSON object."""
    if isinstance(text, str):
        return gate.text(names.GEN_AI_RETRIEVAL_QUERY_TEXT, text)
    return gate.json(names.GEN_AI_RETRIEVAL_QUERY_TEXT, text)


def documents(gate: ContentGate, found: Any) -> Attributes:
    """What a retriever or reranker found; all but the texts and metadata is no content."""
    found = found if isinstance(found, Sequence) and not isinstance(found, str) else [found]
    shown = gate.shows(names.GEN_AI_RETRIEVAL_DOCUMENTS)
    fact = partial(gate.fact, names.GEN_AI_RETRIEVAL_DOCUMENTS)
    described = documents_json(found, fact, content=shown)
    return {
        **gate.fact_json(names.GEN_AI_RETRIEVAL_DOCUMENTS, described, content=shown),
        names.DOCUMENT_COUNT: len(found),
    }


def texts(gate: ContentGate, inputs: Any) -> Attributes:
    """What an embedding model was given: one text or several."""
    several = isinstance(inputs, Sized) and not isinstance(inputs, str)
    return {
        **gate.json(names.INPUT, inputs),
        names.EMBEDDINGS_INPUT_COUNT: len(inputs) if several else 1,
    }


def vectors(found: Any) -> Attributes:
    """How long an embedding model's vectors are; the numbers themselves answer no question."""
    first = found[0] if isinstance(found, Sequence) and found else None
    vector = first if isinstance(first, Sized) else found
    if not isinstance(vector, Sized) or not len(vector):
        return {}
    return {names.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: len(vector)}


def ranking(gate: ContentGate, query: str, candidates: Sequence[Any]) -> Attributes:
    """What a reranker was given: the query, and which documents without their texts."""
    fact = partial(gate.fact, names.RERANK_INPUT_DOCUMENTS)
    described = documents_json(candidates, fact, content=False)
    return {
        **gate.text(names.GEN_AI_RETRIEVAL_QUERY_TEXT, query),
        **gate.fact_json(names.RERANK_INPUT_DOCUMENTS, described),
        names.RERANK_INPUT_COUNT: len(candidates),
    }


def event(gate: ContentGate, value: Any) -> Attributes:
    """What a span event carries."""
    return gate.json(names.EVENT_DATA, value)
