"""What a model run cost and how much its model takes in, from genai-prices' table; no network.

Only where genai-prices is installed beside the collector (extra ``cost``), and only what the span
does not say itself. What the table does not know stays NULL: a 0 would be summed up as a price.
"""

import importlib
from datetime import datetime, timezone
from functools import cache
from typing import Final

from otelchain import pricing
from otelchain_collector.dialects.dialect import Found

_USAGE: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

#: The columns that `add` reads.
READ: Final = ("model", "provider", "cost_usd", *_USAGE)


def add(found: Found, start_time_unix_nano: int) -> None:
    """Add ``context_window``, and ``cost_usd`` unless the span states it, to a model run's columns.

    Prices are those of the time when the run started.
    """
    model = found.get("model")
    if model is None or not _is_installed():
        return
    priced = pricing.priced_model(found.get("provider"), model)
    if priced is None:
        return
    found["context_window"] = priced.model.context_window
    stated = found.get("cost_usd") is not None
    if stated or found.get("input_tokens") is None or found.get("output_tokens") is None:
        return  # half a usage would give half a price
    usage = {name: found[name] for name in _USAGE if found.get(name) is not None}
    moment = datetime.fromtimestamp(start_time_unix_nano / 1e9, tz=timezone.utc)
    price = pricing.price(priced, usage, moment)
    found["cost_usd"] = None if price is None else float(price.total)


@cache
def _is_installed() -> bool:
    """Import the table, once: half a second."""
    try:
        importlib.import_module("genai_prices")
    except Exception:  # noqa: BLE001 - a broken install costs the costs, nothing else
        return False
    return True
