"""OpenTelemetry's variables that are numbers: what is none, and what the SDK would make of it."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from otelchain.cli.doctor.finding import Finding

_SIGNALS: Final = ("", "TRACES_", "LOGS_", "METRICS_")
_TIMEOUTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}TIMEOUT" for signal in _SIGNALS)
# Of spans and of log records: milliseconds and counts.
_BATCHES: Final = ("OTEL_BSP_", "OTEL_BLRP_")
_OF_A_BATCH: Final = ("SCHEDULE_DELAY", "MAX_QUEUE_SIZE", "MAX_EXPORT_BATCH_SIZE", "EXPORT_TIMEOUT")
_DEFAULT_QUEUE: Final = 2048
_DEFAULT_BATCH: Final = 512
_INTERVALS: Final = ("OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT")
_LENGTHS: Final = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
_LIMITS: Final = (
    *_LENGTHS,
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
)


def numbers(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Look at each that is set."""
    given = {name: text.strip() for name, text in environment.items() if text.strip()}
    for name in _TIMEOUTS:
        if name in given and not _is_above_zero(given[name]):
            yield _wrong("exporter", name, given[name], "a number of seconds above 0", "10")
    for name in _INTERVALS:
        if name in given and not _is_above_zero(given[name]):
            yield _wrong("sdk", name, given[name], "a number of milliseconds above 0", "60000")
    for prefix in _BATCHES:
        yield from _batch(prefix, given)
    for name in _LIMITS:
        if name in given and not _is_whole(given[name], least=0):
            yield _wrong("sdk", name, given[name], "a whole number", "128")
    for name in _LENGTHS:
        if name in given and _is_whole(given[name], least=0):
            yield Finding(
                "sdk",
                "warning",
                f"{name}={given[name]} cuts inputs and outputs, which are JSON and then are none",
                f"unset {name}; OTELCHAIN_MAX_VALUE_BYTES cuts them so that they stay JSON",
            )


def _batch(prefix: str, given: Mapping[str, str]) -> Iterator[Finding]:
    for what in _OF_A_BATCH:
        name = prefix + what
        if name in given and not _is_whole(given[name], least=1):
            yield _wrong("sdk", name, given[name], "a whole number above 0", "512")
            return
    queue = int(given.get(f"{prefix}MAX_QUEUE_SIZE", _DEFAULT_QUEUE))
    batch = int(given.get(f"{prefix}MAX_EXPORT_BATCH_SIZE", _DEFAULT_BATCH))
    if batch > queue:
        yield Finding(
            "sdk",
            "error",
            f"{prefix}MAX_EXPORT_BATCH_SIZE ({batch}) is more than {prefix}MAX_QUEUE_SIZE "
            f"({queue}): the SDK refuses that",
            f"export {prefix}MAX_EXPORT_BATCH_SIZE={queue}",
        )


def _wrong(check: str, name: str, text: str, expected: str, example: str) -> Finding:
    return Finding(
        check,
        "error",
        f"{name}={text} is not {expected}: the SDK fails on it, or takes another value",
        f"unset {name}, or set it to one such as {example}",
    )


def _is_above_zero(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and number > 0


def _is_whole(text: str, *, least: int) -> bool:
    try:
        return int(text) >= least
    except ValueError:
        return False
