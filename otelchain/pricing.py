"""What tokens cost, from genai-prices' table: asked once for each model, then counted here.

Both sides use it: the handler for its own model runs, the collector for those of others. Where
genai-prices is not installed, or knows no price, there is none: a 0 would be summed up as a price.
"""

import importlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

_MILLION: Final = 1_000_000
_NOTHING: Final = {"input_tokens": 0, "output_tokens": 0}

# gen_ai.provider.name → genai-prices' provider id, where it does not find it by its name.
_PROVIDERS: Final = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistral",
    "moonshot_ai": "moonshotai",
    "x_ai": "x-ai",
}


class Price(NamedTuple):
    """US dollars of one request; the total may hold a price for the request itself."""

    input: Decimal
    output: Decimal
    total: Decimal


@lru_cache(maxsize=1_024)
def priced_model(provider: str | None, model: str) -> Any:
    """Return what genai-prices knows of a model (``.model``, ``.provider``), or None.

    Remembered, because a failed look-up goes through the whole table.

    Args:
        provider: ``gen_ai.provider.name``.
        model: ``gen_ai.response.model`` or ``gen_ai.request.model``.
    """
    table = importlib.import_module("genai_prices")
    provider = _PROVIDERS.get(provider, provider) if provider else None
    try:
        return table.calc_price(table.Usage(input_tokens=1), model, provider_id=provider)
    except Exception:  # noqa: BLE001 - LookupError for unknown ones; other ids may break it
        return None


def price(priced: Any, usage: Mapping[str, int], moment: datetime) -> Price | None:
    """Price a request; None where the table refuses, as tokens that contradict each other.

    Takes 4 µs where tokens of a kind all cost the same, which is nearly everywhere, and 50 µs where
    the first ones cost less, or where there is audio.

    Args:
        priced: From `priced_model`.
        usage: Tokens by genai-prices' names (``input_tokens``, ``cache_read_tokens``, …).
        moment: When the request was made: prices change.
    """
    try:
        rates = _rates(priced, moment)
        return (rates and rates.price(**usage)) or _calculated(priced, usage, moment)
    except Exception:  # noqa: BLE001 - whatever a table finds wrong with a usage
        return None


def _calculated(priced: Any, usage: Mapping[str, int], moment: datetime) -> Price:
    """Ask genai-prices."""
    of_table = importlib.import_module("genai_prices").Usage(**usage)
    found = priced.model.calc_price(of_table, priced.provider, genai_request_timestamp=moment)
    return Price(found.input_price, found.output_price, found.total_price)


class _Rates(NamedTuple):
    """US dollars of a request and of one token of each kind; None where it is not known."""

    request: Price
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
        **other_tokens: int,
    ) -> Price | None:
        """Return the price; None where only the table can tell, or refuse, it."""
        uncached = input_tokens - cache_read_tokens - cache_write_tokens
        if min(uncached, output_tokens, cache_read_tokens, cache_write_tokens) < 0:
            return None
        if any(other_tokens.values()):
            return None
        sent = uncached * self.uncached
        cached = (cache_read_tokens, self.cache_read), (cache_write_tokens, self.cache_write)
        for tokens, rate in cached:
            if tokens and rate is None:
                return None
            if tokens and rate is not None:
                sent += tokens * rate
        received = output_tokens * self.output
        base = self.request
        return Price(base.input + sent, base.output + received, base.total + sent + received)


# By the identity of a model's prices at a time, which are kept so that it stays theirs.
_rates_of: dict[int, tuple[Any, _Rates | None]] = {}


def _rates(priced: Any, moment: datetime) -> _Rates | None:
    prices = priced.model.get_prices(moment)
    known = _rates_of.get(id(prices))
    if known is None:
        known = _rates_of[id(prices)] = prices, _asked_rates(priced, prices, moment)
    return known[1]


def _asked_rates(priced: Any, prices: Any, moment: datetime) -> _Rates | None:
    """Ask the table for a million tokens of each kind; None where some cost more than others."""
    tiered = importlib.import_module("genai_prices.types").TieredPrices
    if any(isinstance(each, tiered) for each in vars(prices).values()):
        return None
    request = _calculated(priced, _NOTHING, moment)

    def rate(**usage: int) -> Decimal:
        found = _calculated(priced, _NOTHING | usage, moment)
        return (found.total - request.total) / _MILLION

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
