"""Spans that real tracers sent for one application, in a real collector: the same answers.

`peers/record.py` records them, `peers/specification.py` says what must come out.
"""

import http.client
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collector_process import RunningCollector, start
from otelchain import OtelCallbackHandler
from otlp_clients import PROTOBUF, rows, send_http

pytest.importorskip("langgraph")

from peers import application
from peers.known import PEERS
from peers.reading import read_facts, read_run_types
from peers.specification import (
    FACTS,
    FAILED_RETRIEVERS,
    GAPS,
    MIXED_PARENTS,
    ROOTS,
    RUN_TYPES,
    SLOW_TOOLS,
    expected,
)

NAMES = ["otelchain", *PEERS]
HOW = ("failed", "retried", "succeeded")

every_peer = pytest.mark.parametrize("peer", NAMES)


class Recordings:
    """A collector that has all recordings at once; answers are about the traces of one."""

    def __init__(self, collector: RunningCollector) -> None:
        self._collector = collector
        self.traces: dict[str, set[str]] = {}
        #: Peer → span id → the names of its attributes, as sent.
        self.keys: dict[str, dict[str, list[str]]] = {}

    def send(self, peer: str, requests: list[bytes]) -> None:
        self.traces[peer] = set()
        self.keys[peer] = {}
        for body in requests:
            answer = send_http(self._collector, "traces", PROTOBUF, body)
            assert (answer.ok, answer.rejected) == (True, 0)
            message = ExportTraceServiceRequest.FromString(body)
            for resource in message.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self.traces[peer].add(span.trace_id.hex())
                        keys = sorted({attribute.key for attribute in span.attributes})
                        self.keys[peer][span.span_id.hex()] = keys

    def sql(self, statement: str) -> list[dict[str, Any]]:
        return rows(self._collector, statement)

    def query(self, peer: str, name: str, **params: str) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection(self._collector.http, timeout=60)
        body = json.dumps({"params": {"limit": "1000", **params}})
        connection.request("POST", f"/queries/{name}", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        columns = [column["name"] for column in answer["columns"]]
        found = [dict(zip(columns, row, strict=True)) for row in answer["rows"]]
        return [row for row in found if row["trace_id"] in self.traces[peer]]


def own_requests() -> list[bytes]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    application.run([OtelCallbackHandler(provider)])
    return [encode_spans(exporter.get_finished_spans()).SerializeToString()]


@pytest.fixture(name="recordings", scope="module")
def _recordings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recordings]:
    folder = tmp_path_factory.mktemp("peers")
    collector = start(folder / "peers.duckdb", folder / "collector.log")
    recordings = Recordings(collector)
    try:
        recordings.send("otelchain", own_requests())
        for name, peer in PEERS.items():
            recordings.send(name, peer.requests())
        yield recordings
    finally:
        collector.kill()


# --- the three questions ---


@every_peer
def test_failed_retrievers_are_the_same_whoever_traced_them(
    peer: str, recordings: Recordings
) -> None:
    found = recordings.query(peer, "failed-retrievers")

    whole = expected(peer, "failed_retrievers", FAILED_RETRIEVERS)
    questions = {row[-1] for row in whole}
    assert {
        (row["name"], row["outcome"], row["error_type"], row["error"], question)
        for row in found
        for question in questions
        if question in row["query_text"]
    } == whole
    assert len(found) == len(whole)


@every_peer
def test_slow_tools_are_the_same_whoever_traced_them(peer: str, recordings: Recordings) -> None:
    found = recordings.query(peer, "slow-tools", min_duration="250ms")

    assert {(row["name"], row["status"]) for row in found} == SLOW_TOOLS
    assert all("42" in row["tool_input"] for row in found)


@every_peer
def test_mixed_status_parents_are_the_same_whoever_traced_them(
    peer: str, recordings: Recordings
) -> None:
    found = recordings.query(peer, "mixed-status-parents")

    whole = expected(peer, "mixed_parents", MIXED_PARENTS)
    assert {
        row["name"]: (row["kind"], *(sorted(row[f"{how}_children"] or []) for how in HOW))
        for row in found
    } == whole
    assert len(found) == len(whole)


# --- one view ---


@pytest.mark.parametrize("fact", FACTS)
@every_peer
def test_a_fact_is_as_the_application_gave_it_or_a_known_gap(
    peer: str, fact: str, facts: dict[str, dict[str, list[Any]]]
) -> None:
    assert facts[peer][fact] == expected(peer, fact, FACTS[fact])


@pytest.fixture(name="facts", scope="module")
def _facts(recordings: Recordings) -> dict[str, dict[str, list[Any]]]:
    return {peer: read_facts(recordings.sql, recordings.traces[peer]) for peer in NAMES}


@every_peer
def test_the_type_of_a_run_is_what_it_is_and_not_what_its_name_says(
    peer: str, recordings: Recordings
) -> None:
    found = read_run_types(recordings.sql, recordings.traces[peer])

    assert found == expected(peer, "run_types", set(RUN_TYPES.items()))


@every_peer
def test_tokens_are_in_one_run_only(peer: str, recordings: Recordings) -> None:
    sums = recordings.sql(
        f"""
        SELECT sum(input_tokens) AS sent, sum(output_tokens) AS got, sum(total_tokens) AS total,
            bool_and(cache_read_tokens + coalesce(cache_write_tokens, 0) <= input_tokens) AS within
        FROM runs WHERE {in_traces(recordings.traces[peer])}
        """
    )

    assert [(row["sent"], row["got"], row["total"]) for row in sums] == [(600, 120, 720)]
    assert sums[0]["within"] is not False


@every_peer
def test_every_trace_has_one_root_also_where_its_parent_never_came(
    peer: str, recordings: Recordings
) -> None:
    found = recordings.query(peer, "traces")

    assert sorted(row["name"] for row in found) == expected(peer, "roots", ROOTS)


@every_peer
def test_raw_attributes_stay(peer: str, recordings: Recordings) -> None:
    stored = recordings.sql(
        "SELECT span_id, list_sort(json_keys(attributes)) AS keys FROM spans "
        f"WHERE {in_traces(recordings.traces[peer])}"
    )

    assert {row["span_id"]: row["keys"] for row in stored} == recordings.keys[peer]


def in_traces(traces: Collection[str]) -> str:
    return "trace_id IN ({})".format(", ".join(f"'{trace}'" for trace in sorted(traces)))


# --- the recordings themselves ---


def test_every_recording_has_its_gaps_and_every_gap_is_one() -> None:
    assert set(GAPS) == set(NAMES)
    whole = {
        **FACTS,
        "failed_retrievers": FAILED_RETRIEVERS,
        "mixed_parents": MIXED_PARENTS,
        "run_types": set(RUN_TYPES.items()),
        "roots": ROOTS,
    }
    for peer, gaps in GAPS.items():
        assert set(gaps) <= set(whole), peer
        for fact, gap in gaps.items():
            assert gap.reason
            assert expected(peer, fact, whole[fact]) != whole[fact], (peer, fact)


def test_the_recordings_are_small_and_name_nothing_of_the_machine_they_were_made_on() -> None:
    total = 0
    for name, peer in PEERS.items():
        files = list(peer.folder.iterdir())
        assert files, f"no recording: cd tests; python -m peers.record {name}"
        total += sum(file.stat().st_size for file in files)
        for body in peer.requests():
            assert not re.search(rb"/(root|home|Users|tmp|work|private)/", body), name
            assert not re.search(rb"host\.name|process\.(pid|owner|command|executable)", body), name
    assert total < 1_000_000
