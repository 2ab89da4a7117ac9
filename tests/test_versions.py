"""The handler under the oldest and the newest supported LangChain, with LangGraph and without."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
# In this order: each set is installed over the one before.
VERSIONS = {
    "newest langchain-core, no LangGraph": ["--constraint", "constraints.txt", "langchain-core"],
    "oldest langchain-core, no LangGraph": ["langchain-core==1.0.0"],
    "oldest langchain-core, oldest LangGraph": ["langchain-core==1.0.0", "langgraph==1.0.0"],
}
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
# What they test needs no collector; what needs another part skips itself.
TESTS = [
    "test_bad_input.py",
    "test_feature_rows.py",
    "test_handler.py",
    "test_instrumentation.py",
    "test_metrics.py",
    "test_nesting.py",
    "test_provider.py",
    "test_snapshot.py",
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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


@pytest.fixture(scope="module", name="python")
def _python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    environment = tmp_path_factory.mktemp("versions")
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "venv", environment)
    run(python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", *NEEDED)
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (site / "checkout.pth").write_text(
        "\n".join(str(REPOSITORY / part) for part in (".", "collector", "queries"))
    )
    return python


@pytest.mark.parametrize("versions", VERSIONS)
def test_the_handler_works_with(versions: str, python: Path) -> None:
    run(python, "-m", "pip", "install", "--quiet", *VERSIONS[versions])

    output = run(python, "-m", "pytest", "-q", *(f"tests/{name}" for name in TESTS))

    assert " passed" in output
    assert "failed" not in output
