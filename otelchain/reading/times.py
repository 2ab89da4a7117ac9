"""A time as people type it → the same moment in UTC, in ISO 8601.

The queries get absolute times only: DuckDB 1.5 and 2.0 read a time with a zone differently.
"""

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final

from otelchain.reading.zones import zone_named

EXAMPLES: Final = (
    "24h, 1h30m, yesterday, 14:00, 2026-11-30, 2026-11-30T09:00, 2026-11-30T09:00:00+02:00, "
    "2026-11-30 09:00 Europe/Berlin"
)

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART: Final = (
    r"(\d{1,9}(?:\.\d{1,6})?)\s*"
    r"(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:rs?|ours?)?|d(?:ays?)?|w(?:eeks?)?)\b"
)
_AGO: Final = re.compile(rf"(?:{_PART}\s*)+(?:ago)?", re.IGNORECASE | re.ASCII)
_SPLIT: Final = re.compile(r"(?<=[smhdw])(?=\d)", re.IGNORECASE)
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_DAY: Final = r"\d{4}-\d\d-\d\d|today|yesterday"
_CLOCK: Final = r"\d\d?:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_MOMENT: Final = re.compile(
    rf"(?:(?P<day>{_DAY})(?:[T ]\s*(?P<clock>{_CLOCK}))?|(?P<only_clock>{_CLOCK}))"
    r"(?:\s*(?P<offset>Z|[+-]\d\d(?::?\d\d)?)|\s+(?P<zone>[A-Z][\w+-]*(?:/[\w+-]+)*))?",
    re.IGNORECASE | re.ASCII,
)
# What nanoseconds since 1970 in 64 bits can hold.
_EARLIEST: Final = datetime(1677, 9, 22, tzinfo=timezone.utc)
_LATEST: Final = datetime(2262, 4, 11, tzinfo=timezone.utc)


class SkippedHourError(ValueError):
    """A zone has no such hour on that day."""

    def __init__(self, zone: tzinfo, local: datetime) -> None:
        super().__init__(f"{zone} has no {local:%H:%M} on that day: its clocks were put forward")


def to_utc(text: str, now: datetime, zone: tzinfo = timezone.utc) -> str:
    """Return a moment as UTC text, such as ``2026-11-30T09:00:00Z``.

    Args:
        text: A time ago (``24h``, ``2 hours ago``), ``now``, or a day (a date, ``today``,
            ``yesterday``), a time of day, or both, with or without offset or zone. Of an hour that
            a zone has twice, the first is taken.
        now: The moment that a time ago counts from, with a zone.
        zone: Of a time that names none.

    Raises:
        ValueError: The text is none of these.
        UnknownZoneError: The zone that it names is none.
        SkippedHourError: The zone has no such hour on that day.

    >>> to_utc("2026-11-30T09:00+02:00", datetime.now(timezone.utc))
    '2026-11-30T07:00:00Z'
    """
    text = text.strip()
    if text.lower() == "now":
        return _text(now.astimezone(timezone.utc))
    apart = _SPLIT.sub(" ", text)
    if _AGO.fullmatch(apart):
        parts = re.findall(_PART, apart, re.IGNORECASE | re.ASCII)
        seconds = sum(float(count) * _UNITS[unit[0].lower()] for count, unit in parts)
        try:
            return _text(now.astimezone(timezone.utc) - timedelta(seconds=seconds))
        except OverflowError as error:
            raise ValueError("too long ago") from error
    if found := _MOMENT.fullmatch(text):
        return _moment(found, now, zone)
    raise ValueError("not a time")


def unix_nano(text: str) -> int:
    """Return a UTC time as answers have it, in nanoseconds since 1970.

    >>> unix_nano("1970-01-01T00:00:01.000000002Z")
    1000000002
    """
    whole, _, fraction = text.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def utc_text(nano: int) -> str:
    """Return nanoseconds since 1970 as a UTC time.

    >>> utc_text(1000000002)
    '1970-01-01T00:00:01.000000002Z'
    """
    seconds, fraction = divmod(nano, 10**9)
    return _text(datetime.fromtimestamp(seconds, timezone.utc), f"{fraction:09}")


def _moment(found: "re.Match[str]", now: datetime, zone: tzinfo) -> str:
    if found["offset"]:
        zone = _offset(found["offset"])
    elif found["zone"]:
        zone = zone_named(found["zone"])
    clock = found["clock"] or found["only_clock"] or "0:00"
    whole, _, fraction = clock.replace(",", ".").partition(".")
    numbers = [int(part) for part in whole.split(":")]
    local = _day(found["day"] or "today", now.astimezone(zone)).replace(
        **dict(zip(("hour", "minute", "second"), numbers, strict=False)), tzinfo=zone
    )
    moment = local.astimezone(timezone.utc)
    if any(numbers) and moment.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise SkippedHourError(zone, local)
    return _text(moment, fraction or None)


def _day(text: str, now: datetime) -> datetime:
    """Return the beginning of a day, without a zone."""
    if text.lower() not in _DAYS_AGO:
        return datetime.strptime(text, "%Y-%m-%d")  # noqa: DTZ007 - its zone is added above
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return midnight - timedelta(days=_DAYS_AGO[text.lower()])


def _offset(text: str) -> timezone:
    if text.upper() == "Z":
        return timezone.utc
    minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > 3 else 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _text(moment: datetime, fraction: str | None = None) -> str:
    if not _EARLIEST <= moment <= _LATEST:
        raise ValueError("outside the times that nanoseconds can count")
    if fraction is None and moment.microsecond:
        fraction = f"{moment.microsecond:06}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' + fraction if fraction else ''}Z"
