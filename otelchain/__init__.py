"""See what a LangChain or LangGraph application did.

Public names are loaded on first use (PEP 562), so that ``import otelchain`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from otelchain.version import __version__ as __version__

if TYPE_CHECKING:
    from otelchain.errors import ConfigurationError as ConfigurationError
    from otelchain.errors import OtelchainError as OtelchainError
    from otelchain.errors import RedactionPolicyError as RedactionPolicyError
    from otelchain.handler import HandlerStats as HandlerStats
    from otelchain.handler import OtelCallbackHandler as OtelCallbackHandler
    from otelchain.instrumentation import instrument as instrument
    from otelchain.instrumentation import uninstrument as uninstrument
    from otelchain.nesting import nest_spans as nest_spans
    from otelchain.nesting import unnest_spans as unnest_spans
    from otelchain.payload_store import PayloadStore as PayloadStore
    from otelchain.provider import configure as configure
    from otelchain.reading.traces import Traces as Traces
    from otelchain.reading.traces import open as open  # noqa: A004 - read as otelchain.open
    from otelchain.redaction import Redactor as Redactor
    from otelchain.wrappers import traced_embeddings as traced_embeddings
    from otelchain.wrappers import traced_reranker as traced_reranker

_HOMES = {
    "ConfigurationError": "otelchain.errors",
    "HandlerStats": "otelchain.handler",
    "OtelCallbackHandler": "otelchain.handler",
    "OtelchainError": "otelchain.errors",
    "PayloadStore": "otelchain.payload_store",
    "RedactionPolicyError": "otelchain.errors",
    "Redactor": "otelchain.redaction",
    "Traces": "otelchain.reading.traces",
    "configure": "otelchain.provider",
    "instrument": "otelchain.instrumentation",
    "nest_spans": "otelchain.nesting",
    "open": "otelchain.reading.traces",
    "traced_embeddings": "otelchain.wrappers",
    "traced_reranker": "otelchain.wrappers",
    "uninstrument": "otelchain.instrumentation",
    "unnest_spans": "otelchain.nesting",
}

# Without open(): after "from otelchain import *" nobody could open a file.
__all__ = sorted({*_HOMES, "__version__"} - {"open"})


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'otelchain' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])
