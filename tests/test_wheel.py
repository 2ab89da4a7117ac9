"""The wheel as users get it: built, installed into a new environment, run from another folder."""

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "otelchain": ROOT / "otelchain",
    "otelchain_collector": ROOT / "collector" / "otelchain_collector",
    "otelchain_queries": ROOT / "queries" / "otelchain_queries",
}
SEND_A_FAILED_RETRIEVER = """
import sys
from opentelemetry.trace import Status, StatusCode
from otelchain import configure

provider = configure(service_name="elsewhere", endpoint=sys.argv[1])
with provider.get_tracer("otelchain").start_as_current_span("search-docs") as span:
    span.set_attribute("otelchain.run.type", "retriever")
    span.set_attribute("otelchain.run.status", "error")
    span.set_status(Status(StatusCode.ERROR, "index is gone"))
provider.shutdown()
"""


def run(command: Sequence[str | Path], cwd: Path) -> str:
    # Neither the checkout nor the settings of this process may reach the new environment.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "OTEL"))
    }
    finished = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    # First the sdist, then the wheel from it: what is missing in the one is missing in both.
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return folder


@pytest.fixture(scope="module", name="wheel")
def _wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module", name="installed")
def _installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of commands of an environment with the wheel and its extra collector."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [commands / "python", "-m", "pip", "install", "--quiet"]
    run([*pip, "-c", ROOT / "constraints.txt", f"{wheel}[collector]"], folder)
    return commands


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_owns_exactly_three_names(wheel: Path) -> None:
    owned = {name.partition("/")[0] for name in names_in(wheel)}

    assert {name for name in owned if not name.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_holds_every_module_and_sql_file_and_nothing_else(wheel: Path) -> None:
    held = {name for name in names_in(wheel) if ".dist-info/" not in name}

    expected = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= held
    assert "otelchain_queries/slow_tools.sql" in held
    assert "otelchain_collector/migrations/0001_spans.sql" in held


def test_the_licence_travels_with_the_wheel(wheel: Path) -> None:
    assert any(re.search(r"\.dist-info/licenses/LICENSE$", name) for name in names_in(wheel))


def test_the_source_archive_can_be_tested_and_deployed(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}

    assert {"Makefile", "constraints.txt", "tests/test_wheel.py", "deploy/Dockerfile"} <= held
    assert not [name for name in held if "__pycache__" in name or name.endswith(".duckdb")]


def test_the_command_says_its_version(installed: Path, wheel: Path, tmp_path: Path) -> None:
    said = run([installed / "otelchain", "--version"], tmp_path)

    assert wheel.name.split("-")[1] in said


def test_the_command_lists_the_bundled_queries(installed: Path, tmp_path: Path) -> None:
    listed = run([installed / "otelchain", "query"], tmp_path)

    for name in ("failed-retrievers", "slow-tools", "mixed-status-parents"):
        assert name in listed


def test_the_extra_collector_brings_no_langchain(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(
        run([installed / "python", "-m", "pip", "list", "--format", "json"], tmp_path)
    )

    names = {entry["name"].lower() for entry in listed}
    assert "duckdb" in names
    assert not {name for name in names if name.startswith(("langchain", "langgraph", "langsmith"))}


def test_a_span_sent_to_the_installed_collector_is_found_by_the_installed_query(
    installed: Path, tmp_path: Path
) -> None:
    database = tmp_path / "traces.duckdb"
    ask = [installed / "otelchain", "query", "failed-retrievers", "--database", database]
    ask += ["--format", "json"]
    collect = [installed / "otelchain", "collector", "--database", database]
    collect += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with subprocess.Popen(collect, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        http = process.stdout.readline().rstrip().rpartition(" http=")[2]
        run([installed / "python", "-c", SEND_A_FAILED_RETRIEVER, f"http://{http}"], tmp_path)
        while_it_runs = run(ask, tmp_path)
        process.terminate()
        assert process.wait(30) == 0

    assert "search-docs" in while_it_runs
    assert run(ask, tmp_path) == while_it_runs
