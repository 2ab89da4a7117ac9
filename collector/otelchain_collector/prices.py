"""What a model run cost and how much its model takes in, from genai-prices' table; no network.

Only where genai-prices is installed beside the collector (extra ``cost``), and only what the span
does not say itself. What the table does not know stays NULL: a 0 would be summed up as a price.
"""

import importlib
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from otelchain.price_providers import PRICE_PROVIDERS
from otelchain_collector.dialects.dialect import Found

_USAGE: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_MILLION: Final = 1_000_000

#: The columns that `add` reads.
READ: Final = ("model", "provider", "cost_usd", *_USAGE)


def add(found: Found, start_time_unix_nano: int) -> None:
    """Add ``context_window``, and ``cost_usd`` unless the span states it, to a model run's columns.

    Prices are those of the time when the run started. Takes about 4 µs where tokens of a kind all
    cost the same, which is nearly everywhere, and 50 µs where the first ones cost less.
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
    moment = datetime.fromtimestamp(start_time_unix_nano / 1e9, tz=timezone.utc)
    try:
        rates = _rates(known, moment)
        price = rates.price(**usage) if rates else None
        if price is None:
            price = _calculated(known, usage, moment)
    except Exception:  # noqa: BLE001 - tokens that contradict each other, for example
        return None
    return float(price)


def _calculated(known: Any, usage: dict[str, int], moment: datetime) -> Decimal:
    """Ask genai-prices, which takes 50 µs."""
    usage_of_table = _table().Usage(**usage)
    price = known.model.calc_price(
        usage_of_table, known.provider, genai_request_timestamp=moment
    ).total_price
    return Decimal(price)


class _Rates(NamedTuple):
    """US dollars of a request and of one token of each kind; None where it is not known."""

    request: Decimal
    uncached: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_write: Decimal | None

    def price(
        self,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
    ) -> Decimal | None:
        """Return the price; None where only the table can tell, or refuse, it."""
        uncached = input_tokens - cache_read_tokens - cache_write_tokens
        if min(uncached, output_tokens, cache_read_tokens, cache_write_tokens) < 0:
            return None
        total = self.request + uncached * self.uncached + output_tokens * self.output
        cached = (cache_read_tokens, self.cache_read), (cache_write_tokens, self.cache_write)
        for tokens, rate in cached:
            if tokens and rate is None:
                return None
            if tokens and rate is not None:
                total += tokens * rate
        return total


# By the identity of a model's prices at a time, which are kept so that it stays theirs.
_rates_of: dict[int, tuple[Any, "_Rates | None"]] = {}


def _rates(known: Any, moment: datetime) -> "_Rates | None":
    prices = known.model.get_prices(moment)
    if id(prices) not in _rates_of:
        _rates_of[id(prices)] = prices, _asked_rates(known, prices, moment)
    return _rates_of[id(prices)][1]


def _asked_rates(known: Any, prices: Any, moment: datetime) -> "_Rates | None":
    """Ask the table for a million tokens of each kind; None where some cost more than others."""
    tiered = importlib.import_module("genai_prices.types").TieredPrices
    if any(isinstance(price, tiered) for price in vars(prices).values()):
        return None
    nothing = {"input_tokens": 0, "output_tokens": 0}
    request = _calculated(known, nothing, moment)

    def rate(**usage: int) -> Decimal:
        return (_calculated(known, nothing | usage, moment) - request) / _MILLION

    def cached(kind: str) -> Decimal | None:
        try:
            return rate(input_tokens=_MILLION, **{kind: _MILLION})
        except Exception:  # noqa: BLE001 - the table has no such price
            return None

    return _Rates(
        request,
        rate(input_tokens=_MILLION),
        rate(output_tokens=_MILLION),
        cached("cache_read_tokens"),
        cached("cache_write_tokens"),
    )


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
