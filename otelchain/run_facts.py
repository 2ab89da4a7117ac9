"""A run's start → span name, kind and attributes. Pure: no span, no clock, no state.

`RunStart` is what a start hook knows; the functions below read names, tags, metadata and
LangGraph's fields out of it. What a sampler may want to see is all known at the start.
"""

import logging
import marshal
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from opentelemetry.trace import SpanKind

from otelchain import attributes as names
from otelchain import model_facts, prompt_facts, retrieval_facts
from otelchain.content import Attributes, ContentGate
from otelchain.snapshot import snapshot

# How an application switches content off for one runnable and what runs below it.
_CAPTURE_KEY = "otelchain.capture"
_CAPTURE_TAG = "otelchain.capture="
# What was meant as that switch, however it is written: its word, and the answer.
_SWITCH = re.compile(
    r"\s*(otel\W?_?chain[\W_]*cap(?:t\w*|[a-z]*re))[\s=:]*(.*)", re.IGNORECASE | re.DOTALL
)
_SWITCH_WORD = re.compile(r"otelchain[._]capture", re.IGNORECASE)
# Run metadata that LangChain and LangGraph write themselves: recorded with content capture off.
_LANGGRAPH_KEYS = frozenset(
    {
        "langgraph_node",
        "langgraph_step",
        "langgraph_path",
        "langgraph_triggers",
        "langgraph_checkpoint_ns",
        "checkpoint_ns",
        "checkpoint_id",
    }
)
_OWN_METADATA = _LANGGRAPH_KEYS | {
    "assistant_id",
    "graph_id",
    "lc_agent_name",
    "lc_versions",
    "ls_embedding_model",
    "ls_embedding_provider",
    "ls_integration",
    "ls_max_tokens",
    "ls_model_name",
    "ls_model_type",
    "ls_provider",
    "ls_retriever_name",
    "ls_temperature",
    "ls_vector_store_provider",
    _CAPTURE_KEY,
    "rubric_grader_configured_model",
    "rubric_grader_effective_strategy",
    "run_id",
    "task_id",
}
_OWN_TAGS = (
    "seq:step:",
    "graph:step:",
    "map:key:",
    "retry:attempt:",
    "langsmith:hidden",
    _CAPTURE_TAG,
)
_MAX_TAG_BYTES = 1_024
_MAX_SWITCH_CHARS = 100
_log = logging.getLogger("otelchain")
_RETRY_TAG = "retry:attempt:"
_SESSION_KEYS = ("session_id", "conversation_id", "thread_id")

_MARSHAL_VERSION = 2  # later ones write an object that occurs twice as a reference
_FACTS_KEPT, _MAX_KEY_BYTES = 512, 4_096

_OPERATIONS = {
    "chat_model": "chat",
    "embedding": "embeddings",
    "llm": "text_completion",
    "retriever": "retrieval",
    "tool": "execute_tool",
}
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_CLIENT_TYPES = frozenset({"chat_model", "embedding", "llm", "reranker", "retriever"})
_MODEL_TYPES = frozenset({"chat_model", "embedding", "llm", "reranker"})


class RunStart(NamedTuple):
    """What the start hook of any run type knows."""

    run_id: UUID
    parent_run_id: UUID | None
    run_type: str
    name: str
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = _NOTHING
    parameters: Mapping[str, Any] = _NOTHING  # invocation_params of a model
    streams: bool = False  # a chain's stream says so; a model's shows with its first token
    batch_size: int = 1  # runs that one call of a model starts
    answers: bool = False  # a graph's, with the answer to an interrupt
    runnable: Any = None  # a graph or a runnable with fallbacks


def run_start(
    run_type: str, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
) -> RunStart:
    """Take what every start hook of LangChain passes by keyword."""
    return RunStart(
        event["run_id"],
        event.get("parent_run_id"),
        run_type,
        event.get("name") or _serialized_name(serialized) or run_type,
        event.get("tags") or (),
        event.get("metadata") or _NOTHING,
        model_facts.parameters(serialized, event) if run_type in _MODEL_TYPES else _NOTHING,
        bool(event.get("defers_inputs")),
        int(event.get("batch_size") or 1),
    )


def withholds_content(start: RunStart) -> bool:
    """Whether a run's metadata ``otelchain.capture`` or a tag of that name says no.

    Letter case, ``_`` for the dot and ``:`` for the equals sign do not matter. Anything but true
    means no: a switch for privacy that is misspelt must not stand open.
    """
    for key, value in start.metadata.items():
        if type(key) is str and (word := _switch(key)) and not _is_open(word[0], value):
            return True
    for tag in start.tags:
        if type(tag) is str and (word := _switch(tag)) and not _is_open(*word):
            return True
    return False


@lru_cache(maxsize=4_096)
def _switch(text: str) -> tuple[str, str] | None:
    """Tell what looks like the switch: its word, and what stands behind it."""
    found = _SWITCH.fullmatch(text) if len(text) <= _MAX_SWITCH_CHARS else None
    return (found[1], found[2]) if found else None


def _is_open(word: str, answer: Any) -> bool:
    said = str(answer).strip().lower() if isinstance(answer, (str, bool)) else ""
    if _SWITCH_WORD.fullmatch(word) and said in ("true", "false"):
        return said == "true"
    _warn_of_switch()
    return False


@lru_cache(maxsize=1)
def _warn_of_switch() -> None:
    # Not what is written there, which may be content.
    _log.warning(
        "a tag or metadata that looks like otelchain.capture=false is not understood; "
        "the content of its run is not recorded"
    )


def _serialized_name(serialized: Mapping[str, Any] | None) -> str | None:
    if not serialized:
        return None
    path = serialized.get("id")
    last = path[-1] if isinstance(path, (list, tuple)) and path else None
    name = serialized.get("name") or last
    return name if isinstance(name, str) else None


def span_kind(start: RunStart) -> SpanKind:
    """CLIENT for what calls out to a model or an index (GenAI spans), INTERNAL for the rest."""
    return SpanKind.CLIENT if start.run_type in _CLIENT_TYPES else SpanKind.INTERNAL


def start_attributes(start: RunStart, gate: ContentGate) -> Attributes:
    """Everything known at the start that is no payload."""
    attributes = {names.RUN_ID: str(start.run_id), **_known_facts(start, gate)}
    if start.parent_run_id is not None:
        attributes[names.RUN_PARENT_ID] = str(start.parent_run_id)
    return attributes


def _known_facts(start: RunStart, gate: ContentGate) -> Attributes:
    """Remember the facts by what they are made of: a runnable starts again and again.

    Saves 2 µs of a step's start and 10 of a model's. `marshal` writes the plain types that it
    takes exactly, so what is written alike has the same facts.
    """
    # All that `_facts` looks at. Not the tools, which may be long and are no facts.
    root, parameters = start.parent_run_id is None, start.parameters
    if parameters and any(map(parameters.__contains__, model_facts.TOOLS)):
        parameters = {key: parameters[key] for key in parameters if key not in model_facts.TOOLS}
    told: Any = (start.tags or None, start.metadata or None, parameters or None)
    try:
        key = marshal.dumps((start.run_type, start.name, root, *told), _MARSHAL_VERSION)
    except ValueError:  # something else is in there, a tool or a schema class for example
        return _facts(start, gate)
    known = gate.start_facts.get(key)
    if known is None:
        before = gate.redactor.passes_with_findings
        known = _facts(start, gate)
        # What the redactor has to say is said, and counted, each time.
        if len(key) <= _MAX_KEY_BYTES and gate.redactor.passes_with_findings == before:
            if len(gate.start_facts) >= _FACTS_KEPT:
                gate.start_facts.clear()
            gate.start_facts[key] = known
    return known


def _facts(start: RunStart, gate: ContentGate) -> Attributes:
    attributes: Attributes = {names.RUN_TYPE: start.run_type}
    attributes.update(gate.facts(_chosen_by_user(start, gate)))
    if start.tags:
        attributes.update(_tags(start.tags, gate))
    if start.metadata:
        attributes.update(_langgraph(start.metadata, gate))
        attributes.update(_metadata(start.metadata, gate))
    return attributes


def span_name(attributes: Attributes) -> str:
    """Follow the GenAI conventions: ``{operation} {model or tool or agent}``, else the run's name.

    Reads the attributes of `start_attributes`, so the name is redacted as they are.
    """
    operation = attributes.get(names.GEN_AI_OPERATION_NAME)
    name = attributes[names.RUN_NAME]
    if operation is None or operation == "invoke_workflow":
        return str(name)
    return f"{operation} {attributes.get(names.GEN_AI_REQUEST_MODEL) or name}"


def _chosen_by_user(start: RunStart, gate: ContentGate) -> dict[str, Any]:
    """Names and ids that the application chose; they pass the redactor."""
    chosen: dict[str, Any] = {names.RUN_NAME: start.name}
    chosen.update(_operation(start, gate))
    if start.metadata:
        chosen.update(_people_and_threads(start.metadata, gate))
    return chosen


def _people_and_threads(metadata: Mapping[str, Any], gate: ContentGate) -> dict[str, Any]:
    found: dict[str, Any] = {}
    session = _first_text(gate, names.GEN_AI_CONVERSATION_ID, metadata, _SESSION_KEYS)
    if session:
        found[names.GEN_AI_CONVERSATION_ID] = session
    if "langgraph_node" not in metadata and metadata.get("thread_id") is not None:
        # A top-level graph's; the conversation above may be called otherwise.
        found[names.LANGGRAPH_THREAD_ID] = _text(
            gate, names.LANGGRAPH_THREAD_ID, metadata["thread_id"]
        )
    user = _first_text(gate, names.USER_ID, metadata, ("user_id",))
    if user:
        found[names.USER_ID] = user
    return found


def _operation(start: RunStart, gate: ContentGate) -> dict[str, Any]:
    agent = _first_text(gate, names.GEN_AI_AGENT_NAME, start.metadata, ("lc_agent_name",))
    found: dict[str, Any] = {names.GEN_AI_AGENT_NAME: agent} if agent else {}
    operation = _OPERATIONS.get(start.run_type)
    if operation is None:
        # create_agent announces its agents in lc_agent_name; no run is an agent by its name alone.
        if start.run_type == "chain" and agent and start.name == agent:
            operation = "invoke_agent"
        elif start.run_type == "chain" and start.parent_run_id is None:
            operation = "invoke_workflow"
            found[names.GEN_AI_WORKFLOW_NAME] = start.name
    if operation:
        found[names.GEN_AI_OPERATION_NAME] = operation
    if start.run_type == "tool":
        found[names.GEN_AI_TOOL_NAME] = start.name
        found[names.GEN_AI_TOOL_TYPE] = "function"
    if start.run_type in _MODEL_TYPES:
        found.update(_model(start))
    elif start.run_type == "retriever":
        found.update(retrieval_facts.request(start.metadata))
    elif start.run_type == "prompt":
        found.update(prompt_facts.identity(start.metadata))
    return found


def _model(start: RunStart) -> dict[str, Any]:
    found: dict[str, Any] = dict(model_facts.request(start.metadata, start.parameters))
    provider = model_facts.provider(start.metadata)
    if provider:
        found[names.GEN_AI_PROVIDER_NAME] = provider
    model = model_facts.model(start.metadata, start.parameters)
    if model:
        found[names.GEN_AI_REQUEST_MODEL] = model
    return found


def _langgraph(metadata: Mapping[str, Any], gate: ContentGate) -> Attributes:
    """LangGraph's own fields, needed to rebuild a trajectory; all content-free."""
    found: Attributes = {}
    if metadata.get("checkpoint_id"):  # on a top-level run: time travel
        found[names.LANGGRAPH_CHECKPOINT_ID] = gate.fact(
            names.LANGGRAPH_CHECKPOINT_ID, metadata["checkpoint_id"]
        )
    node = metadata.get("langgraph_node")
    if node is None:
        return found
    found[names.LANGGRAPH_NODE] = gate.fact(names.LANGGRAPH_NODE, node)
    step = metadata.get("langgraph_step")
    if isinstance(step, int) and abs(step) < 2**63:
        found[names.LANGGRAPH_STEP] = step
    found.update(gate.fact_json(names.LANGGRAPH_PATH, metadata.get("langgraph_path") or ()))
    triggers = metadata.get("langgraph_triggers")
    several = triggers if isinstance(triggers, (list, tuple, set)) else ()
    found[names.LANGGRAPH_TRIGGERS] = [gate.fact(names.LANGGRAPH_TRIGGERS, one) for one in several]
    found[names.LANGGRAPH_CHECKPOINT_NS] = gate.fact(
        names.LANGGRAPH_CHECKPOINT_NS,
        metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or "",
    )
    return found


def _tags(given: Sequence[Any], gate: ContentGate) -> Attributes:
    tags = [tag if type(tag) is str else _tag_text(tag, gate) for tag in given]
    shown = gate.shows(names.TAGS)
    kept = [tag for tag in tags if shown or tag.startswith(_OWN_TAGS)]
    if not kept:
        found: Attributes = {}
    elif shown:
        found = gate.texts(names.TAGS, kept)
    else:
        found = gate.facts({names.TAGS: kept})
    for tag in tags:
        number = tag.removeprefix(_RETRY_TAG)
        if number != tag and number.isdecimal() and len(number) < 10:
            found[names.RETRY_ATTEMPT] = int(number)
    return found


def _metadata(metadata: Mapping[str, Any], gate: ContentGate) -> Attributes:
    """What no other attribute holds; without content capture, only what LangChain wrote itself."""
    shown = gate.shows(names.METADATA)
    kept = {
        key: value
        for key, value in metadata.items()
        if key not in _LANGGRAPH_KEYS and (key in _OWN_METADATA or shown)
    }
    return gate.fact_json(names.METADATA, kept, content=shown) if kept else {}


def _tag_text(tag: Any, gate: ContentGate) -> str:
    return str(snapshot(tag, _MAX_TAG_BYTES, gate.redactor.beginning).tree)


def _first_text(
    gate: ContentGate, attribute: str, metadata: Mapping[str, Any], keys: Sequence[str]
) -> str | None:
    for key in keys:
        value = metadata.get(key)
        if value is not None and value != "":
            return _text(gate, attribute, value)
    return None


def _text(gate: ContentGate, attribute: str, value: Any) -> str:
    return value if type(value) is str else gate.fact(attribute, value)
