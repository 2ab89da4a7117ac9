"""Times as people type them."""

import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from otelchain.reading import zones
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
        ("24 hours", "2026-11-29T12:00:00Z"),
        ("2 hours ago", "2026-11-30T10:00:00Z"),
        ("1 day 2 hrs 5 min ago", "2026-11-29T09:55:00Z"),
        ("09:30", "2026-11-30T09:30:00Z"),
        ("9:30:15.5", "2026-11-30T09:30:15.5Z"),
        ("yesterday 14:00", "2026-11-29T14:00:00Z"),
        ("2026-11-30 UTC", "2026-11-30T00:00:00Z"),
        # Berlin is at UTC+1 in winter and at UTC+2 in summer; Kolkata always at UTC+5:30.
        ("2026-11-30 14:00 Europe/Berlin", "2026-11-30T13:00:00Z"),
        ("2026-07-01 14:00 Europe/Berlin", "2026-07-01T12:00:00Z"),
        ("2026-11-30T14:00:00.123456789 asia/kolkata", "2026-11-30T08:30:00.123456789Z"),
        ("today Asia/Kolkata", "2026-11-29T18:30:00Z"),
        ("yesterday 23:00 America/New_York", "2026-11-30T04:00:00Z"),
        ("14:00 Etc/GMT+5", "2026-11-30T19:00:00Z"),
        # The clocks went back from 03:00 to 02:00: the hour was there twice, the first is meant.
        ("2026-10-25 02:30 Europe/Berlin", "2026-10-25T00:30:00Z"),
    ],
)
def test_a_time_becomes_utc(text: str, expected: str) -> None:
    assert to_utc(text, NOW) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30", "2026-11-29T23:00:00Z"),
        ("today", "2026-11-29T23:00:00Z"),
        ("14:00", "2026-11-30T13:00:00Z"),
        ("24h", "2026-11-29T12:00:00Z"),
        ("2026-11-30T09:00Z", "2026-11-30T09:00:00Z"),
        ("2026-11-30T09:00 UTC", "2026-11-30T09:00:00Z"),
        ("2026-11-30T09:00 Asia/Kolkata", "2026-11-30T03:30:00Z"),
    ],
)
def test_a_time_without_a_zone_is_of_the_zone_that_was_chosen(text: str, expected: str) -> None:
    assert to_utc(text, NOW, ZoneInfo("Europe/Berlin")) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "2026-11-30 09:00 europe/berln",
            "no time zone is named 'europe/berln'; did you mean 'Europe/Berlin'?",
        ),
        ("09:00 Europe", "no time zone is named 'Europe'; "),
        ("09:00 Xyzzy/Nowhere-At-All", "no time zone is named 'Xyzzy/Nowhere-At-All'; for example"),
        # The clocks went from 02:00 to 03:00.
        ("2026-03-29 02:30 Europe/Berlin", "Europe/Berlin has no 02:30 on that day: its clocks"),
    ],
)
def test_a_zone_or_an_hour_that_is_none_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        to_utc(text, NOW)


def test_a_system_without_time_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones, "available_timezones", set)

    with pytest.raises(ValueError, match="pip install tzdata"):
        to_utc("09:00 Nowhere/Else", NOW)
    assert to_utc("2026-11-30 09:00 UTC", NOW) == "2026-11-30T09:00:00Z"


def test_a_time_ago_counts_from_now_whatever_the_zone_of_now() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))

    assert to_utc("1h", tokyo) == "2026-11-30T11:00:00Z"


def test_a_day_is_one_of_utc_whatever_the_zone_of_now() -> None:
    tokyo = datetime(2026, 12, 1, 3, 0, tzinfo=timezone(timedelta(hours=9)))

    assert to_utc("today", tokyo) == "2026-11-30T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "24", "h", "-1h", "24 horas", "tomorrow", "2026-13-01", "2025-02-29"),
        *("2h foo", "ago", "5 mins 3", "24:00", "9:60", "14:00 Europe/Berlin x", "1e3h"),
        *("2026-11-30T25:00", "2026-11-30T", "9999-01-01", "1600-01-01", "999999999w"),
        *("2026-11-30T09:00+99:00", "'; DROP TABLE spans; --", "٣h"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"time|ago|format|day|month|offset|range|data|hour|minute"
    ):
        to_utc(text, NOW)
