"""Times as people type them."""

from datetime import datetime, timedelta, timezone

import pytest

from otelchain.reading.times import to_utc

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-30T12:00:00Z"),
        ("90s", "2026-11-30T11:58:30Z"),
        ("15m", "2026-11-30T11:45:00Z"),
        ("24h", "2026-11-29T12:00:00Z"),
        ("1.5h", "2026-11-30T10:30:00Z"),
        ("7d", "2026-11-23T12:00:00Z"),
        ("2W", "2026-11-16T12:00:00Z"),
        ("0.25s", "2026-11-30T11:59:59.750000Z"),
        ("1h30m", "2026-11-30T10:30:00Z"),
        ("1d 2h", "2026-11-29T10:00:00Z"),
        ("today", "2026-11-30T00:00:00Z"),
        ("Yesterday", "2026-11-29T00:00:00Z"),
        (" 24h ", "2026-11-29T12:00:00Z"),
        ("2026-11-30", "2026-11-30T00:00:00Z"),
        ("2026-11-30T09:00", "2026-11-30T09:00:00Z"),
        ("2026-11-30 09:00:05", "2026-11-30T09:00:05Z"),
        ("2026-11-30T09:00:05Z", "2026-11-30T09:00:05Z"),
        ("2026-11-30t09:00:05z", "2026-11-30T09:00:05Z"),
        ("2026-11-30T09:00:05.123456789Z", "2026-11-30T09:00:05.123456789Z"),
        ("2026-11-30T09:00:00+02:00", "2026-11-30T07:00:00Z"),
        ("2026-11-30T23:30-0430", "2026-12-01T04:00:00Z"),
        ("2026-11-30T09:00+05", "2026-11-30T04:00:00Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
        ("1970-01-01", "1970-01-01T00:00:00Z"),
        ("2262-01-01", "2262-01-01T00:00:00Z"),
    ],
)
def test_a_time_becomes_utc(text: str, expected: str) -> None:
    assert to_utc(text, NOW) == expected


def test_a_time_ago_counts_from_now_whatever_the_zone_of_now() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))

    assert to_utc("1h", tokyo) == "2026-11-30T11:00:00Z"


def test_a_day_is_one_of_utc_whatever_the_zone_of_now() -> None:
    tokyo = datetime(2026, 12, 1, 3, 0, tzinfo=timezone(timedelta(hours=9)))

    assert to_utc("today", tokyo) == "2026-11-30T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "24", "h", "-1h", "24 hours", "tomorrow", "2026-13-01", "2025-02-29"),
        *("2026-11-30T25:00", "2026-11-30T", "9999-01-01", "1600-01-01", "999999999w"),
        *("2026-11-30T09:00+99:00", "'; DROP TABLE spans; --", "٣h"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|ago|format|day|month|offset|range|data"):
        to_utc(text, NOW)
