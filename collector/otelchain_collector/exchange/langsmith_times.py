"""Times and ids as LangSmith writes them, in every form it ever had."""

import re
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

_ISO = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d(?::\d\d)?)(?:[.,](?P<fraction>\d{1,9})\d*)?"
    r"\s*(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
# The part of a dotted order that stands for one run: 20261130T010203456789Z<uuid>.
_DOTTED = re.compile(
    r"(?P<time>\d{8}T\d{6})(?P<fraction>\d{6})Z(?P<id>[0-9a-fA-F-]{32,36})", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Numbers count seconds, milliseconds, microseconds or nanoseconds since 1970: whichever gives a
# time between 1973 and 5138.
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))


def unix_nano(value: Any) -> int | None:
    """Return a time in nanoseconds since 1970; None when there is none.

    A text without a zone is UTC, as LangSmith means it.

    Raises:
        ValueError: It is something else than a time; the text does not quote it.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a time")
    if isinstance(value, str):
        return _from_text(value.strip())
    return _checked(_from_number(value))


def _from_number(number: float) -> int:
    for limit, nanoseconds in _UNITS:
        if abs(number) < limit:
            # In integers as far as possible, since a double has no room for nanoseconds.
            whole = int(number)
            return whole * nanoseconds + round((number - whole) * nanoseconds)
    return int(number)


def _from_text(text: str) -> int:
    found = _ISO.fullmatch(text)
    if found is None:
        raise ValueError("not a time")
    clock = found["clock"] if found["clock"].count(":") == 2 else found["clock"] + ":00"
    moment = datetime.strptime(f"{found['date']} {clock}", "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007
    seconds = (moment.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    return _checked((seconds - _offset_seconds(found["zone"])) * 10**9 + fraction)


def _offset_seconds(zone: str | None) -> int:
    if zone is None or zone.upper() == "Z":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _checked(nanoseconds: int) -> int:
    if not 0 <= nanoseconds < 2**63 - 1:
        raise ValueError("a time before 1970 or after 2262")
    return nanoseconds


def time_text(nanoseconds: int) -> str:
    """Return a time as LangSmith writes it; with nanoseconds only where there are some."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    digits = f"{fraction:09}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{digits if fraction % 1000 else digits[:6]}Z"


def uuid(value: Any) -> UUID | None:
    """Return an id; None when there is none.

    Raises:
        ValueError: It is no UUID.
    """
    if value is None or value == "":
        return None
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError("not a UUID") from error


def dotted(order: Any) -> list[tuple[int, UUID]]:
    """Return start and id of the runs of a dotted order, root first; empty when it is another."""
    found = []
    for part in str(order or "").split("."):
        match = _DOTTED.fullmatch(part)
        if match is None:
            return []
        moment = datetime.strptime(match["time"] + "+0000", "%Y%m%dT%H%M%S%z")
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
        found.append((seconds * 10**9 + int(match["fraction"]) * 1000, UUID(match["id"])))
    return found


def time_in(run_id: UUID) -> int | None:
    """Return the time at which an id of version 7 was made, to the millisecond."""
    return (run_id.int >> 80) * 10**6 if run_id.version == 7 else None


def span_id_of(run_id: UUID) -> str:
    """Return the span id of a run: the last 8 bytes of its id.

    LangSmith's own OpenTelemetry export takes the first 8, but of an id of version 7 those are the
    time and 12 bits, which are the same for some of the runs that start together.
    """
    return run_id.bytes[8:].hex()


def run_id_of(trace_id: str, span_id: str) -> UUID:
    """Return an id for a run that has none, from which `span_id_of` gives the span id back."""
    return UUID(hex=trace_id[:16] + span_id)
