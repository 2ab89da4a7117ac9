"""Ask every query of the bundle on a generated store: the last 24 hours, and everything.

    python tests/benchmarks/bench_queries.py [SPANS] [--memory 4GB] [--query NAME]

One line per query: seconds of CPU (of two threads together) and of the clock, for the last 24 hours
and for the whole store, which has 30 days; the second of two answers. The store is made once for
each number of spans and kept in the temporary folder.
"""

import argparse
import platform
import tempfile
import time
from pathlib import Path

import duckdb

import otelchain_queries
from otelchain_collector.answers import answer_query
from otelchain_collector.schema import migrate

DAYS = 30
SPANS_OF_A_TRACE = 12
BATCH_SPANS = 480_000
END_UNIX_NANO = 1_796_083_200 * 10**9

# A trace is an agent's turn: root, three graph nodes, and below them models, tools, a retriever, a
# retry, a fallback. Every number comes from the hash of the trace's, so a run can be repeated.
GENERATE = """
INSERT INTO spans BY NAME
WITH numbered AS (
    SELECT
        i,
        i // 12 AS trace,
        i % 12 AS place,
        (hash(i // 12) // 4)::BIGINT AS luck,
        (hash(i) // 4)::BIGINT AS own_luck
    FROM range({first}::BIGINT, {last}::BIGINT) AS numbers(i)
),
placed AS (
    SELECT
        *,
        [NULL, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3][place + 1] AS parent,
        ['agent', 'chain', 'chain', 'chain', 'prompt', 'llm', 'tool', 'tool', 'retriever', 'llm',
            'llm', 'tool'][place + 1] AS kind,
        ['assistant', 'plan', 'act', 'answer', 'prompt', 'gpt-4o', 'search', 'crawl', 'docs',
            'gpt-4o', 'claude', 'search'][place + 1] AS label,
        {begin}::BIGINT + trace * {trace_nanos}::BIGINT AS trace_start
    FROM numbered
),
timed AS (
    SELECT
        *,
        trace_start + place * 50_000_000 AS start,
        own_luck % 1000 AS chance
    FROM placed
)
SELECT
    format('{{:016x}}{{:016x}}', luck, trace) AS trace_id,
    format('{{:016x}}', hash(trace * 12 + place)) AS span_id,
    if(parent IS NULL, NULL, format('{{:016x}}', hash(trace * 12 + parent))) AS parent_span_id,
    '' AS trace_state, 0 AS flags, label AS name, 1 AS kind,
    start AS start_time_unix_nano,
    start + ([3e9, 8e8, 9e8, 7e8, 1e6, 6e8, 4e8, 3e8, 2e8, 5e8, 5e8, 3e8][place + 1]
        * (1 + (own_luck // 1000 % 4000) / 1000)
        * if(chance = 1, 20, 1))::BIGINT AS end_time_unix_nano,
    if(chance < 15, 2, 0) AS status_code, '' AS status_message,
    json_object(
        'otelchain.run.type', kind,
        if(kind = 'llm', 'gen_ai.input.messages', if(kind = 'tool', 'gen_ai.tool.call.arguments',
            if(kind = 'retriever', 'gen_ai.retrieval.query.text', 'otelchain.input'))),
        '{{"question": "' || repeat(md5(i::VARCHAR), 20) || '"}}',
        if(kind = 'llm', 'gen_ai.output.messages', 'otelchain.output'),
        '{{"answer": "' || repeat(md5((i + 1)::VARCHAR), 20) || '"}}'
    ) AS attributes,
    0 AS dropped_attributes_count, '[]' AS events, 0 AS dropped_events_count, '[]' AS links,
    0 AS dropped_links_count, 'otelchain' AS scope_name, '' AS scope_version,
    '{{}}' AS scope_attributes, 0 AS scope_dropped_attributes_count, '' AS scope_schema_url,
    '{{}}' AS resource_attributes, 0 AS resource_dropped_attributes_count,
    '' AS resource_schema_url, 'otelchain' AS dialect,
    ['shop', 'bank', 'support'][luck % 3 + 1] AS service_name,
    label AS run_name, kind AS run_type,
    CASE
        WHEN chance < 15 THEN 'error'
        WHEN chance < 20 AND kind = 'tool' THEN 'handled_error'
        WHEN chance < 18 THEN 'abandoned'
        ELSE 'ok'
    END AS run_status,
    if(chance < 15, ['ValueError', 'TimeoutError', 'RateLimitError'][chance % 3 + 1], NULL)
        AS error_type,
    if(chance < 15, 'it failed', NULL) AS error,
    if(kind = 'llm', label, NULL) AS model, if(kind = 'llm', 'openai', NULL) AS provider,
    if(kind = 'llm', 500 + own_luck % 9000, NULL) AS input_tokens,
    if(kind = 'llm', own_luck % 900, NULL) AS output_tokens,
    if(kind = 'llm', 500 + own_luck % 9000 + own_luck % 900, NULL) AS total_tokens,
    if(kind = 'llm', (own_luck % 900) / 1.0, NULL) AS time_to_first_token_ms,
    'chat-' || trace // 6 AS session_id, 'user-' || luck % 5000 AS user_id,
    if(kind = 'retriever', if(chance < 60, 0, 4), NULL) AS document_count,
    if(kind = 'tool' AND chance BETWEEN 20 AND 29, 2, NULL) AS retry_attempt,
    if(kind = 'retriever', '{{"ls_retriever_name": "docs", "role": "manager"}}', '{{}}')
        AS metadata,
    [NULL, 'plan', 'act', 'answer', 'plan', 'plan', 'act', 'act', 'act', 'answer', 'answer',
        'answer'][place + 1] AS langgraph_node,
    [NULL, 1, 2, 3, 1, 1, 2, 2, 2, 3, 3, 3][place + 1] AS langgraph_step,
    if(place = 0, NULL, langgraph_node || ':' || trace) AS langgraph_checkpoint_ns,
    if(kind = 'llm', 'gen_ai.input.messages', if(kind = 'tool', 'gen_ai.tool.call.arguments',
        if(kind = 'retriever', 'gen_ai.retrieval.query.text', 'otelchain.input')))
        AS inputs_attribute,
    if(kind = 'llm', 'gen_ai.output.messages', 'otelchain.output') AS outputs_attribute,
    if(kind = 'llm', (own_luck % 9000) / 1e6, NULL) AS cost_usd,
    if(kind = 'llm', 128000, NULL) AS context_window,
    if(kind = 'llm', [if(chance < 5, 'length', 'stop')], NULL) AS finish_reasons,
    '1.' || trace * 4 // {traces} AS service_version,
    if(kind IN ('tool', 'retriever'), (own_luck % 1000)::BIGINT, NULL) AS inputs_hash,
    if(place = 3 AND luck % 20 = 0, if(chance < 500, 'satisfied', 'needs_revision'), NULL)
        AS rubric_result,
    start + 6_000_000_000 AS received_time_unix_nano
FROM timed
"""


def store(spans: int) -> Path:
    """Return the file of a generated store."""
    path = Path(tempfile.gettempdir()) / f"otelchain-bench-{spans}.duckdb"
    if path.exists():
        return path
    traces = spans // SPANS_OF_A_TRACE
    half_made = path.with_suffix(".part")
    half_made.unlink(missing_ok=True)
    config = {"storage_compatibility_version": "v1.5.0", "memory_limit": "4GB"}
    with duckdb.connect(str(half_made), config=config) as connection:
        migrate(connection)
        for first in range(0, spans, BATCH_SPANS):
            connection.execute(
                GENERATE.format(
                    first=first,
                    last=min(first + BATCH_SPANS, spans),
                    begin=END_UNIX_NANO - DAYS * 86_400 * 10**9,
                    trace_nanos=DAYS * 86_400 * 10**9 // traces,
                    traces=traces,
                )
            )
            connection.execute("CHECKPOINT")
    half_made.rename(path)
    return path


def seconds(database: Path, memory: str, name: str, **values: str) -> tuple[float, float]:
    """Return the time of the second answer: of the CPU, and of the clock."""
    config = {"memory_limit": memory, "threads": "2"}
    query = otelchain_queries.load(name)
    with duckdb.connect(str(database), read_only=True, config=config) as connection:
        for _ in range(2):
            began, cpu_began = time.perf_counter(), time.process_time()
            answer_query(connection, query, values, max_seconds=600)
        return time.process_time() - cpu_began, time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spans", type=int, nargs="?", default=1_200_000)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--query", action="append")
    arguments = parser.parse_args()
    database = store(arguments.spans)
    size_mb = database.stat().st_size / 1e6
    print(
        f"{arguments.spans:,} spans, {size_mb:,.0f} MB, DuckDB {duckdb.__version__}, "
        f"2 threads, {arguments.memory}, Python {platform.python_version()}"
    )
    print(f"{'':24} {'last 24 hours':>15} {'everything':>15}")
    print(f"{'query':24} {'CPU':>7} {'clock':>7} {'CPU':>7} {'clock':>7}")
    for name in arguments.query or otelchain_queries.names():
        day = seconds(database, arguments.memory, name, since="2026-11-30T00:00:00Z")
        whole = seconds(database, arguments.memory, name)
        print(f"{name:24} {day[0]:7.2f} {day[1]:7.2f} {whole[0]:7.2f} {whole[1]:7.2f}", flush=True)


if __name__ == "__main__":
    main()
