"""Where a text stands: the words in which a policy says where a rule applies.

A place is told from the key of the attribute; the keys are those of otelchain, of OpenTelemetry's
GenAI conventions, OpenInference, OpenLLMetry and Langfuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

FACTS, OTHER = "facts", "other"

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "inputs": "what a run was given: messages, tool arguments, queries, prompt variables",
        "outputs": "what a run gave back: messages, tool results",
        "documents": "what a retriever or reranker found",
        "prompts": "templates, system instructions, tool definitions, stop sequences",
        "errors": "error messages, stack traces, status messages",
        "metadata": "metadata of a run",
        "tags": "tags of a run",
        "events": "what the application's own span events carry",
        FACTS: "what is no content: names, ids, models, counts",
        "resource": "attributes of the resource (in the collector)",
        "scope": "name and attributes of the scope (in the collector)",
        OTHER: "every other attribute",
    }
)
"""Names for ``places`` in a rule, and what each covers."""

CONTENT = tuple(name for name in PLACES if name not in (FACTS, "resource", "scope"))
"""Places that may hold what users and models wrote."""

# First the facts whose names begin as content does; then the first place that has the key.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        FACTS: "gen_ai.prompt.name gen_ai.prompt.version llm.prompt_template.version "
        "metadata.ls_* retrieval.documents.*.document.id retrieval.documents.*.document.score",
        "inputs": "otelchain.input gen_ai.input.messages gen_ai.tool.call.arguments gen_ai.prompt "
        "gen_ai.prompt.* gen_ai.retrieval.query.text gen_ai.memory.query.text input.value "
        "llm.input_messages* llm.prompts* llm.prompt_template.variables tool.parameters "
        "traceloop.entity.input langfuse.*.input otelchain.interrupt.value",
        "outputs": "otelchain.output gen_ai.output.messages gen_ai.tool.call.result "
        "gen_ai.completion* output.value llm.output_messages* llm.completions* "
        "traceloop.entity.output langfuse.*.output otelchain.rubric.explanation "
        "otelchain.rubric.criteria",
        "documents": "gen_ai.retrieval.documents gen_ai.memory.records retrieval.documents* "
        "reranker.*documents* otelchain.rerank.input_documents",
        "prompts": "otelchain.prompt.template gen_ai.system_instructions gen_ai.tool.definitions "
        "gen_ai.tool.description gen_ai.request.stop_sequences llm.prompt_template.template "
        "llm.tools* llm.request.functions* llm.invocation_parameters tool.description",
        "errors": "exception.message exception.stacktrace error.message status.message "
        "gen_ai.framework.error.message langfuse.observation.status_message",
        "metadata": "otelchain.metadata metadata metadata.* traceloop.association.properties.* "
        "langfuse.*metadata*",
        "tags": "otelchain.tags tag.tags langfuse.trace.tags",
        "events": "otelchain.event.data",
    }
)
# Keys that are known to hold no content, for spans that another instrumentation wrote.
_FACT_KEYS = (
    "gen_ai.agent.* gen_ai.conversation.id gen_ai.data_source.id gen_ai.embeddings.* "
    "gen_ai.operation.name gen_ai.output.type gen_ai.provider.name gen_ai.request.* "
    "gen_ai.response.* gen_ai.retrieval.top_k gen_ai.system gen_ai.tool.call.id gen_ai.tool.name "
    "gen_ai.tool.type gen_ai.usage.* gen_ai.workflow.name otelchain.* langgraph.* "
    "openinference.span.kind llm.model_name llm.provider llm.system llm.token_count.* llm.usage.* "
    "llm.request.type llm.is_streaming embedding.model_name tool.name tool.id agent.name "
    "session.id user.id traceloop.span.kind traceloop.entity.name traceloop.entity.path "
    "traceloop.workflow.name langfuse.observation.type langfuse.observation.level "
    "langfuse.observation.model.name langfuse.*.name langfuse.session.id langfuse.user.id "
    "error.type exception.type exception.escaped http.request.method http.response.status_code "
    "http.route http.method http.status_code rpc.* db.system* db.operation* db.collection.name "
    "server.address server.port network.* thread.* code.* mcp.method.name mcp.session.id "
    "input.mime_type output.mime_type span.name"
)


class Place(NamedTuple):
    """Where a text stands.

    Attributes:
        name: One of `PLACES`.
        key: The attribute's key; ``status.message`` and ``span.name`` for those two.
    """

    name: str
    key: str = ""


@lru_cache(maxsize=1024)
def content_place(key: str) -> Place:
    """Tell the place of an attribute that is known to be content.

    >>> content_place("otelchain.input").name, content_place("my.own").name
    ('inputs', 'other')
    """
    for name, globs in _KEYS.items():
        if name != FACTS and matches_any(globs.split(), key):
            return Place(name, key)
    return Place(OTHER, key)


@lru_cache(maxsize=1024)
def fact_place(key: str) -> Place:
    """Give the place of an attribute that is known to be no content."""
    return Place(FACTS, key)


@lru_cache(maxsize=1024)
def foreign_place(key: str) -> Place:
    """Tell the place of an attribute of which only the key is known.

    >>> foreign_place("gen_ai.request.model").name, foreign_place("input.value").name
    ('facts', 'inputs')
    """
    for name, globs in _KEYS.items():
        if matches_any(globs.split(), key):
            return Place(name, key)
    return Place(FACTS if matches_any(_FACT_KEYS.split(), key) else OTHER, key)


def matches_any(globs: Iterable[str], text: str) -> bool:
    """Tell whether a text matches one of the globs: ``*`` is any text, ``?`` one character."""
    return any(glob_pattern(glob).fullmatch(text) for glob in globs)


@lru_cache(maxsize=1024)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob; case does not matter.

    What stands between two stars is taken where it occurs first and never looked for again (a group
    that is not gone back into, in the way that Python before 3.11 knows); as ``.*secret.*key`` a
    long name of many secrets would take the square of its length.
    """
    first, *others = (
        "".join("." if char == "?" else re.escape(char) for char in part)
        for part in glob.split("*")
    )
    parts = [
        f"(?=(?P<part{number}>.*?{part}))(?P=part{number})"
        for number, part in enumerate(others[:-1])
        if part
    ]
    end = [".*", others[-1]] if others else []
    return re.compile("".join([first, *parts, *end]), re.IGNORECASE | re.DOTALL)
