"""The facts of specification.py as the collector stored them, for some traces."""

import re
from collections.abc import Callable, Collection
from typing import Any

from peers.specification import FACTS, RUNS

#: Asks the store one SELECT; rows are dictionaries.
Ask = Callable[[str], list[dict[str, Any]]]

_QUERIES = ("which capital?", "anything?", "again?", "both?")
_ARGUMENT = re.compile(r"\b4[234]\b")

_RUNS = """
SELECT
    name, status, model, provider, input_tokens, output_tokens, total_tokens, cache_read_tokens,
    cache_write_tokens, reasoning_tokens, session_id, user_id, error_type, error, document_count,
    retry_attempt, tool_call_id, langgraph_node, inputs, outputs,
    if(time_to_first_token_ms BETWEEN 50 AND duration_ms, true, NULL) AS first_token_after_50_ms,
    finish_reasons, cost_usd,
    inputs_hash = first(inputs_hash ORDER BY name = 'slow_lookup' DESC) OVER ()
        AS asked_as_slow_lookup,
    list_contains(tags, 'beta') AS tagged_beta,
    metadata ->> 'tenant' AS tenant
FROM runs
WHERE run_type = '{kind}' AND {chosen}
ORDER BY start_time_unix_nano
"""
_OTHER_RUNS = """
SELECT DISTINCT name, run_type FROM runs
WHERE (run_type IS NULL OR run_type NOT IN ('llm', 'retriever', 'tool')) AND {chosen}
"""


def read_facts(ask: Ask, traces: Collection[str]) -> dict[str, list[Any]]:
    """Return every fact's values, in the order of RUNS; fewer values where runs are missing."""
    runs = {kind: _runs(ask, kind, traces) for kind in RUNS}
    return {fact: [_value(fact, *place) for place in _places(fact, runs)] for fact in FACTS}


def read_run_types(ask: Ask, traces: Collection[str]) -> set[tuple[str, str]]:
    """Return name and type of the runs that are neither model nor retriever nor tool."""
    rows = ask(_OTHER_RUNS.format(chosen=_chosen(traces)))
    return {(row["name"], row["run_type"]) for row in rows}


def _runs(ask: Ask, kind: str, traces: Collection[str]) -> list[dict[str, Any]]:
    rows = ask(_RUNS.format(kind=kind, chosen=_chosen(traces)))
    if kind == "retriever":  # branches run at the same time
        rows.sort(key=lambda row: (_question(row["inputs"]), row["status"] != "error"))
    if kind == "tool":
        rows.sort(key=lambda row: (row["name"], _argument(row["inputs"])))
    return rows


def _chosen(traces: Collection[str]) -> str:
    ids = ", ".join(f"'{trace}'" for trace in sorted(traces))
    return f"trace_id IN ({ids})"


def _question(inputs: str) -> int:
    return next(place for place, query in enumerate(_QUERIES) if query in inputs)


def _argument(inputs: str) -> str:
    found = _ARGUMENT.search(inputs)
    assert found, inputs
    return found[0]


def _places(fact: str, runs: dict[str, list[dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(runs[fact.partition(".")[0]]))


def _value(fact: str, place: int, row: dict[str, Any]) -> Any:
    column = fact.partition(".")[2]
    if not column.endswith("_names"):
        return row[column]
    # A payload has the peer's own form; the fact is that it names a text.
    payload, text = row[column.removesuffix("_names") + "s"] or "", FACTS[fact][place]
    return text if text and text in payload else None
