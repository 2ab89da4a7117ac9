"""Stores that are harder to question than usual ones, made of rows that no application sent.

All of their spans lie in one hour of the last day, so that no time narrows a question.
"""

from pathlib import Path
from typing import Final

import duckdb

from otelchain_collector.database import STORAGE_VERSION
from otelchain_collector.schema import migrate

_BATCH: Final = 1_000_000
_HOUR_NANOS: Final = 3_600 * 10**9

# What differs between the shapes: how many runs a trace has, and what the run of a number is. The
# first run of a trace is its root, every tenth a step below it, the others stand below the steps.
SHAPES: Final = {
    # One trace of a million runs, and nine million runs in traces of a thousand.
    "one-trace": {
        "trace": "if(number < 1_000_000, 0, number // 1_000)",
        "place": "if(number < 1_000_000, number, number % 1_000)",
        "type": "['chain', 'llm', 'tool', 'retriever'][number % 4 + 1]",
        "failed": "luck % 20 = 3",
        "attempt": "NULL",
    },
    # Chats of one service, of which every turn is one call of a model.
    "model-runs": {
        "trace": "number",
        "place": "0",
        "type": "'llm'",
        "failed": "luck % 50 = 3",
        "attempt": "NULL",
    },
    # An outage: a third of the runs failed, most of them again and again.
    "failures": {
        "trace": "number // 40",
        "place": "number % 40",
        "type": "['chain', 'tool', 'retriever', 'llm'][number // 10 % 4 + 1]",
        "failed": "luck % 3 = 0",
        "attempt": "nullif(number % 10, 0)",
    },
}

_INSERT: Final = """
INSERT INTO spans BY NAME
WITH numbered AS (
    SELECT number, (hash(number) % 1_000_000)::BIGINT AS luck
    FROM range({first}, {last}) AS all_of(number)
),
placed AS (
    SELECT
        *,
        {trace} AS trace,
        {place} AS place,
        {type} AS run_type,
        {failed} AS failed,
        run_type || ' ' || number // 10 % 20 AS step
    FROM numbered
),
runs AS (
    SELECT
        *,
        CASE WHEN place = 0 THEN NULL WHEN place % 10 = 0 THEN 0 ELSE place - place % 10 END
            AS parent_place,
        {end}::BIGINT + (number * ({hour}::DOUBLE / {spans}))::BIGINT AS start_time_unix_nano
    FROM placed
)
SELECT
    md5(trace::VARCHAR) AS trace_id,
    left(md5(trace || '/' || place), 16) AS span_id,
    left(md5(trace || '/' || parent_place), 16) AS parent_span_id,
    '' AS trace_state,
    0 AS flags,
    if(place = 0, 'agent', step) AS name,
    if(place = 0, 'agent', step) AS run_name,
    1 AS kind,
    start_time_unix_nano,
    start_time_unix_nano + luck * 10_000 AS end_time_unix_nano,
    if(failed, 2, 0) AS status_code,
    '' AS status_message,
    json_object(
        'otelchain.input', '{{"q": "' || luck || '", "city": "Oslo"}}', 'langgraph.thread_id', trace
    ) AS attributes,
    0 AS dropped_attributes_count,
    '[]' AS events,
    0 AS dropped_events_count,
    '[]' AS links,
    0 AS dropped_links_count,
    'otelchain' AS scope_name,
    '' AS scope_version,
    '{{}}' AS scope_attributes,
    0 AS scope_dropped_attributes_count,
    '' AS scope_schema_url,
    '{{}}' AS resource_attributes,
    0 AS resource_dropped_attributes_count,
    '' AS resource_schema_url,
    'otelchain' AS dialect,
    'shop' AS service_name,
    if(number % 2 = 0, '1.0', '1.1') AS service_version,
    if(place = 0 AND run_type = 'chain', 'agent', run_type) AS run_type,
    CASE
        WHEN failed AND luck % 7 = 0 AND place > 0 THEN 'handled_error'
        WHEN failed THEN 'error'
        WHEN luck % 100 = 1 THEN 'interrupted'
        WHEN luck % 100 = 2 THEN 'abandoned'
        ELSE 'ok'
    END AS run_status,
    if(failed, ['TimeoutError', 'KeyError', 'openai.RateLimitError'][luck % 3 + 1], NULL)
        AS error_type,
    if(failed, 'no answer within ' || luck || ' s', NULL) AS error,
    'model-' || luck % 5 AS model,
    luck % 8_000 AS input_tokens,
    luck % 500 AS output_tokens,
    luck % 8_000 + luck % 500 AS total_tokens,
    luck / 1e7 AS cost_usd,
    8_000 AS context_window,
    [if(luck % 30 = 1, 'length', 'stop')] AS finish_reasons,
    luck / 1e3 AS time_to_first_token_ms,
    'chat-' || trace // 5 AS session_id,
    'user-' || luck % 100_000 AS user_id,
    if(luck % 30 = 1, 0, 3) AS document_count,
    {attempt} AS retry_attempt,
    json_object('role', 'store manager', 'tenant', luck) AS metadata,
    if(place % 10 = 0 AND place > 0, step, NULL) AS langgraph_node,
    if(place % 10 = 0 AND place > 0, place // 10, NULL) AS langgraph_step,
    if(place % 10 = 0 AND place > 0, 'node:' || place // 10, NULL) AS langgraph_checkpoint_ns,
    luck % 1_000 AS inputs_hash,
    if(luck % 200 = 1, 'needs_revision', NULL) AS rubric_result,
    'otelchain.input' AS inputs_attribute,
    start_time_unix_nano + luck * 10_000 AS received_time_unix_nano
FROM runs
"""


def write_worst(database: Path, shape: str, spans: int, end_unix_nano: int) -> None:
    """Write a store of so many spans, the last of which start at the given time."""
    config = {"storage_compatibility_version": STORAGE_VERSION, "memory_limit": "2GB"}
    with duckdb.connect(str(database), config=config) as connection:
        migrate(connection)
        for first in range(0, spans, _BATCH):
            values = {"first": first, "last": min(first + _BATCH, spans), "spans": spans}
            times = {"hour": _HOUR_NANOS, "end": end_unix_nano - _HOUR_NANOS}
            connection.execute(_INSERT.format(**SHAPES[shape], **values, **times))
            connection.execute("CHECKPOINT")
