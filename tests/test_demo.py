"""`otelchain demo`, run as a stranger runs it; expected names are read off application.py."""

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from otelchain.demo import models, planted
from otelchain.demo.errors import DemoError
from otelchain.demo.sidecar import running_collector

pytestmark = pytest.mark.timeout(300)

COMMAND = (sys.executable, "-c", "from otelchain.cli import main; main()")

# Variables of a developer's shell that must not change the demo.
HOSTILE_SHELL = {
    "OTEL_SDK_DISABLED": "true",
    "OTEL_TRACES_SAMPLER": "always_off",
    "OTELCHAIN_CAPTURE_CONTENT": "false",
    "OTELCHAIN_DATABASE": "/nowhere/else.duckdb",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
}


@dataclass(frozen=True)
class Ran:
    database: Path
    code: int
    output: str
    errors: str

    def answer(self, *typed: str) -> str:
        """What was printed between this command line and the next heading."""
        _, _, rest = self.output.partition(f"$ otelchain {' '.join(typed)} ")
        return re.split(r"\n\n(?=\S.*[?:]\n)", rest, maxsplit=1)[0].partition("\n")[2]


def run_demo(folder: Path, *arguments: str, more: dict[str, str] | None = None) -> Ran:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL", "LANG")) and not name.lower().endswith("_proxy")
    }
    database = folder / "traces of the demo.duckdb"
    run = subprocess.run(
        [*COMMAND, "demo", "--database", str(database), *arguments],
        capture_output=True,
        text=True,
        env={**environment, "COLUMNS": "200", **(more or {})},
        timeout=240,
        check=False,
    )
    return Ran(database, run.returncode, run.stdout, run.stderr)


@pytest.fixture(scope="module", name="demo")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_demo(tmp_path_factory.mktemp("demo"))


def rows(database: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_the_demo_ends_well_and_warns_of_nothing(demo: Ran) -> None:
    assert demo.code == 0, demo.output + demo.errors
    assert demo.errors == ""
    assert "Traceback" not in demo.output


def test_both_customers_are_answered(demo: Ran) -> None:
    assert "Assistant: You can return an item within 30 days;" in demo.output
    assert "Assistant: Order 4711 was damaged on its way;" in demo.output


def test_the_failed_and_the_empty_retriever_are_named_and_told_apart(demo: Ran) -> None:
    answer = demo.answer("query", "failed-retrievers")

    assert "past-tickets" in answer
    assert "ConnectionError" in answer
    assert "forum" in answer
    assert "handbook" not in answer


def test_the_slow_tool_is_named_and_the_quick_one_is_not(demo: Ran) -> None:
    answer = demo.answer("query", "slow-tools", "--min-duration", "1s")

    assert "track_parcel" in answer
    assert "find_order" not in answer


def test_the_mixed_parent_is_named_with_its_children(demo: Ran) -> None:
    answer = demo.answer("query", "mixed-status-parents")

    for name in ("search", "past-tickets", "handbook", "forum"):
        assert name in answer
    assert "read_stock" in answer  # its first attempt failed and was retried


def test_the_tree_shows_the_newest_trace_and_not_the_one_before(demo: Ran) -> None:
    tree = demo.answer("show", "last")

    steps = ["support-agent", "plan", "search", "handbook", "past-tickets", "forum", "stock"]
    for name in [*steps, "tools", "find_order", "track_parcel", "answer", "ChatScripted"]:
        assert name in tree
    assert "handbook-answer" not in tree


def test_what_is_recommended_next_works(demo: Ran) -> None:
    recommended = re.findall(r"(?m)^  otelchain (.+)$", demo.output)

    assert len(recommended) == 4
    for typed in recommended:
        run = subprocess.run([*COMMAND, *shlex.split(typed)], capture_output=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stdout


def test_no_planted_secret_is_printed_apart_from_the_customers_own_words(demo: Ran) -> None:
    questions_left_out = re.sub(r"(?m)^Customer: .*$", "", demo.output)

    assert planted.found_in([questions_left_out.encode(), demo.errors.encode()]) == []


def test_no_planted_secret_is_in_the_file_or_its_rows(demo: Ran) -> None:
    stored = [str(row[0]) for row in rows(demo.database, "SELECT spans::VARCHAR FROM spans")]
    files = [path.read_bytes() for path in demo.database.parent.iterdir()]

    assert any("was reported damaged at the depot" in text for text in stored)  # content is there
    assert planted.found_in([*files, *(text.encode() for text in stored)]) == []


def test_every_run_of_the_application_is_stored_with_its_type(demo: Ran) -> None:
    # By hand: the chain is sequence, parallel, sequence, retriever, function, passthrough, prompt,
    # model, parser. The agent is graph, five nodes, three retrievers, two tools, two models, and
    # the retried step with its two attempts.
    sql = "SELECT run_type, count(*) FROM runs GROUP BY ALL"
    counted = {str(run_type): number for run_type, number in rows(demo.database, sql)}

    assert counted == {
        "chain": 5 + 1 + 5 + 3,
        "retriever": 4,
        "prompt": 1,
        "llm": 3,
        "parser": 1,
        "tool": 2,
    }


def test_tokens_and_model_of_the_scripted_model_are_stored(demo: Ran) -> None:
    sql = "SELECT model, total_tokens FROM runs WHERE run_type = 'llm' ORDER BY total_tokens"

    model = "scripted-support-1"
    # handbook 412 + 21, plan 288 + 37, answer 731 + 24
    assert rows(demo.database, sql) == [(model, 325), (model, 433), (model, 755)]


def test_a_second_run_adds_its_traces_whatever_the_shell_has_set(tmp_path: Path) -> None:
    first = run_demo(tmp_path, more=HOSTILE_SHELL)
    second = run_demo(tmp_path, more=HOSTILE_SHELL)

    assert (first.code, second.code) == (0, 0), second.errors
    assert "exists; this run's traces are added to it" in second.output
    sql = "SELECT count(DISTINCT trace_id) FROM runs WHERE outputs IS NOT NULL"
    assert rows(second.database, sql) == [(4,)]


def test_a_file_that_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "traces of the demo.duckdb").write_text("notes on kettles\n" * 400)

    ran = run_demo(tmp_path)

    assert ran.code == 2
    assert ran.errors.startswith("Error: the collector did not start: ")
    assert ran.errors.count("\n") == 1


def test_a_model_without_its_package_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)  # as if it were not installed

    with pytest.raises(DemoError, match="try: pip install langchain langchain-openai"):
        models.real_models("openai:gpt-5-mini")


@pytest.fixture(name="provider_package")
def _provider_package(tmp_path: Path) -> dict[str, str]:
    """Stand for the package langchain; return the variables that make it importable."""
    package = tmp_path / "packages" / "langchain"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "chat_models.py").write_text(STAND_IN, "utf-8")
    paths = [str(package.parent), *sys.path]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


STAND_IN = """
from langchain_core.messages import AIMessage
from otelchain.demo.models import ChatScripted

class Refusing(ChatScripted):
    def _generate(self, *args, **kwargs):
        raise PermissionError("401: the key is not valid\\nrequest id 7")

def init_chat_model(name):
    if name == "acme:no-key":
        raise ValueError("ACME_API_KEY is not set\\nsee the documentation")
    said = (AIMessage(f"{name} says {number}.") for number in (1, 2, 3))
    return (Refusing if name == "acme:wrong-key" else ChatScripted)(messages=said)
"""


def test_a_real_model_serves_every_step_even_when_it_calls_no_tool(
    tmp_path: Path, provider_package: dict[str, str]
) -> None:
    ran = run_demo(tmp_path, "--model", "acme:good", more=provider_package)

    assert ran.code == 0, ran.errors
    # One model answers the chain, plans (without a tool call), and answers for the agent.
    assert re.findall("Assistant: (.+)", ran.output) == ["acme:good says 1.", "acme:good says 3."]
    assert rows(ran.database, "SELECT count(*) FROM runs WHERE run_type = 'tool'") == [(0,)]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("acme:no-key", "--model acme:no-key cannot be used: ACME_API_KEY is not set"),
        ("acme:wrong-key", "--model acme:wrong-key failed: 401: the key is not valid"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_in_one_line(
    model: str, said: str, tmp_path: Path, provider_package: dict[str, str]
) -> None:
    ran = run_demo(tmp_path, "--model", model, more=provider_package)

    assert ran.code == 2
    assert ran.errors == f"Error: {said}\n"


def test_the_demos_collector_takes_no_settings_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCHAIN_COLLECTOR_TOKEN", "a-token-of-the-users-collector")
    monkeypatch.setenv("OTELCHAIN_COLLECTOR_TLS_CERTIFICATE", str(tmp_path / "absent"))

    with (
        running_collector(tmp_path / "t.duckdb") as endpoint,
        urllib.request.urlopen(f"{endpoint}/queries", timeout=30) as response,
    ):
        assert response.status == 200
