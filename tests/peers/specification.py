"""What the application does, worked out by hand from application.py, and where a peer says less.

A fact is a column of ``runs`` over the runs of one kind, in a fixed order. A gap says what stands
there instead, and why, read off the peer's recorded spans: NULL or a missing row where the fact was
not sent, and a value only where the peer itself states it.
"""

from typing import Any, NamedTuple

RUNS: dict[str, list[str]] = {
    "llm": ["StreamingModel", "planner", "answerer"],
    # By question, a failure before a success.
    "retriever": [
        *("first_index", "spare_index", "empty_index", "unsteady_index", "unsteady_index"),
        *("broken_index", "fine_index"),
    ],
    # By name, then by argument: 43; 42 and 44; 42; 42.
    "tool": ["broken_lookup", "fast_lookup", "fast_lookup", "slow_lookup", "strict_lookup"],
}
_LLM, _RETRIEVER, _TOOL = (len(names) for names in RUNS.values())

FACTS: dict[str, list[Any]] = {
    "llm.name": RUNS["llm"],
    "llm.status": ["ok"] * _LLM,
    "llm.model": ["fake-1-2026"] * _LLM,
    "llm.provider": ["openai"] * _LLM,
    "llm.input_tokens": [100, 200, 300],
    "llm.output_tokens": [20, 40, 60],
    "llm.total_tokens": [120, 240, 360],
    "llm.cache_read_tokens": [60, 120, 0],
    "llm.cache_write_tokens": [10, 0, 0],
    "llm.reasoning_tokens": [5, 10, 0],
    "llm.finish_reasons": [["stop"]] * _LLM,
    "llm.cost_usd": [None] * _LLM,  # nobody knows the price of a fake
    # Only the first one streams; its first token comes after 50 ms.
    "llm.first_token_after_50_ms": [True, None, None],
    "llm.session_id": ["chat-1"] * _LLM,
    "llm.user_id": ["user-1"] * _LLM,
    "llm.tagged_beta": [True] * _LLM,
    "llm.tenant": ["t1"] * _LLM,
    "llm.langgraph_node": [None, "plan", "answer"],
    "llm.input_names": ["Answer from Paris", "where is order 42?", "q must be a number"],
    "llm.output_names": ["It is Paris.", "strict_lookup", "Done."],
    "retriever.name": RUNS["retriever"],
    "retriever.status": ["error", "ok", "ok", "error", "ok", "error", "ok"],
    "retriever.error_type": [
        *("TimeoutError", None, None, "OSError", None, "ConnectionError", None),
    ],
    "retriever.error": ["no answer", None, None, "busy", None, "index is down", None],
    "retriever.document_count": [None, 2, 0, None, 1, None, 1],
    "retriever.retry_attempt": [None, None, None, None, 2, None, None],
    "retriever.session_id": ["chat-1"] * _RETRIEVER,
    "retriever.user_id": ["user-1"] * _RETRIEVER,
    "retriever.tagged_beta": [True] * _RETRIEVER,
    "tool.name": RUNS["tool"],
    "tool.status": ["error", "ok", "ok", "ok", "handled_error"],
    "tool.error_type": ["ValueError", None, None, None, None],
    "tool.error": ["no such table", None, None, None, "q must be a number"],
    "tool.tool_call_id": [
        *(None, "call-fast_lookup", None, "call-slow_lookup", "call-strict_lookup"),
    ],
    "tool.output_names": [None, "at once", "at once", "late", "q must be a number"],
    "tool.retry_attempt": [None] * _TOOL,
    "tool.asked_as_slow_lookup": [False, True, False, True, True],
    "tool.session_id": ["chat-1"] * _TOOL,
    "tool.langgraph_node": ["guess", "act", "guess", "act", "act"],
}

#: Type of every other run, by name; a gap is a set of pairs.
RUN_TYPES = {
    **dict.fromkeys(("rag", "lookup", "unsteady", "branches"), "chain"),
    **dict.fromkeys(("with_spare", "with_retry", "count"), "chain"),
    **dict.fromkeys(("plan", "act", "guess", "answer"), "chain"),
    "agent_retriever_tool": "chain",  # whatever its name says
    "helpdesk": "agent",  # announced in lc_agent_name
    "ChatPromptTemplate": "prompt",
    "StrOutputParser": "parser",
}

ROOTS = ["branches", "helpdesk", "lookup", "rag", "unsteady"]

#: The three questions. Failed retrievers as (name, outcome, error type, error, query).
FAILED_RETRIEVERS = {
    ("first_index", "error", "TimeoutError", "no answer", "which capital?"),
    ("empty_index", "empty", None, None, "anything?"),
    ("unsteady_index", "error", "OSError", "busy", "again?"),
    ("broken_index", "error", "ConnectionError", "index is down", "both?"),
}
SLOW_TOOLS = {("slow_lookup", "ok")}
#: By the parent's name: its kind, and its failed, retried and succeeded children.
MIXED_PARENTS = {
    "with_spare": ("mixed", ["first_index"], [], ["spare_index"]),
    "with_retry": ("retried", [], ["unsteady_index"], ["unsteady_index"]),
    "branches": ("mixed", ["broken_index"], [], ["fine_index"]),
    "guess": ("mixed", ["broken_lookup"], [], ["fast_lookup"]),
    "act": ("mixed", ["strict_lookup"], [], ["fast_lookup", "slow_lookup"]),
}


class Gap(NamedTuple):
    """What stands in a fact's place: None for NULL in every run, or for no such run at all."""

    instead: Any
    reason: str


_REQUESTED = Gap(["fake-1"] * _LLM, "writes the model asked for, not the one that answered")
_NO_TAGS = "drops tags"
_NO_ZERO = "leaves counts of 0 out"
_NO_METADATA = "drops metadata, and LangGraph's fields with it"
_CHAINS_HIDDEN = "sends no chains but roots"
_NO_RETRIEVERS = "sends no retrievers"
_NAMELESS = "writes no name of a retriever"


def _pairs(types: dict[str, str], **others: str) -> set[tuple[str, str]]:
    return set({**types, **others}.items())


def _none(reason: str, *facts: str) -> dict[str, Gap]:
    return {fact: Gap(None, reason) for fact in facts}


_RETRIEVER_FACTS = [fact for fact in FACTS if fact.startswith("retriever.")]

_OTELCHAIN = {
    "tool.error": Gap(
        ["no such table", None, None, None, None], "keeps a handled error's text once, as output"
    ),
}

_OTEL_COMMON = {
    "llm.name": Gap(["fake-1"] * _LLM, "names a model's run after the model"),
    "tool.status": Gap(
        ["error", "ok", "ok", "ok", "ok"],
        "writes a handled error's text as an ordinary result, without its status",
    ),
    "tool.error": Gap(["no such table", None, None, None, None], "the same"),
    **_none("writes no user", "llm.user_id", "retriever.user_id"),
    **_none(_NO_TAGS, "llm.tagged_beta", "retriever.tagged_beta", "retriever.retry_attempt"),
    **_none(_NO_METADATA, "llm.tenant", "llm.langgraph_node", "tool.langgraph_node"),
    **_none("writes it on models and workflows only", "retriever.session_id", "tool.session_id"),
}

_OTEL_1_3 = {
    **_OTEL_COMMON,
    "llm.name": Gap(["fake-1-2026"] * _LLM, "names a model's run after the model"),
    "retriever.name": Gap(["retrieval"] * _RETRIEVER, _NAMELESS),
    "llm.cache_read_tokens": Gap([60, 120, None], _NO_ZERO),
    "llm.cache_write_tokens": Gap([10, None, None], _NO_ZERO),
    "llm.reasoning_tokens": Gap([5, 10, None], _NO_ZERO),
    "run_types": Gap(
        _pairs(dict.fromkeys([*ROOTS], "chain"), agent_retriever_tool="agent"),
        f'{_CHAINS_HIDDEN}, and calls one with "agent" in its name an agent, as it does real ones',
    ),
    "failed_retrievers": Gap(
        {("retrieval", *rest) for _, *rest in FAILED_RETRIEVERS},
        _NAMELESS,
    ),
    "mixed_parents": Gap(
        {
            "rag": (
                *("mixed", ["retrieval"], []),
                ["agent_retriever_tool", "fake-1-2026", "retrieval"],
            ),
            "unsteady": ("mixed", ["retrieval"], [], ["retrieval"]),
            "branches": ("mixed", ["retrieval"], [], ["retrieval"]),
            "helpdesk": (
                *("mixed", ["broken_lookup"], []),
                [
                    *("fake-1-2026", "fake-1-2026", "fast_lookup", "fast_lookup"),
                    *("slow_lookup", "strict_lookup"),
                ],
            ),
        },
        f"{_CHAINS_HIDDEN}, so children hang under the root; {_NO_TAGS}, so a retry is unmarked",
    ),
}

_OTEL_1_0 = {
    **_OTEL_COMMON,
    **_none(_NO_RETRIEVERS, *_RETRIEVER_FACTS),
    **_none(
        "does not write it yet",
        "llm.finish_reasons",
        *("llm.cache_read_tokens", "llm.cache_write_tokens", "llm.reasoning_tokens"),
        *("llm.first_token_after_50_ms", "llm.session_id"),
    ),
    "llm.model": _REQUESTED,
    "llm.output_names": Gap(
        ["It is Paris.", None, "Done."], "writes no tool calls of a model's answer"
    ),
    "tool.output_names": Gap(
        [None, "at once", None, "late", "q must be a number"],
        "writes no result that is not a message",
    ),
    "roots": Gap(
        ["branches", "fake-1", "lookup", "rag", "unsteady"],
        "its root of the graph fails to end; what is below hangs under a span that never comes",
    ),
    "run_types": Gap(
        _pairs(dict.fromkeys(("rag", "lookup", "unsteady", "branches"), "chain")),
        _CHAINS_HIDDEN,
    ),
    "failed_retrievers": Gap(set(), _NO_RETRIEVERS),
    "mixed_parents": Gap(
        {
            None: (
                *("mixed", ["broken_lookup"], []),
                [
                    *("fake-1", "fake-1", "fast_lookup", "fast_lookup"),
                    *("slow_lookup", "strict_lookup"),
                ],
            )
        },
        f"{_CHAINS_HIDDEN}; the parent is the root that never comes, and has no name",
    ),
}

_OPENINFERENCE = {
    **_none("writes no time to the first token", "llm.first_token_after_50_ms"),
    **_none(_NO_TAGS, "llm.tagged_beta", "retriever.tagged_beta", "retriever.retry_attempt"),
    "run_types": Gap(_pairs(RUN_TYPES, StrOutputParser="chain"), "has no kind for parsers"),
    "mixed_parents": Gap(
        {
            **MIXED_PARENTS,
            "with_retry": ("mixed", ["unsteady_index"], [], ["unsteady_index"]),
        },
        f"{_NO_TAGS}, so a retry is unmarked",
    ),
}

_OPENLLMETRY = {
    "llm.name": Gap(["StreamingModel", "Model", "Model"], "writes a model's class for its name"),
    "llm.model": _REQUESTED,
    **_none("writes no time to the first token", "llm.first_token_after_50_ms"),
    **_none("writes no reasoning tokens", "llm.reasoning_tokens"),
    **_none("writes no finish reason", "llm.finish_reasons"),
    **_none("writes no tags of a model", "llm.tagged_beta"),
    "run_types": Gap(
        _pairs(RUN_TYPES, ChatPromptTemplate="chain", StrOutputParser="chain")
        | {("helpdesk", "chain")},
        "has one kind for chains, prompts and parsers, and wraps a graph into an agent of its name",
    ),
}

_OPENLLMETRY_OLD = {
    **_OPENLLMETRY,
    **_none(_NO_RETRIEVERS, *_RETRIEVER_FACTS),
    **_none("writes no tokens written to a cache", "llm.cache_write_tokens"),
    **_none("writes metadata on chains and models only", "tool.session_id", "tool.langgraph_node"),
    "llm.output_names": Gap(
        ["It is Paris.", None, "Done."], "writes no tool calls of a model's answer"
    ),
    "run_types": Gap(
        _pairs(
            RUN_TYPES,
            ChatPromptTemplate="chain",
            StrOutputParser="chain",
            helpdesk="chain",
        ),
        "has one kind for chains, prompts, parsers and agents",
    ),
    "failed_retrievers": Gap(set(), _NO_RETRIEVERS),
    "mixed_parents": Gap({name: MIXED_PARENTS[name] for name in ("guess", "act")}, _NO_RETRIEVERS),
}

_LANGFUSE = {
    "llm.model": _REQUESTED,
    **_none("writes no type of an error", "retriever.error_type", "tool.error_type"),
    **_none("writes no finish reason", "llm.finish_reasons"),
    "run_types": Gap(
        _pairs(
            RUN_TYPES,
            ChatPromptTemplate="chain",
            StrOutputParser="chain",
            agent_retriever_tool="agent",
        ),
        'has one kind for chains, prompts and parsers, and calls one with "agent" in its name an '
        "agent, as its SDK does real ones",
    ),
    "failed_retrievers": Gap(
        {(name, outcome, None, *rest) for name, outcome, _, *rest in FAILED_RETRIEVERS},
        "writes no type of an error",
    ),
}

_LANGSMITH = {
    **_none("writes no time to the first token", "llm.first_token_after_50_ms"),
}

_LANGSMITH_OLD = {
    **_LANGSMITH,
    "run_types": Gap(_pairs(RUN_TYPES, helpdesk="chain"), "lc_agent_name is not on its spans"),
}

_OPENLIT = {
    "llm.name": Gap(["fake-1"] * _LLM, "names a model's run after the model"),
    "llm.model": _REQUESTED,
    **_none("writes langchain for the provider", "llm.provider"),
    **_none("writes no reasoning tokens", "llm.reasoning_tokens"),
    **_none("writes no user", "llm.user_id", "retriever.user_id"),
    **_none(_NO_TAGS, "llm.tagged_beta", "retriever.tagged_beta", "retriever.retry_attempt"),
    **_none("writes nodes on graph spans only", "llm.langgraph_node", "tool.langgraph_node"),
    **_none(_NO_METADATA, "llm.tenant"),
    "roots": Gap(
        [*ROOTS[:1], "default", *ROOTS[1:]], "sends the compiling of a graph as a trace of its own"
    ),
    "run_types": Gap(
        _pairs(
            dict.fromkeys((*ROOTS, "plan", "act", "guess", "answer"), "chain"),
            agent_retriever_tool="chain",
        )
        | {("default", None)},
        f'{_CHAINS_HIDDEN}, nodes and those with "agent" in their name',
    ),
    "mixed_parents": Gap(
        {
            "rag": (
                *("mixed", ["first_index"], []),
                ["agent_retriever_tool", "fake-1", "spare_index"],
            ),
            "unsteady": ("mixed", ["unsteady_index"], [], ["unsteady_index"]),
            **{name: MIXED_PARENTS[name] for name in ("branches", "guess", "act")},
        },
        f"{_CHAINS_HIDDEN}, so children hang under the root; {_NO_TAGS}, so a retry is unmarked",
    ),
}

GAPS: dict[str, dict[str, Gap]] = {
    "otelchain": _OTELCHAIN,
    "otel-genai-1.3b0": _OTEL_1_3,
    "otel-genai-1.0b0": _OTEL_1_0,
    "openinference-0.1.80": _OPENINFERENCE,
    "openinference-0.1.80-genai": _OPENINFERENCE,
    "openllmetry-0.62.4": _OPENLLMETRY,
    "openllmetry-0.47.5": _OPENLLMETRY_OLD,
    "langfuse-5.0.4": _LANGFUSE,
    "langsmith-0.15.1": _LANGSMITH,
    "langsmith-0.4.37": _LANGSMITH_OLD,
    "openlit-1.45.0": _OPENLIT,
}


def expected(peer: str, fact: str, whole: Any) -> Any:
    """Return what a peer's recording must give where the application gives ``whole``."""
    gap = GAPS[peer].get(fact)
    if gap is None:
        return whole
    if gap.instead is None:
        kind = fact.partition(".")[0]
        missing = gap.reason == _NO_RETRIEVERS
        return [] if missing else [None] * len(RUNS[kind])
    return gap.instead
