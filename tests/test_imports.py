"""What an import loads. Static contracts (import-linter) cannot see imports inside functions."""

import json
import subprocess
import sys

import pytest

COLLECTOR_PARTS = {"duckdb", "pandas", "pyarrow", "rich", "starlette", "uvicorn"}
CONFIGURE = """
from otelchain import configure
configure(service_name="s", endpoint="http://127.0.0.1:9", set_global=False).shutdown()
"""


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys, json\nprint(json.dumps(list(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return set(json.loads(run.stdout))


def loaded_after(code: str) -> set[str]:
    """Top-level names of the loaded modules."""
    return {name.partition(".")[0] for name in modules_after(code)}


def test_importing_otelchain_loads_no_other_package() -> None:
    loaded = modules_after("import otelchain")

    assert {name for name in loaded if name.startswith("otelchain")} == {
        "otelchain",
        "otelchain.version",
    }
    for heavy in ("click", "duckdb", "grpc", "langchain_core", "opentelemetry", "pandas", "re2"):
        assert heavy not in loaded


def test_the_handler_loads_no_part_of_the_collector_or_the_command_line() -> None:
    loaded = loaded_after("from otelchain import OtelCallbackHandler, Redactor, configure")

    assert "langchain_core" in loaded
    assert not loaded & (COLLECTOR_PARTS | {"click", "grpc", "otelchain_collector"})
    assert "otelchain_queries" not in loaded


def test_exporting_over_http_loads_no_grpc() -> None:
    loaded = loaded_after(CONFIGURE)

    assert "requests" in loaded or "opentelemetry" in loaded
    assert not loaded & (COLLECTOR_PARTS | {"click", "grpc", "langchain_core"})


def test_naming_open_loads_no_database_and_no_pandas() -> None:
    loaded = loaded_after("import otelchain; otelchain.open; otelchain.Traces")

    assert "otelchain_queries" in loaded
    assert not loaded & (COLLECTOR_PARTS | {"click", "grpc", "langchain_core", "opentelemetry"})


@pytest.mark.parametrize("module", ["otelchain.cli", "otelchain.demo.command"])
def test_the_command_line_starts_without_its_heavy_parts(module: str) -> None:
    loaded = loaded_after(f"import {module}")

    assert "click" in loaded
    assert not loaded & {"duckdb", "grpc", "langchain_core", "langgraph", "pandas", "uvicorn"}


def test_the_collector_loads_no_langchain() -> None:
    loaded = loaded_after("import otelchain_collector.server")

    assert {"duckdb", "h2"} <= loaded
    # gRPC's own library would be another 14 MB, and threads, for what h2 does.
    assert not loaded & {"grpc", "langchain_core", "langgraph", "langsmith"}


def test_the_queries_load_nothing_of_ours_but_the_errors() -> None:
    loaded = modules_after("import otelchain_queries; otelchain_queries.names()")
    ours = {name for name in loaded if name.startswith(("otelchain.", "otelchain_collector"))}

    assert ours == {"otelchain.errors", "otelchain.version"}
    assert not loaded & {"duckdb", "click", "pandas"}
