"""Whoever changes what is read out of a span says so: stored spans have to be read again."""

import hashlib
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelchain_collector import prices
from otelchain_collector.decode import decode
from otelchain_collector.normalise import Normalised
from otelchain_collector.rules import RULES_VERSION

pytest.importorskip("langgraph")

from peers.known import PEERS

#: The version of the rules → the digest of what they find in the recorded peers.
DIGESTS = {1: "a535cc5d67fee7dd"}


@pytest.fixture(autouse=True)
def _no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices change with genai-prices."""
    monkeypatch.setattr(prices, "_is_installed", lambda: False)


def _found() -> Iterator[str]:
    for name, peer in sorted(PEERS.items()):
        for body in peer.requests():
            for row in decode(ExportTraceServiceRequest.FromString(body), 1).rows:
                facts = row._asdict()
                yield repr((name, row.span_id, [facts[column] for column in Normalised._fields]))


def test_the_same_rules_find_the_same() -> None:
    digest = hashlib.sha256("\n".join(sorted(_found())).encode()).hexdigest()[:16]

    assert DIGESTS.get(RULES_VERSION) == digest, (
        "normalise() finds something else in the recorded peers: when a release has gone out with "
        f"rules {RULES_VERSION}, count RULES_VERSION up (rules.py); in any case note {digest!r}"
    )
