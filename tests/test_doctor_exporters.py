"""`otelchain doctor` says what the real exporters do with the same variables."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from opentelemetry.exporter.otlp.proto.grpc.exporter import InvalidCompressionValueException
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

import collector_process
from collector_process import RunningCollector
from stored_runs import asked
from test_doctor import findings, texts
from tls_files import Files

GRPC = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
TOKEN = "a-token-of-the-tests"


class Ports(NamedTuple):
    """Collectors without TLS, with it, and with certificates of clients; who may reach them."""

    plain: RunningCollector
    encrypted: RunningCollector
    mutual: RunningCollector
    files: Files
    strangers: Files


@pytest.fixture(name="ports", scope="module")
def _ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("ports")
    files = Files(folder / "files")
    collectors = [
        collector_process.start(folder / f"{name}.duckdb", folder / name, *options)
        for name, options in {
            "plain": [],
            "encrypted": files.options(),
            "mutual": files.options(mutual=True),
        }.items()
    ]
    plain, encrypted, mutual = collectors
    yield Ports(plain, encrypted, mutual, files, Files(folder / "strangers"))
    for collector in collectors:
        collector.kill()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an application: no database beside it, and exporters that do not try for long."""
    monkeypatch.chdir(tmp_path)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES", "DATA_LOSS")


def arrives(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> bool:
    """Send a span with the exporter that these variables make."""
    is_grpc = variables.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc"
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        if not is_grpc:
            patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        try:
            exporter = GrpcSpanExporter() if is_grpc else OTLPSpanExporter()
        except InvalidCompressionValueException:
            return False
        try:
            return exporter.export([_span()]) is SpanExportResult.SUCCESS
        finally:
            exporter.shutdown()


def _span() -> ReadableSpan:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
    span.end()
    assert isinstance(span, ReadableSpan)
    return span


def told(variables: dict[str, str]) -> tuple[int, str]:
    """Return the exit code, and what was found at the port."""
    code, found = findings(**variables)
    assert code in (0, 1)
    return code, texts(found, "port", "error")


INSECURE: list[dict[str, str]] = [
    {},
    {"OTEL_EXPORTER_OTLP_INSECURE": "true"},
    {"OTEL_EXPORTER_OTLP_INSECURE": "False"},
    {"OTEL_EXPORTER_OTLP_INSECURE": ""},
    {"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "TRUE"},
    {"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "1"},
    {"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "true", "OTEL_EXPORTER_OTLP_INSECURE": "false"},
    {"OTEL_EXPORTER_OTLP_TRACES_INSECURE": "false", "OTEL_EXPORTER_OTLP_INSECURE": "true"},
]


@pytest.mark.parametrize("scheme", ["http://", "https://", "HTTP://", "", "dns:"])
@pytest.mark.parametrize("insecure", INSECURE, ids=str)
@pytest.mark.parametrize("what", ["ENDPOINT", "TRACES_ENDPOINT"])
def test_grpc_speaks_tls_when_the_exporter_does(
    ports: Ports,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    insecure: dict[str, str],
    what: str,
) -> None:
    for collector in (ports.plain, ports.encrypted):
        variables = {
            **GRPC,
            **insecure,
            f"OTEL_EXPORTER_OTLP_{what}": scheme + collector.grpc,
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(ports.files.ca),
        }
        code, said = told(variables)

        assert code == (0 if arrives(monkeypatch, variables) else 1), (variables, said)
        assert "HTTP port" not in said


TRUST = {
    "nothing": {},
    "an authority": {"CERTIFICATE": "ca"},
    "one for traces": {"TRACES_CERTIFICATE": "ca"},
    "one for traces wins": {"TRACES_CERTIFICATE": "ca", "CERTIFICATE": "wrong ca"},
    "a wrong one for traces wins": {"TRACES_CERTIFICATE": "wrong ca", "CERTIFICATE": "ca"},
    "none for traces": {"TRACES_CERTIFICATE": "", "CERTIFICATE": "ca"},
    "a client": {"CERTIFICATE": "ca", "CLIENT_CERTIFICATE": "crt", "CLIENT_KEY": "key"},
    "a client without authority": {"CLIENT_CERTIFICATE": "crt", "CLIENT_KEY": "key"},
    "a client for traces": {
        "TRACES_CERTIFICATE": "ca",
        "TRACES_CLIENT_CERTIFICATE": "crt",
        "TRACES_CLIENT_KEY": "key",
    },
    "a client for traces wins": {
        "CERTIFICATE": "ca",
        "CLIENT_CERTIFICATE": "wrong crt",
        "CLIENT_KEY": "wrong key",
        "TRACES_CERTIFICATE": "ca",
        "TRACES_CLIENT_CERTIFICATE": "crt",
        "TRACES_CLIENT_KEY": "key",
    },
    "two prefixes": {"TRACES_CERTIFICATE": "ca", "CLIENT_CERTIFICATE": "crt", "CLIENT_KEY": "key"},
    "the other two": {
        "CERTIFICATE": "ca",
        "TRACES_CLIENT_CERTIFICATE": "crt",
        "TRACES_CLIENT_KEY": "key",
    },
    "traces without TLS": {
        "TRACES_INSECURE": "true",
        "TRACES_CERTIFICATE": "wrong ca",
        "CERTIFICATE": "ca",
    },
    "a bundle": {"REQUESTS_CA_BUNDLE": "ca"},
    "a bundle wins": {"REQUESTS_CA_BUNDLE": "wrong ca", "CERTIFICATE": "ca"},
}


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("trust", TRUST)
def test_certificates_are_those_of_the_exporter(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, protocol: str, trust: str
) -> None:
    mine, theirs = ports.files, ports.strangers
    files = {
        "ca": mine.ca,
        "crt": mine.client_certificate,
        "key": mine.client_key,
        "wrong ca": theirs.ca,
        "wrong crt": theirs.client_certificate,
        "wrong key": theirs.client_key,
    }
    for collector in (ports.encrypted, ports.mutual):
        address = collector.grpc if protocol == "grpc" else collector.http
        variables = {
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{address}",
        }
        for name, value in TRUST[trust].items():
            prefix = "" if name.endswith("BUNDLE") else "OTEL_EXPORTER_OTLP_"
            variables[prefix + name] = str(files.get(value, value))
        code, said = told(variables)

        assert code == (0 if arrives(monkeypatch, variables) else 1), (variables, said)


@pytest.mark.parametrize(
    ("protocol", "what", "text", "remedy"),
    [
        ("http/protobuf", "ENDPOINT", "http://{http}/", ""),
        ("http/protobuf", "ENDPOINT", "", ""),
        ("http/protobuf", "TRACES_ENDPOINT", "http://{http}/v1/traces", ""),
        (
            *("http/protobuf", "TRACES_ENDPOINT", "http://{http}"),
            "add /v1/traces to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ),
        (
            *("http/protobuf", "TRACES_ENDPOINT", "http://{http}/v1/spans"),
            "add /v1/traces to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ),
        # The collector forgives this one; others do not.
        ("http/protobuf", "ENDPOINT", "http://{http}/v1/traces", ""),
        ("http/protobuf", "ENDPOINT", "http://{http}//", None),
        ("grpc", "ENDPOINT", "http://{grpc}/v1/traces", ""),
        ("grpc", "ENDPOINT", "", None),
        ("grpc", "COMPRESSION", "", None),
        ("grpc", "TRACES_COMPRESSION", "", None),
        ("grpc", "TRACES_ENDPOINT", "", ""),
    ],
)
def test_paths_and_empty_variables_are_taken_as_the_exporter_takes_them(
    ports: Ports,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    what: str,
    text: str,
    remedy: str | None,
) -> None:
    address = ports.plain.grpc if protocol == "grpc" else ports.plain.http
    value = text.format(http=ports.plain.http, grpc=ports.plain.grpc)
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        f"OTEL_EXPORTER_OTLP_{what}": value,
    }
    if protocol != "grpc" and not value:
        variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"http://{address}/v1/traces"

    code, said = told(variables)

    assert code == (0 if arrives(monkeypatch, variables) else 1), (variables, said)
    assert (code == 0) is (remedy == "")
    assert (remedy or "") in said


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("CLIENT_KEY", "set OTEL_EXPORTER_OTLP_CERTIFICATE"),
        ("TRACES_CLIENT_KEY", "set OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"),
        ("CERTIFICATE CLIENT_KEY CLIENT_CERTIFICATE", ""),
        ("CERTIFICATE TRACES_CLIENT_KEY", "set OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"),
        ("TRACES_CERTIFICATE CLIENT_CERTIFICATE", "set OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERT"),
    ],
)
def test_client_certificates_that_grpc_does_not_read_are_told(
    ports: Ports, given: str, expected: str
) -> None:
    files = ports.files
    paths = {"CERTIFICATE": files.ca, "CLIENT_KEY": files.client_key}
    variables = {**GRPC, "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{ports.encrypted.grpc}"}
    for name in given.split():
        path = paths.get(name.removeprefix("TRACES_"), files.client_certificate)
        variables[f"OTEL_EXPORTER_OTLP_{name}"] = str(path)

    _, found = findings(**variables)

    said = texts(found, "exporter", "warning")
    assert expected in said
    assert ("does not read" in said) is bool(expected)


@pytest.mark.parametrize("prefix", ["", "TRACES_"])
@pytest.mark.parametrize(("given", "missing"), [("CERTIFICATE", "KEY"), ("KEY", "CERTIFICATE")])
def test_half_a_client_certificate_is_told_and_not_tried(
    ports: Ports, prefix: str, given: str, missing: str
) -> None:
    """gRPC would call abort()."""
    files = ports.files
    variable = f"OTEL_EXPORTER_OTLP_{prefix}"
    code, found = findings(
        **GRPC,
        **{
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{ports.mutual.grpc}",
            f"{variable}CERTIFICATE": str(files.ca),
            f"{variable}CLIENT_{given}": str(files.client_key),
        },
    )

    assert code == 1
    assert f"set {variable}CLIENT_{missing}" in texts(found, "certificate", "error")


def test_a_path_that_is_there_twice_is_told_where_that_is_an_error() -> None:
    class NotFound(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with HTTPServer(("127.0.0.1", 0), NotFound) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        address = f"http://127.0.0.1:{server.server_port}/v1/traces"
        code, said = told({"OTEL_EXPORTER_OTLP_ENDPOINT": address})
        answering.join()

    assert code == 1
    assert "take /v1/traces out of OTEL_EXPORTER_OTLP_ENDPOINT" in said


def test_an_address_without_a_scheme_is_one_with_tls(ports: Ports) -> None:
    _, said = told({**GRPC, "OTEL_EXPORTER_OTLP_ENDPOINT": ports.plain.grpc})

    assert "does not speak TLS, and the exporter does" in said
    assert (
        f"write OTEL_EXPORTER_OTLP_ENDPOINT=http://{ports.plain.grpc}, or "
        "OTEL_EXPORTER_OTLP_INSECURE=true" in said
    )


def test_each_trouble_over_grpc_is_told_by_its_name(ports: Ports) -> None:
    def said(address: str, **more: str) -> str:
        code, text = told({**GRPC, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": address, **more})
        assert code == 1
        return text

    plain, encrypted, mutual = (each.grpc for each in ports[:3])
    ca = {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": str(ports.files.ca)}
    wrong = {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": str(ports.strangers.ca)}
    variable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
        silent = said(f"http://127.0.0.1:{closed}")
    troubles = {
        said(f"http://{encrypted}"): f"if it speaks TLS, set {variable}=https://{encrypted}",
        said(f"https://{encrypted}"): "set OTEL_EXPORTER_OTLP_CERTIFICATE to its authority",
        said(f"https://{encrypted}", **wrong): "set OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE to its",
        said(f"https://{plain}", **ca): f"write {variable}=http://{plain}",
        said(f"http://{plain}", OTEL_EXPORTER_OTLP_INSECURE="no"): (
            "unset OTEL_EXPORTER_OTLP_INSECURE, or set it to true"
        ),
        said(f"https://{mutual}", **ca): (
            "set OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE and "
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY"
        ),
        said("http://no-such-name.invalid:4317"): f"correct {variable}",
        said(f"http://127.0.0.1:{closed}"): f"or correct {variable}",
        silent: "no answer in time",
    }

    assert len(troubles) == 9
    for text, expected in troubles.items():
        assert expected in text
        assert "HTTP port" not in text


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_remedy_names_the_variable_that_decides(ports: Ports, protocol: str) -> None:
    is_grpc = protocol == "grpc"
    other = ports.plain.http if is_grpc else ports.plain.grpc
    mine = ports.plain.grpc if is_grpc else ports.plain.http
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    variables = {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
        "OTELCHAIN_DATABASE": str(ports.plain.database),
    }

    def said(address: str, **more: str) -> str:
        endpoint = f"http://{address}/v1/traces"
        _, found = findings(**variables, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=endpoint, **more)
        return "\n".join(each["text"] + each["remedy"] for each in found)

    at_the_others_port, nobody = said(other), said(closed)

    assert "set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=" in at_the_others_port
    assert "correct OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in nobody
    path = "" if is_grpc else "/v1/traces"
    assert f"export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://{mine}{path}" in nobody
    headers = {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x y=1", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    assert "of OTEL_EXPORTER_OTLP_TRACES_HEADERS cannot" in said(mine, **headers)
    compression = {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "zstd"}
    assert "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=zstd" in said(mine, **compression)
    timeout = {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "9000"}
    assert "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=9000" in said(mine, **timeout)


@pytest.mark.parametrize("signal", ["LOGS", "METRICS"])
@pytest.mark.parametrize(
    ("variables", "level", "text"),
    [
        ({}, "warning", ""),
        ({"{signal}_ENDPOINT": "http://elsewhere:4318{path}"}, "warning", "go to http://elsewhere"),
        ({"{signal}_ENDPOINT": "http://{host}:9{path}"}, "warning", "go to http://"),
        ({"{signal}_ENDPOINT": "http://{http}{path}"}, "warning", ""),
        ({"{signal}_ENDPOINT": "http://{http}"}, "warning", "does not end with {path}"),
        ({"{signal}_ENDPOINT": "https://{http}{path}"}, "warning", "with TLS, traces without"),
        ({"{signal}_ENDPOINT": "http://["}, "warning", "which is no address"),
        ({"{signal}_PROTOCOL": "grpc"}, "warning", "one of them is not spoken"),
        (
            {"{signal}_PROTOCOL": "grpc", "{signal}_ENDPOINT": "http://{grpc}"},
            *("warning", ""),
        ),
        ({"{signal}_HEADERS": f"authorization={TOKEN}"}, "warning", "with other headers"),
        (
            {"TRACES_ENDPOINT": "http://{http}/v1/traces", "ENDPOINT": ""},
            "note",
            "go to http://loc",
        ),
    ],
)
def test_logs_and_metrics_that_go_elsewhere_are_told(
    ports: Ports, signal: str, variables: dict[str, str], level: str, text: str
) -> None:
    path = f"/v1/{signal.lower()}"
    values = {
        "signal": signal,
        "path": path,
        "http": ports.plain.http,
        "grpc": ports.plain.grpc,
        "host": "127.0.0.1",
    }
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ports.plain.http}"} | {
        f"OTEL_EXPORTER_OTLP_{name.format(**values)}": value.format(**values)
        for name, value in variables.items()
    }

    _, found = findings(**given)
    _, without = findings(**given, **{f"OTEL_{signal}_EXPORTER": "none"})

    said = texts(found, "exporter", level)
    assert text.format(**values) in said
    assert (f"{signal.lower()} " in said) is bool(text)
    assert f"{signal.lower()} " not in texts(without, "exporter", level)
    assert TOKEN not in str(found)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_an_application_as_in_the_deployment_guide_is_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    files, tokens, beside = Files(tmp_path / "tls"), tmp_path / "tokens", tmp_path / "application"
    tokens.write_text(f"{TOKEN} write\n{TOKEN}-2 read\n{TOKEN}-3 sql read\n")
    tokens.chmod(0o600)
    beside.mkdir()
    monkeypatch.chdir(beside)
    collector = collector_process.start(
        *(tmp_path / "t.duckdb", tmp_path / "log", *files.options()),
        *("--token-file", str(tokens)),
    )
    address = collector.grpc if protocol == "grpc" else collector.http
    variables = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{address}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(files.ca),
    }
    here = {"OTELCHAIN_DATABASE": str(collector.database)}
    asking = {"OTELCHAIN_ENDPOINT": f"https://{collector.http}"}

    def quiet(**more: str) -> tuple[int, bytes]:
        arguments = ("doctor", "--level", "warning", "--fail-on-rows")
        result = asked(*arguments, **variables, **more)
        return result.returncode, result.stdout

    def note(**more: str) -> str:
        return texts(findings(**variables, **more)[1], "collector", "note")

    try:
        assert arrives(monkeypatch, variables)
        for place in ({}, here, asking):
            for token in ({}, {"OTELCHAIN_TOKEN": TOKEN}, {"OTELCHAIN_TOKEN": f"{TOKEN}-2"}):
                assert quiet(**place, **token) == (0, b""), (place, token)
            assert quiet(**place, OTELCHAIN_TOKEN=f"{TOKEN}-3") == (0, b"")
        assert "needs the permission 'read'" in note(**asking, OTELCHAIN_TOKEN=TOKEN)
        assert "needs the permission 'sql'" in note(**asking, OTELCHAIN_TOKEN=f"{TOKEN}-2")
        assert "permission 'read'" in note(**asking)
        assert note(**asking, OTELCHAIN_TOKEN=f"{TOKEN}-3") == ""
        code, output = quiet(**asking, OTELCHAIN_TOKEN="another")
        assert (code, b"not one of this collector's" in output) == (1, True)
    finally:
        collector.kill()


def test_no_database_is_a_note_where_spans_go_to_another_machine() -> None:
    _, found = findings(OTEL_EXPORTER_OTLP_ENDPOINT="http://no-such-name.invalid:4318")

    assert "there is no database" in texts(found, "file", "note")
    assert texts(found, "file", "warning") == texts(found, "disk", "warning") == ""
