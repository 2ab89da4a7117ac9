"""A time as people type it → the same moment in UTC, in ISO 8601.

The queries get absolute times only: DuckDB 1.5 and 2.0 read a time with a zone differently.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import Final

EXAMPLES: Final = (
    "24h, 7d, 1h30m, yesterday, 2026-11-30, 2026-11-30T09:00, 2026-11-30T09:00:00+02:00"
)

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART: Final = r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])"
_AGO: Final = re.compile(rf"(?:{_PART}\s*)+", re.IGNORECASE | re.ASCII)
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_ISO: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<clock>\d\d:\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?",
    re.IGNORECASE | re.ASCII,
)
# What nanoseconds since 1970 in 64 bits can hold.
_EARLIEST: Final = datetime(1677, 9, 22, tzinfo=timezone.utc)
_LATEST: Final = datetime(2262, 4, 11, tzinfo=timezone.utc)


def to_utc(text: str, now: datetime) -> str:
    """Return a moment as UTC text, such as ``2026-11-30T09:00:00Z``.

    Args:
        text: A time ago (``24h``, ``1h30m``), ``now``, ``today``, ``yesterday``, or a date with or
            without time and zone; without a zone it is UTC, as all times in answers are.
        now: The moment that a time ago counts from, with a zone.

    Raises:
        ValueError: The text is none of these.

    >>> to_utc("2026-11-30T09:00+02:00", datetime.now(timezone.utc))
    '2026-11-30T07:00:00Z'
    """
    text, now = text.strip(), now.astimezone(timezone.utc)
    if text.lower() == "now":
        return _text(now)
    if text.lower() in _DAYS_AGO:
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return _text(day - timedelta(days=_DAYS_AGO[text.lower()]))
    if _AGO.fullmatch(text):
        parts = re.findall(_PART, text, re.IGNORECASE | re.ASCII)
        seconds = sum(float(count) * _UNITS[unit.lower()] for count, unit in parts)
        try:
            return _text(now - timedelta(seconds=seconds))
        except OverflowError as error:
            raise ValueError("too long ago") from error
    if iso := _ISO.fullmatch(text):
        return _text(_moment(iso), iso["fraction"])
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


def _moment(iso: "re.Match[str]") -> datetime:
    text = f"{iso['date']} {iso['clock'] or '00:00'}:{iso['second'] or '00'}"
    clock = datetime.strptime(text, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - its zone is added here
    return clock.replace(tzinfo=_zone(iso["zone"])).astimezone(timezone.utc)


def _zone(text: str | None) -> timezone:
    if text is None or text.upper() == "Z":
        return timezone.utc
    minutes = int(text[1:3]) * 60 + int(text[-2:] if len(text) > 3 else 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _text(moment: datetime, fraction: str | None = None) -> str:
    if not _EARLIEST <= moment <= _LATEST:
        raise ValueError("outside the times that nanoseconds can count")
    if fraction is None and moment.microsecond:
        fraction = f"{moment.microsecond:06}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' + fraction if fraction else ''}Z"
