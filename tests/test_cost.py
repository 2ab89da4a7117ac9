"""What the handler says a model run cost: against published prices, and against genai-prices."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import genai_prices
import pytest
from langchain_core.messages import AIMessage

from fakes import FakeModel, FinishedSpans
from otelchain import OtelCallbackHandler, cost, pricing

INPUT, OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
AUDIO_INPUT = "gen_ai.usage.audio.input_tokens"
GPT_4O = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}


class Gpt4o(FakeModel):
    """A fake model whose provider answers with the name of a deployment."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "gpt-4o", "ls_model_type": "chat"}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    pricing.priced_model.cache_clear()
    cost._forget_table()
    yield
    pricing.priced_model.cache_clear()
    cost._forget_table()


def dollars(found: dict[str, Any]) -> list[Any]:
    return [found.get(f"otelchain.cost.{part}_usd") for part in ("input", "output", "total")]


def test_a_model_run_has_its_cost_and_an_unknown_response_model_falls_back_to_the_requested(
    handler: OtelCallbackHandler, finished_spans: FinishedSpans
) -> None:
    answer = AIMessage(
        "x",
        usage_metadata={"input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100},
        response_metadata={"model_name": "our-deployment"},
    )

    Gpt4o(messages=iter([answer])).invoke("hi", {"callbacks": [handler]})

    # gpt-4o: 2.50 and 10.00 USD per million tokens.
    found = dict(finished_spans()["Gpt4o"].attributes or {})
    assert dollars(found) == [pytest.approx(0.0025), pytest.approx(0.001), pytest.approx(0.0035)]


def test_a_model_without_a_price_has_no_cost_and_is_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    look_up = genai_prices.calc_price

    def counted(usage: Any, model: str, **others: Any) -> Any:
        asked.append(model)
        return look_up(usage, model, **others)

    monkeypatch.setattr(genai_prices, "calc_price", counted)
    ours = {"gen_ai.request.model": "model-of-nobody", INPUT: 9, OUTPUT: 2}

    assert [cost.cost(ours), cost.cost(ours)] == [{}, {}]
    assert asked == ["model-of-nobody"]


@pytest.mark.parametrize("usage", [{INPUT: 9}, {OUTPUT: 2}, {}])
def test_half_a_usage_has_no_cost(usage: dict[str, int]) -> None:
    assert cost.cost({**GPT_4O, **usage}) == {}


def test_tokens_that_contradict_each_other_have_no_cost() -> None:
    assert cost.cost({**GPT_4O, INPUT: 10, OUTPUT: 1, CACHE_READ: 500}) == {}


def test_an_event_loop_never_waits_for_the_price_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeverThere:
        def is_set(self) -> bool:
            return False

        def wait(self, seconds: float) -> bool:
            raise AssertionError("the event loop would stand still")

    table: Any = cost._PriceTable()
    table._started, table._arrived = True, NeverThere()
    monkeypatch.setattr(cost, "_table", table)

    async def application() -> Any:
        return cost.cost({**GPT_4O, INPUT: 9, OUTPUT: 2})

    assert asyncio.run(application()) == {}


def test_without_the_price_table_there_is_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert cost.cost({**GPT_4O, INPUT: 9, OUTPUT: 2}) == {}


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5-20250929"),
        ("gcp.gemini", "gemini-2.5-pro"),
        ("aws.bedrock", "anthropic.claude-3-5-sonnet-20241022-v2:0"),
        ("azure.ai.openai", "gpt-4o"),
        ("mistral_ai", "mistral-large-latest"),
        ("x_ai", "grok-3"),
        ("groq", "llama-3.3-70b-versatile"),
    ],
)
def test_the_price_table_knows_the_models_of_the_large_providers(provider: str, model: str) -> None:
    ours = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}

    total = cost.cost({**ours, INPUT: 1000, OUTPUT: 100})["otelchain.cost.total_usd"]

    assert isinstance(total, float)
    assert 0 < total < 0.1


def test_cached_tokens_are_cheaper() -> None:
    # gpt-4o: 2.50, cached 1.25, output 10.00 USD per million tokens.
    assert cost.cost({**GPT_4O, INPUT: 1000, OUTPUT: 100, CACHE_READ: 300}) == {
        "otelchain.cost.input_usd": pytest.approx(700 * 2.5e-6 + 300 * 1.25e-6),
        "otelchain.cost.output_usd": pytest.approx(100 * 10e-6),
        "otelchain.cost.total_usd": pytest.approx(0.003125),
    }


def test_audio_tokens_have_their_own_price() -> None:
    gemini = {"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-2.5-flash"}
    expected = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=1_000, output_tokens=100, input_audio_tokens=400),
        "gemini-2.5-flash",
        provider_id="google",
        genai_request_timestamp=datetime.now(timezone.utc),
    )

    found = cost.cost({**gemini, INPUT: 1000, OUTPUT: 100, AUDIO_INPUT: 400})

    assert dollars(dict(found)) == [
        pytest.approx(float(each))
        for each in (expected.input_price, expected.output_price, expected.total_price)
    ]
    assert found != cost.cost({**gemini, INPUT: 1000, OUTPUT: 100})
