"""What the collector adds to model runs from genai-prices: against genai-prices itself."""

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import genai_prices
import pytest
from genai_prices.data import providers

from otelchain import pricing
from otelchain_collector import prices

# 2026-11-30T10:00:00Z
START_UNIX_NANO = 1_796_032_800 * 10**9
START = datetime(2026, 11, 30, 10, tzinfo=timezone.utc)
CALL = {"model": "gpt-4o", "provider": "openai", "input_tokens": 1_000, "output_tokens": 50}


@pytest.fixture(autouse=True)
def _forget_models() -> Iterator[None]:
    pricing.priced_model.cache_clear()
    yield
    pricing.priced_model.cache_clear()


def added(**columns: Any) -> tuple[float | None, int | None]:
    found = {**CALL, **columns}
    prices.add(found, START_UNIX_NANO)
    return found.get("cost_usd"), found.get("context_window")


def priced(model: str, provider: str, **usage: int) -> float:
    price = genai_prices.calc_price(
        genai_prices.Usage(**usage),
        model,
        provider_id=provider,
        genai_request_timestamp=START,
    )
    return float(price.total_price)


def test_a_model_run_without_a_cost_gets_its_price_and_its_window() -> None:
    expected = priced("gpt-4o", "openai", input_tokens=1_000, output_tokens=50)

    # 1,000 input tokens at $2.50 and 50 output tokens at $10 a million.
    assert expected == pytest.approx(0.0025 + 0.0005)
    assert added() == (pytest.approx(expected), 128_000)


def test_cached_tokens_have_their_own_price() -> None:
    expected = priced(
        "gpt-4o", "openai", input_tokens=1_000, output_tokens=50, cache_read_tokens=800
    )

    cost, _ = added(cache_read_tokens=800)

    assert cost == pytest.approx(expected)
    assert expected < priced("gpt-4o", "openai", input_tokens=1_000, output_tokens=50)


def test_a_stated_cost_is_kept() -> None:
    assert added(cost_usd=0.5) == (0.5, 128_000)
    assert added(cost_usd=0.0) == (0.0, 128_000)


def test_the_conventions_name_of_a_provider_finds_its_prices() -> None:
    cost, _ = added(provider="azure.ai.openai")

    assert cost == pytest.approx(priced("gpt-4o", "azure", input_tokens=1_000, output_tokens=50))


@pytest.mark.parametrize(
    "unknown",
    [
        {"model": "model-of-nobody"},
        {"model": None},
        {"provider": "provider-of-nobody"},
    ],
)
def test_what_the_table_does_not_know_stays_null(unknown: dict[str, Any]) -> None:
    assert added(**unknown) == (None, None)


@pytest.mark.parametrize("missing", ["input_tokens", "output_tokens"])
def test_half_a_usage_has_no_price(missing: str) -> None:
    assert added(**{missing: None}) == (None, 128_000)


def test_tokens_that_contradict_each_other_have_no_price() -> None:
    assert added(cache_read_tokens=2_000) == (None, 128_000)


def test_without_genai_prices_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_is_installed", lambda: False)

    assert added() == (None, None)


USAGES = [
    {"input_tokens": 0, "output_tokens": 0},
    {"input_tokens": 1_234, "output_tokens": 567},
    {"input_tokens": 300_000, "output_tokens": 9_000},
    {"input_tokens": 1_000, "output_tokens": 10, "cache_read_tokens": 400},
    {"input_tokens": 1_000, "output_tokens": 10, "cache_write_tokens": 300},
    {"input_tokens": 900, "output_tokens": 1, "cache_read_tokens": 500, "cache_write_tokens": 400},
    {"input_tokens": 10, "output_tokens": 1, "cache_read_tokens": 500},
]


def parts(price: Any) -> Any:
    """Return what the table calculates: US dollars for input, output and all."""
    dollars = (price.input_price, price.output_price, price.total_price)
    return pytest.approx(tuple(map(float, dollars)), rel=1e-12)


def test_every_model_costs_what_the_price_table_calculates() -> None:
    priced = 0
    for provider in providers:
        for model in provider.models:
            known = pricing.priced_model(provider.id, model.id)
            if known is None:
                continue
            for usage in USAGES:
                try:
                    expected = known.model.calc_price(
                        genai_prices.Usage(**usage), provider, genai_request_timestamp=START
                    )
                except Exception:  # noqa: BLE001 - whatever it refuses
                    expected = None
                ours = pricing.price(known, usage, START)
                if expected is None:
                    assert ours is None, (model.id, usage)
                    continue
                assert ours is not None, (model.id, usage)
                assert tuple(map(float, ours)) == parts(expected), (model.id, usage)
                priced += 1
    assert priced > 1_000
