"""A model run's cost in US dollars, from genai-prices' table (extra ``cost``); no network.

What the table does not know gets no attribute: a 0 would be summed up as if it were a price.
"""

import asyncio
import importlib
import importlib.util
import os
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from otelchain import attributes as names
from otelchain import pricing
from otelchain.content import Attributes

_USAGE = {
    "input_tokens": names.GEN_AI_USAGE_INPUT_TOKENS,
    "output_tokens": names.GEN_AI_USAGE_OUTPUT_TOKENS,
    "cache_read_tokens": names.GEN_AI_USAGE_CACHE_READ,
    "cache_write_tokens": names.GEN_AI_USAGE_CACHE_WRITE,
    "input_audio_tokens": names.GEN_AI_USAGE_AUDIO_INPUT,
    "output_audio_tokens": names.GEN_AI_USAGE_AUDIO_OUTPUT,
}

#: Importing the table takes about half a second, once, in a thread of its own. Where there is no
#: event loop to hold up, a run that ends in this time waits for it.
LOAD_SECONDS = 5.0


class _PriceTable:
    """genai-prices, imported in the background when the first run with a model needs it."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._started = False
        self._overdue = False  # waited once and in vain: nobody waits again
        self._lock = threading.Lock()
        self._is_usable = False

    def prepare(self) -> None:
        if self._started:
            return
        with self._lock:
            if self._started:
                return
            self._started = True
        if importlib.util.find_spec("genai_prices") is None:
            self._arrived.set()
        else:
            threading.Thread(target=self._load, name="otelchain-prices", daemon=True).start()

    def _load(self) -> None:
        try:
            importlib.import_module("genai_prices")
            self._is_usable = True
        except Exception:  # noqa: BLE001, S110 - a broken install costs the costs, nothing else
            pass
        finally:
            self._arrived.set()

    def ready(self) -> bool:
        self.prepare()
        if not self._arrived.is_set():
            if _in_event_loop() or self._overdue:
                return False
            self._overdue = not self._arrived.wait(LOAD_SECONDS)
        return self._is_usable


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_table = _PriceTable()


def _forget_table() -> None:
    """Start over in a forked child: a thread that was loading is not there."""
    global _table
    _table = _PriceTable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_table)


def prepare() -> None:
    """Begin to load the price table, if it is installed. Returns at once; called at a start."""
    _table.prepare()


def cost(ours: Mapping[str, Any]) -> Attributes:
    """Price a model run by its provider, model and tokens; {} when any of them is unknown.

    Args:
        ours: Every attribute of the run's span, its usage included.
    """
    if names.GEN_AI_USAGE_INPUT_TOKENS not in ours or names.GEN_AI_USAGE_OUTPUT_TOKENS not in ours:
        return {}  # half a usage would give half a price
    models = (ours.get(names.GEN_AI_RESPONSE_MODEL), ours.get(names.GEN_AI_REQUEST_MODEL))
    wanted = [model for model in models if isinstance(model, str)]
    if not wanted or not _table.ready():
        return {}
    provider = ours.get(names.GEN_AI_PROVIDER_NAME)
    provider = provider if isinstance(provider, str) else None
    usage = {key: ours[name] for key, name in _USAGE.items() if isinstance(ours.get(name), int)}
    for model in wanted:
        priced = pricing.priced_model(provider, model)
        if priced is not None:
            return _attributes(pricing.price(priced, usage, datetime.now(timezone.utc)))
    return {}


def _attributes(price: pricing.Price | None) -> Attributes:
    if price is None:
        return {}
    return {
        names.COST_INPUT_USD: float(price.input),
        names.COST_OUTPUT_USD: float(price.output),
        names.COST_TOTAL_USD: float(price.total),
    }
