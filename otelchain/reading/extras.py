"""Packages that the base install leaves out: which extra brings them."""

from typing import Final

from otelchain.errors import OtelchainError

_EXTRAS: Final = {
    "duckdb": "collector",
    "grpc": "collector",
    "langchain_core": "demo",
    "langgraph": "demo",
    "numpy": "collector",
    "pandas": "collector",
    "prometheus_client": "collector",
    "pyarrow": "collector",
    "rich": "collector",
    "starlette": "collector",
    "uvicorn": "collector",
}


class MissingExtraError(OtelchainError):
    """A command or function needs packages that the base install leaves out."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what!r} needs the {extra} extra; install it with: pip install 'otelchain[{extra}]'"
        )


def extra_of(error: ModuleNotFoundError) -> str | None:
    """Return the extra that brings the missing module; None when none does."""
    return _EXTRAS.get((error.name or "").partition(".")[0])
