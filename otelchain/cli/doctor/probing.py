"""What both probes, over HTTP and over gRPC, have in common."""

from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final

from otelchain.cli.doctor.finding import Finding

SECONDS: Final = 3.0
# What a message between two machines may take.
_MOST_SKEW_SECONDS: Final = 2.0
TOKEN: Final = "set OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer%20TOKEN'"  # noqa: S105
START: Final = "start one with 'otelchain collector', or correct OTEL_EXPORTER_OTLP_ENDPOINT"


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
