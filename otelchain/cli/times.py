"""A time as people type it → the same moment in UTC, in ISO 8601.

The queries get absolute times only: DuckDB 1.5 and 2.0 read a time with a zone differently.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import click

EXAMPLES: Final = "24h, 7d, 90s, 2026-11-30, 2026-11-30T09:00, 2026-11-30T09:00:00+02:00"

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO: Final = re.compile(
    r"(?P<count>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>[smhdw])", re.IGNORECASE | re.ASCII
)
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
        text: A time ago (``24h``), ``now``, or a date with or without time and zone; without a zone
            it is UTC, as all times in answers are.
        now: The moment that a time ago counts from, with a zone.

    Raises:
        ValueError: The text is none of these.

    >>> to_utc("2026-11-30T09:00+02:00", datetime.now(timezone.utc))
    '2026-11-30T07:00:00Z'
    """
    text, now = text.strip(), now.astimezone(timezone.utc)
    if text.lower() == "now":
        return _text(now)
    if ago := _AGO.fullmatch(text):
        seconds = float(ago["count"]) * _UNITS[ago["unit"].lower()]
        try:
            return _text(now - timedelta(seconds=seconds))
        except OverflowError as error:
            raise ValueError("too long ago") from error
    if iso := _ISO.fullmatch(text):
        return _text(_moment(iso), iso["fraction"])
    raise ValueError("not a time")


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # Before click 8.4 it took no type.
    _TextType = click.ParamType


class Time(_TextType):
    """A command-line option that is a moment."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the moment as UTC text."""
        try:
            return to_utc(str(value), datetime.now(timezone.utc))
        except ValueError:
            self.fail(f"{value!r} is not a time; examples: {EXAMPLES}", param, ctx)


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
