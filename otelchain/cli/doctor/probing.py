"""What both probes, over HTTP and over gRPC, have in common."""

from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding
from otelchain.reading.connect import is_loopback

SECONDS: Final = 3.0
# What a message between two machines may take.
_MOST_SKEW_SECONDS: Final = 2.0


def token(exporter: Exporter) -> str:
    """Say what to do about a token that is missing, or may not write."""
    return f"set {exporter.variable('HEADERS')}='authorization=Bearer%20TOKEN'"


def start(exporter: Exporter) -> str:
    """Say what to do where no collector is."""
    return f"start one with 'otelchain collector', or correct {exporter.variable('ENDPOINT')}"


def is_same_host(one: str | None, other: str | None) -> bool:
    """Tell whether two names are one machine's, as far as the names say."""
    return one == other or (is_loopback(one or "") and is_loopback(other or ""))


def clock(date: str | None) -> Iterator[Finding]:
    """Compare the collector's clock with this one, when it says what time it is."""
    if not date:
        return
    theirs = parsedate_to_datetime(date)
    skew_seconds = (datetime.now(timezone.utc) - theirs).total_seconds()
    # The header has whole seconds, rounded down.
    if abs(skew_seconds - 0.5) <= _MOST_SKEW_SECONDS:
        yield Finding("clock", "ok", "the collector's clock agrees with this one")
    else:
        yield Finding(
            "clock",
            "warning",
            f"this clock is {skew_seconds:+.0f} s off the collector's: times of spans, --since and "
            "retention will not agree",
            "let both machines take their time from NTP",
        )
