import re
from pathlib import Path

import pytest

import otelchain

ROOT = Path(__file__).parents[1]
PUBLIC = [
    "ConfigurationError",
    "HandlerStats",
    "OtelCallbackHandler",
    "OtelchainError",
    "PayloadStore",
    "RedactionPolicyError",
    "Redactor",
    "Traces",
    "__version__",
    "configure",
    "instrument",
    "nest_spans",
    "traced_embeddings",
    "traced_reranker",
    "uninstrument",
    "unnest_spans",
]


def test_the_public_names_are_these() -> None:
    assert otelchain.__all__ == PUBLIC
    # Not among them, so that a star import leaves Python's own open() alone.
    assert dir(otelchain) == sorted([*PUBLIC, "open"])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_used_from_the_package(name: str) -> None:
    assert getattr(otelchain, name) is getattr(otelchain, name)


def test_a_star_import_brings_every_public_name() -> None:
    names: dict[str, object] = {}

    exec("from otelchain import *", names)

    assert set(PUBLIC) <= set(names)


def test_an_unknown_name_is_an_attribute_error_that_says_it() -> None:
    with pytest.raises(AttributeError, match="'otelchain' has no attribute 'TraceHandler'"):
        otelchain.TraceHandler  # noqa: B018


def test_errors_share_one_base() -> None:
    assert issubclass(otelchain.ConfigurationError, otelchain.OtelchainError)
    assert issubclass(otelchain.RedactionPolicyError, otelchain.OtelchainError)


def test_the_version_is_the_one_in_pyproject() -> None:
    (declared,) = re.findall(r'(?m)^version = "(.+)"$', (ROOT / "pyproject.toml").read_text())

    assert otelchain.__version__ == declared


@pytest.mark.parametrize(
    "package", ["otelchain", "collector/otelchain_collector", "queries/otelchain_queries"]
)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
