"""Python values → the texts that a query's parameters take."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from otelchain.errors import OtelchainError
from otelchain.reading.times import SkippedHourError, to_utc
from otelchain.reading.zones import UnknownZoneError
from otelchain_queries import Query

#: Parameters that are moments, in every query that has them.
TIMES: Final = frozenset({"after", "now", "since", "split", "until"})


class ParameterError(OtelchainError):
    """A value cannot be what a parameter takes."""


def parameter_texts(query: Query, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of every value; those that are None are left to their default.

    Raises:
        ParameterError: A value has a type that no parameter takes, or is no time where one is due.
    """
    return {
        name: time_text(name, value) if name in TIMES else _text(query.name, name, value)
        for name, value in values.items()
        if value is not None
    }


def check_limit(what: str, limit: Any, most: int | None = None) -> None:
    """Refuse what is no number of rows, or more than one answer has.

    Raises:
        ParameterError: It is.
    """
    if limit is None:
        return
    if type(limit) is not int or limit < 0:
        raise ParameterError(f"{what}: limit must be a whole number, not {limit!r}")
    if most is not None and limit > most:
        raise ParameterError(
            f"{what}: limit must be at most {most:,}; runs() takes any, and reads page by page"
        )


def time_text(name: str, value: Any) -> str:
    """Return a moment as UTC text.

    Raises:
        ParameterError: It is none.
    """
    now = datetime.now(timezone.utc)
    if isinstance(value, timedelta):
        value = now - value
    text = _iso(value) if isinstance(value, datetime) else str(value)
    try:
        return to_utc(text, now)
    except (UnknownZoneError, SkippedHourError) as error:
        raise ParameterError(f"{name}={value!r}: {error}") from error
    except ValueError as error:
        raise ParameterError(f"{name}={value!r} is not a time; for example '24h'") from error


def _iso(moment: datetime) -> str:
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    # pandas' Timestamp is a datetime whose isoformat() has the nanoseconds.
    return moment.replace(tzinfo=None).isoformat()


def _text(query: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    raise ParameterError(
        f"{query}: {name} must be text, a number, a boolean or a timedelta, "
        f"not {type(value).__name__}"
    )
