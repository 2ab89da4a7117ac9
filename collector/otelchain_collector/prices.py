"""What a model run cost and how much its model takes in, from genai-prices' table; no network.

Only where genai-prices is installed beside the collector (extra ``cost``), and only what the span
does not say itself. What the table does not know stays NULL: a 0 would be summed up as a price.
"""

import importlib
from datetime import datetime, timezone
from functools import cache, lru_cache
from typing import Any, Final

from otelchain.price_providers import PRICE_PROVIDERS
from otelchain_collector.dialects.dialect import Found

_USAGE: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

#: The columns that `add` reads.
READ: Final = ("model", "provider", "cost_usd", *_USAGE)


def add(found: Found, start_time_unix_nano: int) -> None:
    """Add ``context_window``, and ``cost_usd`` unless the span states it, to a model run's columns.

    Prices are those of the time when the run started. Takes about 60 µs when it has to price, 1 µs
    otherwise.
    """
    model = found.get("model")
    if model is None or _table() is None:
        return
    known = _known(found.get("provider"), model)
    if known is None:
        return
    found["context_window"] = known.model.context_window
    stated = found.get("cost_usd") is not None
    if stated or found.get("input_tokens") is None or found.get("output_tokens") is None:
        return  # half a usage would give half a price
    usage = {name: found[name] for name in _USAGE if found.get(name) is not None}
    found["cost_usd"] = _price(known, usage, start_time_unix_nano)


def _price(known: Any, usage: dict[str, int], start_time_unix_nano: int) -> float | None:
    try:
        price = known.model.calc_price(
            _table().Usage(**usage),
            known.provider,
            genai_request_timestamp=datetime.fromtimestamp(
                start_time_unix_nano / 1e9, tz=timezone.utc
            ),
        )
    except Exception:  # noqa: BLE001 - tokens that contradict each other, for example
        return None
    return float(price.total_price)


@cache
def _table() -> Any:
    """Import the table, once: half a second; None where it is not installed or is broken."""
    try:
        return importlib.import_module("genai_prices")
    except Exception:  # noqa: BLE001 - a broken install costs the costs, nothing else
        return None


@lru_cache(maxsize=1_024)
def _known(provider: str | None, model: str) -> Any:
    """Find a model; remembered, because a failed look-up goes through the whole table."""
    table = _table()
    provider = PRICE_PROVIDERS.get(provider, provider) if provider else None
    try:
        return table.calc_price(table.Usage(input_tokens=1), model, provider_id=provider)
    except Exception:  # noqa: BLE001 - LookupError for unknown ones; other ids may break it
        return None
