"""The handler under the oldest supported langchain-core, without LangGraph and the collector."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
OLDEST = "langchain-core==1.0.0"
NEEDED = [
    "click",
    "google-re2",
    "hypothesis",
    "opentelemetry-exporter-otlp",
    "opentelemetry-sdk",
    "orjson",
    "phonenumbers",
    "pytest",
    "pytest-timeout",
    "python-stdnum",
]
# What they test needs no collector; tests of LangGraph skip themselves.
TESTS = ["test_handler.py", "test_nesting.py", "test_instrumentation.py", "test_metrics.py"]


def run(*command: str | Path) -> str:
    result = subprocess.run(
        list(map(str, command)),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-3_000:]
    return result.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_handler_works_with_the_oldest_langchain_and_without_langgraph(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", *NEEDED)
    run(python, "-m", "pip", "install", "--quiet", OLDEST)
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (site / "checkout.pth").write_text(
        "\n".join(str(REPOSITORY / part) for part in (".", "collector", "queries"))
    )

    output = run(python, "-m", "pytest", "-q", *(f"tests/{name}" for name in TESTS))

    assert " passed" in output
    assert "failed" not in output
