"""What has failed elsewhere in public, what the collector does instead, and the tests that show it.

A test claims failures with ``@pytest.mark.failure("id", …)``; the table of collector/FAILURES.md is
made from that; test_known_failures.py fails when one has no test.
"""

from typing import NamedTuple

from claims import claims


class Failure(NamedTuple):
    """A way in which a trace store or collector has failed.

    Attributes:
        id: What tests name.
        what: The failure.
        where: Public issues that tell of it, as ``owner/repository#number``, or a file.
        here: What the collector does.
    """

    id: str
    what: str
    where: tuple[str, ...]
    here: str


FAILURES = (
    Failure(
        "locked-file",
        "A second process cannot open the file, or a reader keeps the writer out",
        (
            "duckdb/duckdb#17158",
            "duckdb/duckdb#13558",
            "motherduckdb/metabase_duckdb_driver#38",
            "frappe/builder#644",
        ),
        "Commands ask the collector that has the file; a collector waits 3 s for a reader to "
        "finish; whoever still holds the file is named with its PID",
    ),
    Failure(
        "file-growth",
        "The file grows although rows are deleted",
        (
            "duckdb/duckdb#16148",
            "duckdb/duckdb#12286",
            "duckdb/duckdb#14124",
            "Giorgi/DuckDB.NET#276",
            "duckdb/dbt-duckdb#139",
        ),
        "Whole stretches are deleted and their room is used again; the size limit counts live "
        "blocks; `otelchain compact` makes the file small",
    ),
    Failure(
        "damaged-log",
        "A damaged write-ahead log ends every start",
        ("norrietaylor/distillery#647", "gizmodata/gizmosql#53", "PascaleBeier/hitkeep#259"),
        "What is whole is kept, the log is laid aside, the loss is counted and told",
    ),
    Failure(
        "replay-after-schema-change",
        "The log cannot be replayed after a change of the schema",
        (
            "duckdb/duckdb#18732",
            "duckdb/duckdb#22044",
            "duckdb/duckdb#19712",
            "duckdb/duckdb#25510",
        ),
        "A checkpoint follows the migrations at once; nothing changes the schema later",
    ),
    Failure(
        "key-index",
        "A key index is written whole with every checkpoint, or is wrong after an upsert",
        ("duckdb/duckdb#24848", "duckdb/duckdb#23645"),
        "No table of records has an index or a key; records are added, never updated",
    ),
    Failure(
        "duplicate-in-one-statement",
        "A duplicate inside one statement is not noticed",
        ("duckdb/duckdb#8147",),
        "A request is compared with itself before it is compared with the store",
    ),
    Failure(
        "out-of-memory",
        "DuckDB takes 80 % of the host, is killed, or refuses everything from then on",
        (
            "octelium/octelium#84",
            "glassflow/tares#28",
            "duckdb/duckdb#10515",
        ),
        "The limit comes from the container; senders are told to try again; after a fatal error "
        "the file is opened again without a restart",
    ),
    Failure(
        "parallel-loads",
        "The server dies, or commits collide, when several clients load at once",
        (
            "duckdb/duckdb-quack#172",
            "duckdb/ducklake#1094",
            "duckdb/ducklake#1283",
            "duckdb/ducklake#1311",
            "duckdb/ducklake#233",
        ),
        "One thread commits for all clients; questions cannot write",
    ),
    Failure(
        "shared-connection",
        "Threads that share a connection get each other's answers or errors",
        ("duckdb/duckdb#13498",),
        "Each question has a connection of its own",
    ),
    Failure(
        "acknowledged-then-dropped",
        "What was acknowledged is lost by an error behind the queue, a shutdown or a crash",
        (
            "open-telemetry/opentelemetry-collector#12443",
            "open-telemetry/opentelemetry-collector#7460",
            "open-telemetry/opentelemetry-collector#12647",
            "open-telemetry/opentelemetry-collector#13853",
            "open-telemetry/opentelemetry-collector-contrib#37843",
        ),
        "The answer comes after the commit; SIGTERM finishes what is open",
    ),
    Failure(
        "queue-without-bound",
        "Success is answered early, and the queue grows until memory is gone",
        ("Arize-ai/phoenix#2808", "Arize-ai/phoenix#9461", "Arize-ai/phoenix#3949"),
        "The queue is bounded in bytes, and a full one says when to come again",
    ),
    Failure(
        "timeout-duplicates",
        "A client that gave up waiting sends again, and everything is there twice",
        (
            "open-telemetry/opentelemetry-collector#11056",
            "census-instrumentation/opencensus-specs#119",
        ),
        "A resend is recognised, also after a restart, and stored once",
    ),
    Failure(
        "double-sums",
        "Sums kept at insert count resends for ever; spans without an id get a random one",
        ("jain-aanchal/ai-tally#410",),
        "Sums are made from stored spans when somebody asks; a span without an id is rejected",
    ),
    Failure(
        "poisoned-batch",
        "One span that is stored already costs the new ones beside it",
        ("CtrlSpice/otel-desktop-viewer (spans.go)",),
        "Only the known span is left out",
    ),
    Failure(
        "wrong-retry-code",
        "Clients do not agree on what RESOURCE_EXHAUSTED means, and drop data or try for ever",
        (
            "open-telemetry/opentelemetry-collector#1123",
            "open-telemetry/opentelemetry-go#4661",
            "open-telemetry/opentelemetry-rust#3081",
        ),
        "UNAVAILABLE with a delay for load; RESOURCE_EXHAUSTED for what is too large, only",
    ),
    Failure(
        "gzip-bomb",
        "The limit counts compressed bytes, and a small request fills the memory",
        (
            "open-telemetry/opentelemetry-collector-contrib#48697",
            "open-telemetry/opentelemetry-collector-contrib#43605",
            "prometheus/prometheus#18408",
            "langfuse/langfuse#16487",
        ),
        "Decompression stops at the limit; what is in a request is counted before it is decoded",
    ),
    Failure(
        "gzip-refused",
        "Compressed requests, which stock collectors send, are refused or misread",
        (
            "NOFireAI/ravel#115",
            "pinpoint-apm/pinpoint#14065",
            "open-telemetry/opentelemetry-collector#1581",
        ),
        "gzip (several members too) and deflate are read over both transports",
    ),
    Failure(
        "broken-utf-8",
        "Text cut inside a character costs the whole batch and blocks what comes after",
        (
            "open-telemetry/opentelemetry-proto#426",
            "open-telemetry/opentelemetry-java#4740",
            "datadog-labs/trajectory#77",
            "mulgadc/predastore#55",
        ),
        "It costs its own record, with a reason; our handler cuts between characters",
    ),
    Failure(
        "lone-surrogate",
        "Half a surrogate pair in a model's text fails the insert of the batch",
        ("latitude-dev/latitude-llm#4220",),
        "It becomes U+FFFD",
    ),
    Failure(
        "bad-ids",
        "An id of zeros or of another length ends the process, hides traces or costs the batch",
        (
            "grafana/tempo#4573",
            "jaegertracing/jaeger#9019",
            "open-telemetry/opentelemetry-operator#1858",
        ),
        "That span is rejected alone: a partial success",
    ),
    Failure(
        "huge-attribute",
        "A prompt of megabytes costs memory, is cut, or costs unrelated spans of its batch",
        (
            "grafana/tempo#3985",
            "grafana/tempo#5156",
            "grafana/tempo#2908",
            "langfuse/langfuse#4940",
            "bbvch-ai/aihub-core#1795",
            "DataDog/dd-trace-py#13260",
        ),
        "The value is cut alone beyond 8 MiB, with its size and SHA-256",
    ),
    Failure(
        "clock-skew",
        "Corrected clocks make negative durations and hide what was sent",
        (
            "jaegertracing/jaeger#8167",
            "jaegertracing/jaeger#1459",
            "jaegertracing/jaeger#961",
            "jaegertracing/jaeger#2053",
        ),
        "Times are stored and shown as they were sent",
    ),
    Failure(
        "strange-trees",
        "Cycles of parents hide spans or hang the page; orphans are dropped or end it",
        (
            "CtrlSpice/otel-desktop-viewer#379",
            "comet-ml/opik#5963",
            "PostHog/posthog#44418",
            "metrico/qryn-view#129",
        ),
        "Every span is shown once: orphans and cycles begin a tree of their own and say so",
    ),
    Failure(
        "times-out-of-range",
        "A time beyond the range costs the whole batch",
        ("apache/skywalking#8514", "influxdata/influxdb#3369"),
        "It costs its own record",
    ),
    Failure(
        "conflicting-keys",
        "`a` and `a.b`, one key with two types, equal keys of span and resource collide",
        (
            "opensearch-project/data-prepper#5616",
            "open-telemetry/opentelemetry-collector-contrib#39304",
            "openobserve/openobserve#12448",
            "openobserve/openobserve#2693",
        ),
        "Span, event, scope and resource have a JSON object each, whose keys keep their dots",
    ),
    Failure(
        "lost-value-types",
        "Booleans are dropped, maps are stored empty",
        (
            "SigNoz/signoz-otel-collector#209",
            "open-telemetry/opentelemetry-collector-contrib#47582",
        ),
        "Every kind of value arrives exactly, the empty one too",
    ),
    Failure(
        "stored-scripts",
        "Names of spans and services run as scripts in the page that shows them",
        (
            "openzipkin/zipkin#2359",
            "openzipkin/zipkin#1623",
            "openzipkin/zipkin#1382",
            "NEXARA-oss/PulseStack#151",
        ),
        "The collector has no page; what notebooks and Markdown show is escaped, and terminals get "
        "no control characters",
    ),
    Failure(
        "slow-clients",
        "A client that sends a byte a second holds a thread",
        ("open-telemetry/opentelemetry-collector#10469", "opendatahub-io/agentic-ci#191"),
        "A request has 30 s to arrive, and connections are bounded",
    ),
    Failure(
        "page-for-success",
        "A wrong path is answered 200 with a page, and the exporter believes it",
        ("langwatch/langwatch#6822",),
        "404 with a status; the doubled path of a common mistake works",
    ),
    Failure(
        "hungry-reads",
        "A large question holds up the page and what arrives",
        ("Arize-ai/phoenix#11873",),
        "Questions have threads, time, rows and memory of their own, and are stopped",
    ),
)


def failures_table() -> str:
    """Write the table of collector/FAILURES.md."""
    tests = claims("failure")
    lines = ["| what failed | here | tests |", "| --- | --- | --- |"]
    for failure in FAILURES:
        names = "<br>".join(f"`{name}`" for name in tests[failure.id]) or "**no test**"
        where = ", ".join(failure.where)
        lines.append(f"| {failure.what} ({where}) | {failure.here} | {names} |")
    return "\n".join(lines) + "\n"
