"""`otelchain doctor` against real collectors and the mistakes that people make."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import collector_process
from collector_process import RunningCollector, readiness
from exchanged import make_database
from otelchain_collector.store import Store
from otlp_requests import request, span
from stored_runs import asked, make_store
from tls_files import Files

TOKEN = "a-token-of-the-tests"


@pytest.fixture(name="collector", scope="module")
def _collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("doctor")
    collector = collector_process.start(folder / "t.duckdb", folder / "log")
    yield collector
    collector.kill()


def findings(*arguments: str, **variables: str) -> tuple[int, list[dict[str, str]]]:
    result = asked("doctor", "--format", "json", *arguments, **variables)
    assert result.stderr == b""
    found: list[dict[str, str]] = json.loads(result.stdout)
    return result.returncode, found


def texts(found: list[dict[str, str]], check: str, level: str) -> str:
    """Return text and remedy of the findings of a kind."""
    chosen = [each for each in found if (each["check"], each["level"]) == (check, level)]
    return "\n".join(f"{each['text']} -> {each['remedy']}" for each in chosen)


def sending_to(collector: RunningCollector, protocol: str = "http/protobuf") -> dict[str, str]:
    address = collector.grpc if protocol == "grpc" else collector.http
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTELCHAIN_DATABASE": str(collector.database),
    }


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_nothing_is_wrong_when_spans_reach_the_collector(
    collector: RunningCollector, protocol: str
) -> None:
    code, found = findings(**sending_to(collector, protocol))

    assert code == 0
    assert {each["level"] for each in found} <= {"ok", "note"}
    assert "takes OTLP" in texts(found, "port", "ok")
    assert f"answers at http://{collector.http}" in texts(found, "collector", "ok")
    assert "schema version" in texts(found, "file", "ok")
    assert readiness(collector)["spans_stored"] == 0


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize(
    "endpoint", ["http://localhost:abc", "http://[", "http://local host:4318", "http://:4318"]
)
def test_an_endpoint_that_is_no_address_is_said(
    collector: RunningCollector, protocol: str, endpoint: str
) -> None:
    variables = sending_to(collector, protocol) | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}

    code, found = findings(**variables)

    assert code == 1
    assert f"{endpoint}" in texts(found, "exporter", "error")
    assert "write it as http://HOST:PORT" in texts(found, "exporter", "error")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("header", ["x-key=hunter%0A2", "x-key=hunter%E2%82%AC2", "x key=hunter2"])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    collector: RunningCollector, protocol: str, header: str
) -> None:
    variables = sending_to(collector, protocol) | {"OTEL_EXPORTER_OTLP_HEADERS": header}

    code, found = findings(**variables)

    assert code == 1
    assert repr(header.partition("=")[0]) in texts(found, "exporter", "error")
    assert "hunter" not in json.dumps(found)


def test_a_grpc_endpoint_may_lack_its_scheme_where_it_is_said_to_be_insecure(
    collector: RunningCollector,
) -> None:
    variables = sending_to(collector, "grpc") | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.grpc}

    secure, _ = findings(**variables)
    insecure, found = findings(**variables, OTEL_EXPORTER_OTLP_INSECURE="true")

    assert (secure, insecure) == (1, 0)
    assert texts(found, "exporter", "warning") == ""


def test_text_has_a_line_per_finding_and_what_to_do(collector: RunningCollector) -> None:
    result = asked("doctor", **{**sending_to(collector), "OTEL_SDK_DISABLED": "true"})

    lines = result.stdout.decode().splitlines()
    place = lines.index("ERROR   sdk: OTEL_SDK_DISABLED is true: no span is made")
    assert lines[place + 1] == "        -> unset OTEL_SDK_DISABLED"
    assert result.returncode == 1


@pytest.mark.parametrize(
    ("variables", "check", "level", "text"),
    [
        ({"OTEL_SDK_DISABLED": "True"}, "sdk", "error", "no span is made"),
        ({"OTEL_TRACES_EXPORTER": "none"}, "sdk", "error", "sends no OTLP"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "sdk", "error", "sends no OTLP"),
        ({"OTEL_TRACES_EXPORTER": "console,otlp"}, "sdk", "error", ""),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, "sdk", "warning", "leaves out some or all"),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, "sdk", "warning", ""),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "x, otelchain"},
            *("sdk", "error", "leaves it out"),
        ),
        ({"LANGSMITH_TRACING": "true"}, "langsmith", "warning", "with their content unredacted"),
        ({"LANGCHAIN_TRACING_V2": "TRUE"}, "langsmith", "warning", "go to LangSmith"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "10000"}, "exporter", "warning", "is in seconds"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "nan"}, "exporter", "error", "TIMEOUT=nan is not a number"),
        ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "inf"}, "exporter", "error", "TRACES_TIMEOUT=inf"),
        ({"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "10s"}, "exporter", "error", "LOGS_TIMEOUT=10s"),
        ({"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "-1"}, "exporter", "error", "METRICS_TIMEOUT=-1"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "0"}, "exporter", "error", "TIMEOUT=0 is not"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}, "exporter", "error", ""),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "exporter", "error", "COMPRESSION=zstd"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "Deflate"}, "exporter", "error", ""),
        ({"OTEL_BSP_SCHEDULE_DELAY": "5s"}, "sdk", "error", "OTEL_BSP_SCHEDULE_DELAY=5s"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "sdk", "error", "OTEL_BSP_MAX_QUEUE_SIZE=0"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "256"}, "sdk", "error", "(512) is more than OTEL_BSP_MAX_QUE"),
        ({"OTEL_BLRP_EXPORT_TIMEOUT": "1e4"}, "sdk", "error", "OTEL_BLRP_EXPORT_TIMEOUT=1e4"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "nan"}, "sdk", "error", "METRIC_EXPORT_INTERVAL=nan"),
        ({"OTEL_SPAN_EVENT_COUNT_LIMIT": "many"}, "sdk", "error", "EVENT_COUNT_LIMIT=many"),
        ({"OTEL_SPAN_EVENT_COUNT_LIMIT": "0"}, "sdk", "error", ""),
        ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1000"}, "sdk", "warning", "cuts inputs and output"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "exporter", "error", "http/json"),
        ({"OTELCHAIN_CAPTURE_CONTEXT": "no"}, "settings", "warning", "OTELCHAIN_CAPTURE_CONTENT?"),
        ({"OTELCHAIN_CAPTURE_CONTENT": "no"}, "settings", "ok", "OTELCHAIN_CAPTURE_CONTENT=no"),
        ({"http_proxy": "http://proxy:1"}, "proxy", "error", "NO_PROXY does not name 127.0.0.1"),
        ({"http_proxy": "http://proxy:1", "NO_PROXY": "127.0.0.1"}, "proxy", "error", ""),
        ({"http_proxy": "http://proxy:1", "no_proxy": "a, 127.0.0.1"}, "proxy", "error", ""),
        ({"OTELCHAIN_SPOOL": "/var/spool/x"}, "retries", "ok", "the batch waits in /var/spool/x"),
        ({}, "retries", "note", "within 10 s for all tries of a batch; after that the batch is"),
    ],
)
def test_variables_that_lead_astray_are_named(
    collector: RunningCollector, variables: dict[str, str], check: str, level: str, text: str
) -> None:
    _, found = findings(**sending_to(collector), **variables)

    said = texts(found, check, level)
    assert text in said
    assert bool(text) == bool(said)


@pytest.mark.parametrize(
    ("variables", "is_caught"),
    [
        ({"grpc_proxy": "http://proxy:1"}, True),
        ({"https_proxy": "http://proxy:1"}, True),
        ({"https_proxy": "http://proxy:1", "no_grpc_proxy": "127.0.0.1"}, False),
        ({"HTTP_PROXY": "http://proxy:1"}, False),
    ],
)
def test_grpc_has_proxy_variables_of_its_own(
    collector: RunningCollector, variables: dict[str, str], is_caught: bool
) -> None:
    _, found = findings(**sending_to(collector, "grpc"), **variables)

    assert bool(texts(found, "proxy", "error")) is is_caught


def test_each_protocol_at_the_others_port_is_told_apart(collector: RunningCollector) -> None:
    def said(address: str, protocol: str) -> str:
        code, found = findings(
            **{
                **sending_to(collector),
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            }
        )
        assert code == 1
        return texts(found, "port", "error")

    assert "it is a gRPC port; set OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in said(
        collector.grpc, "http/protobuf"
    )
    assert "it is an HTTP port; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in said(
        collector.http, "grpc"
    )


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_port_where_nobody_listens_is_said(collector: RunningCollector, protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    variables = {**sending_to(collector, protocol)}
    variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{closed}"

    code, found = findings(**variables)

    assert code == 1
    assert "nothing answers at" in texts(found, "port", "error")
    # And the collector of this database is elsewhere.
    mine = collector.grpc if protocol == "grpc" else collector.http
    said = texts(found, "exporter", "warning")
    assert f"export OTEL_EXPORTER_OTLP_ENDPOINT=http://{mine}" in said


def test_another_program_at_the_port_is_said(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split(" port ")[1].split()[0]
        code, found = findings(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
        server.kill()

    assert code == 1
    assert "takes no OTLP there (status 501" in texts(found, "port", "error")


def test_a_missing_token_is_said_and_none_is_shown(
    start_collector: Callable[..., RunningCollector],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTELCHAIN_COLLECTOR_TOKEN", TOKEN)
    collector = start_collector(tmp_path / "t.duckdb")
    for protocol in ("http/protobuf", "grpc"):
        code, found = findings(**sending_to(collector, protocol))
        assert code == 1
        assert "OTEL_EXPORTER_OTLP_HEADERS" in texts(found, "port", "error")
        assert "set OTELCHAIN_TOKEN" in texts(found, "collector", "note")

        variables = {
            **sending_to(collector, protocol),
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{TOKEN}",
            "OTELCHAIN_TOKEN": TOKEN,
        }
        code, found = findings(**variables)
        assert code == 0
        assert TOKEN not in json.dumps(found)


def test_a_stopped_collector_is_said(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    os.kill(collector.process.pid, signal.SIGSTOP)
    try:
        code, found = findings(**sending_to(collector))
    finally:
        os.kill(collector.process.pid, signal.SIGCONT)

    assert code == 1
    assert "no answer in time" in texts(found, "port", "error")
    said = texts(found, "collector", "error")
    assert f"the collector with PID {collector.process.pid} does not answer" in said
    assert "kill -CONT" in said


def test_the_file_alone_is_looked_at(tmp_path: Path) -> None:
    database = make_store(tmp_path / "t.duckdb")
    database.chmod(0o644)

    _, found = findings("--database", str(database))

    assert "4 spans" in texts(found, "file", "ok")
    assert f"chmod 600 {database}" in texts(found, "file", "warning")
    assert "GiB are free" in texts(found, "disk", "ok")


def test_a_folder_in_place_of_the_file_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "t.duckdb"
    folder.mkdir()
    folder.chmod(0o755)  # Whatever the umask of this process is.

    _, found = findings("--database", str(folder))

    assert f"chmod 700 {folder}" in texts(found, "file", "warning")


@pytest.mark.parametrize(
    ("protocol", "scheme", "kind", "content"),
    [
        ("http/protobuf", "http", "CERTIFICATE", None),
        ("http/protobuf", "https", "CERTIFICATE", None),
        ("http/protobuf", "https", "TRACES_CERTIFICATE", None),
        ("http/protobuf", "https", "CLIENT_KEY", "not PEM"),
        ("grpc", "https", "CERTIFICATE", None),
        ("grpc", "https", "CERTIFICATE", "not PEM"),
        ("grpc", "https", "TRACES_CERTIFICATE", "not PEM"),
        ("grpc", "http", "TRACES_CERTIFICATE", None),
    ],
)
def test_a_certificate_file_that_cannot_be_used_is_said(
    collector: RunningCollector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    scheme: str,
    kind: str,
    content: str | None,
) -> None:
    for bundle in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(bundle, raising=False)
    variables = sending_to(collector, protocol)
    endpoint = variables["OTEL_EXPORTER_OTLP_ENDPOINT"].replace("http", scheme, 1)
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    name = f"OTEL_EXPORTER_OTLP_{kind}"
    variables |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, name: str(file)}
    if kind == "CLIENT_KEY":
        client = Files(tmp_path / "files").client_certificate
        variables["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"] = str(client)

    code, found = findings(**variables)

    assert code == (1 if scheme == "https" else 0)
    level = "error" if scheme == "https" else "warning"
    assert f"{name} {file}" in texts(found, "certificate", level)


@pytest.mark.parametrize("option", ["--ca-file", "--client-certificate"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_certificate_file_of_the_command_that_cannot_be_used_is_said(
    collector: RunningCollector, tmp_path: Path, scheme: str, option: str
) -> None:
    file = tmp_path / "file"
    endpoint = f"{scheme}://{collector.http}"

    code, found = findings(option, str(file), "--endpoint", endpoint, **sending_to(collector))

    assert code == (1 if scheme == "https" else 0)
    level = "error" if scheme == "https" else "warning"
    assert f"{option} {file}" in texts(found, "certificate", level)


def test_compression_over_grpc_is_gzip_or_its_variable_is_not_set(
    collector: RunningCollector,
) -> None:
    for name, is_wrong in {"none": True, "deflate": True, "gzip": False, "": True}.items():
        variables = {"OTEL_EXPORTER_OTLP_COMPRESSION": name}
        _, found = findings(**sending_to(collector, "grpc"), **variables)
        assert ("over grpc knows" in texts(found, "exporter", "error")) is is_wrong


def test_clocks_are_compared_over_grpc_too(collector: RunningCollector) -> None:
    _, found = findings(**sending_to(collector, "grpc"))

    assert "agrees with this one" in texts(found, "clock", "ok")


def test_spans_that_older_rules_have_read_are_told(tmp_path: Path) -> None:
    database = make_database(tmp_path / "t.duckdb", request(span(), span()))
    _, before = findings("--database", str(database))
    with duckdb.connect(str(database)) as connection:
        connection.execute("DELETE FROM normalisation_rules")

    _, found = findings("--database", str(database))

    assert "older rules" not in texts(before, "file", "warning")
    told = texts(found, "file", "warning")
    assert "the columns of 2 stored spans were read by older rules (version 0, now" in told
    assert "-> otelchain reindex" in told


def test_a_log_that_was_damaged_is_said(tmp_path: Path) -> None:
    database = tmp_path / "t.duckdb"
    Store.open(database).close()
    aside = tmp_path / "t.duckdb.wal.damaged-20261130T000000Z"
    aside.write_bytes(b"x")

    _, found = findings("--database", str(database))

    assert str(aside) in texts(found, "file", "warning")


@pytest.mark.parametrize("kind", ["missing", "other", "no folder"])
def test_a_file_that_is_no_store_is_said(tmp_path: Path, kind: str) -> None:
    database = tmp_path / "x.duckdb"
    if kind == "other":
        database.write_text("hello\n" * 1000)
    if kind == "no folder":
        database = tmp_path / "absent" / "x.duckdb"

    code, found = findings("--database", str(database))

    assert code == 1  # At least: nothing listens at the default port.
    level = "error" if kind == "other" else "warning"
    expected = "is not a DuckDB database" if kind == "other" else "there is no database"
    assert expected in texts(found, "file", level)
    assert ("does not exist" in texts(found, "disk", "error")) is (kind == "no folder")


def test_a_clock_that_is_off_is_said() -> None:
    from email.utils import formatdate
    from time import time

    from otelchain.cli.doctor.probe import clock

    def level(ahead_seconds: float) -> Any:
        [finding] = clock(formatdate(time() + ahead_seconds, usegmt=True))
        return finding.level

    assert [level(0), level(30), level(-3600)] == ["ok", "warning", "warning"]
    assert list(clock(None)) == []


def test_no_secret_is_shown_and_each_is_known(collector: RunningCollector) -> None:
    secrets = ("OTELCHAIN_TOKEN", "OTELCHAIN_COLLECTOR_TOKEN", "OTELCHAIN_REDACTION_KEY")

    _, found = findings(**sending_to(collector), **dict.fromkeys(secrets, TOKEN))

    said = texts(found, "settings", "ok")
    assert TOKEN not in json.dumps(found)
    assert all(f"{name}=(hidden)" in said for name in secrets)
    assert not texts(found, "settings", "warning")
