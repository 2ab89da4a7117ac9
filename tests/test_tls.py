"""TLS and mutual TLS on both ports, with certificates made here; reload while it runs."""

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import collector_process
import otelchain
from collector_process import RunningCollector
from otelchain_collector.errors import CollectorError
from otelchain_collector.tls import Tls
from otlp_requests import body, span
from stored_runs import asked
from tls_files import Files

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}
QUESTION = ("sql", "SELECT 42 AS answer", "--format", "csv")
ANSWER = b"answer\r\n42\r\n"


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls") / "files")


@pytest.fixture(name="strangers", scope="module")
def _strangers(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls") / "strangers")


@pytest.fixture(name="encrypted", scope="module")
def _encrypted(
    tmp_path_factory: pytest.TempPathFactory, files: Files
) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("encrypted")
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *files.options())
    yield collector
    collector.kill()


@pytest.fixture(name="mutual", scope="module")
def _mutual(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[RunningCollector]:
    folder = tmp_path_factory.mktemp("mutual")
    options = files.options(mutual=True)
    collector = collector_process.start(folder / "t.duckdb", folder / "log", *options)
    yield collector
    collector.kill()


def test_python_shows_and_checks_certificates(
    encrypted: RunningCollector, mutual: RunningCollector, files: Files, strangers: Files
) -> None:
    def answers(collector: RunningCollector, **shown: Any) -> list[int]:
        return list(otelchain.open(f"https://{collector.http}", **shown).sql(QUESTION[1])["answer"])

    mine = {"client_certificate": files.client_certificate, "client_key": files.client_key}
    theirs = {
        "client_certificate": strangers.client_certificate,
        "client_key": strangers.client_key,
    }

    assert answers(encrypted, ca_file=files.ca) == [42]
    assert answers(mutual, ca_file=files.ca, **mine) == [42]
    for collector, shown, said in (
        (encrypted, {}, "its certificate is not trusted"),
        (encrypted, {"ca_file": strangers.ca}, "its certificate is not trusted"),
        (encrypted, {"ca_file": files.key}, "cannot use --ca-file"),
        (encrypted, {"ca_file": files.ca / "no"}, "cannot use --ca-file"),
        (mutual, {"ca_file": files.ca}, "it wants a certificate"),
        (mutual, {"ca_file": files.ca, **theirs}, "no collector answers at https://"),
        (mutual, {"ca_file": files.ca, **mine, "client_key": files.key}, "cannot use --client-c"),
    ):
        with pytest.raises(otelchain.OtelchainError, match=said):
            answers(collector, **shown)
    with pytest.raises(otelchain.OtelchainError, match="write https://"):
        otelchain.open(f"http://{encrypted.http}")


def post(collector: RunningCollector, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection(collector.http, timeout=30, context=context)
    try:
        connection.request("POST", "/v1/traces", body(span()), PROTOBUF)
        return connection.getresponse().status
    finally:
        connection.close()


def export(collector: RunningCollector, credentials: Any) -> None:
    with grpc.secure_channel(collector.grpc, credentials) as channel:
        channel.unary_unary(METHOD)(body(span()), timeout=5)


def test_both_ports_speak_tls_to_who_knows_the_authority(
    encrypted: RunningCollector, files: Files, strangers: Files
) -> None:
    assert post(encrypted, files.context()) == 200
    export(encrypted, files.credentials())

    with pytest.raises(ssl.SSLCertVerificationError):
        post(encrypted, strangers.context())
    with pytest.raises(grpc.RpcError):
        export(encrypted, strangers.credentials())


def test_an_unencrypted_request_is_not_answered(encrypted: RunningCollector) -> None:
    connection = http.client.HTTPConnection(encrypted.http, timeout=30)
    connection.request("GET", "/healthz")

    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


def test_tls_older_than_1_2_is_refused(encrypted: RunningCollector, files: Files) -> None:
    context = files.context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1

    with pytest.raises(ssl.SSLError):
        post(encrypted, context)


def test_only_clients_with_a_certificate_of_the_authority_get_in(
    mutual: RunningCollector, files: Files, strangers: Files
) -> None:
    assert post(mutual, files.context(files)) == 200
    export(mutual, files.credentials(files))

    for client in (None, strangers):
        with pytest.raises((OSError, http.client.HTTPException)):
            post(mutual, files.context(client))
        with pytest.raises(grpc.RpcError):
            export(mutual, files.credentials(client))


@pytest.mark.parametrize("exporter", [OTLPSpanExporter, GrpcSpanExporter])
def test_an_exporter_shows_its_certificate_by_the_standard_variables(
    mutual: RunningCollector, files: Files, monkeypatch: pytest.MonkeyPatch, exporter: Any
) -> None:
    is_grpc = exporter is GrpcSpanExporter
    address = mutual.grpc if is_grpc else mutual.http
    # The HTTP exporter's library would take these instead.
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://{address}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(files.ca))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(files.client_certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(files.client_key))
    name = f"over {exporter.__module__}"
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter()))

    provider.get_tracer("tls").start_span(name).end()
    provider.shutdown()

    # The command finds the collector beside the file and shows the same certificate.
    sql = f"SELECT count(*) AS answer FROM spans WHERE name = '{name}'"
    found = asked("sql", sql, "--format", "csv", "--database", str(mutual.database))
    assert found.stdout == b"answer\r\n1\r\n", found.stderr


def test_the_command_asks_with_the_files_of_its_options(
    mutual: RunningCollector, files: Files
) -> None:
    found = asked(
        *(*QUESTION, "--endpoint", f"https://{mutual.http}", "--ca-file", str(files.ca)),
        *("--client-certificate", str(files.client_certificate)),
        *("--client-key", str(files.client_key)),
    )

    assert found.stdout == ANSWER, found.stderr


def test_the_command_says_why_there_is_no_connection(
    encrypted: RunningCollector, mutual: RunningCollector, files: Files, tmp_path: Path
) -> None:
    def said(endpoint: str, **options: Path) -> str:
        given = [text for name, path in options.items() for text in (f"--{name}", str(path))]
        found = asked(*QUESTION, "--endpoint", endpoint, *given)
        assert found.returncode == 2
        return found.stderr.decode()

    ca = {"ca-file": files.ca}
    assert "is not trusted" in said(f"https://{encrypted.http}")
    assert "set --ca-file" in said(f"https://{encrypted.http}")
    assert "if it speaks TLS, write https://" in said(f"http://{encrypted.http}")
    assert "--client-certificate and --client-key" in said(f"https://{mutual.http}", **ca)
    assert "cannot use --ca-file" in said("https://127.0.0.1:1", **{"ca-file": tmp_path / "no"})
    assert "cannot use --client-certificate" in said(
        "https://127.0.0.1:1", **{"client-certificate": files.ca, "client-key": files.key}
    )


@pytest.mark.parametrize("mutually", [False, True])
def test_renewed_certificates_are_used_without_a_restart(
    mutually: bool, start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    old, new = Files(tmp_path / "old"), Files(tmp_path / "new")
    in_use = Files(tmp_path / "in-use")
    in_use.replace_with(old)
    collector = start_collector(tmp_path / "t.duckdb", *in_use.options(mutual=mutually))
    client = {"client": old} if mutually else {}
    kept = http.client.HTTPSConnection(collector.http, timeout=30, context=old.context(**client))
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    export(collector, old.credentials(**client))
    time.sleep(1.1)  # The files are looked at once a second.

    in_use.replace_with(new)

    client = {"client": new} if mutually else {}
    assert post(collector, new.context(**client)) == 200
    export(collector, new.credentials(**client))
    with pytest.raises(ssl.SSLCertVerificationError):
        post(collector, old.context(**client))
    if mutually:
        with pytest.raises((OSError, http.client.HTTPException)):
            post(collector, new.context(client=old))
        with pytest.raises(grpc.RpcError):
            export(collector, new.credentials(client=old))
    # A connection that is there already goes on.
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200
    kept.close()


def test_files_that_do_not_fit_leave_the_old_certificate_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, other = Files(tmp_path / "files"), Files(tmp_path / "other")
    tls = Tls(files.certificate, files.key, None)
    before = tls._newest()

    def again() -> Any:
        tls._looked_at = time.monotonic() - 60
        return tls._newest()

    files.certificate.write_bytes(other.certificate.read_bytes())
    assert again() is before
    assert "the certificate from before stays in use" in caplog.text
    files.key.write_bytes(other.key.read_bytes())
    assert again() is not before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tls_certificate": "crt"}, "TLS needs both --tls-certificate and --tls-key"),
        ({"tls_client_ca": "ca"}, "TLS needs both --tls-certificate and --tls-key"),
        ({"tls_certificate": "no", "tls_key": "key"}, "cannot read --tls-certificate .*: No such"),
        ({"tls_certificate": "ca", "tls_key": "key"}, "cannot use --tls-certificate .* mismatch"),
        ({"tls_certificate": "key", "tls_key": "key"}, "both must be PEM"),
        (
            {"tls_certificate": "crt", "tls_key": "key", "tls_client_ca": "key"},
            "cannot use --tls-client-ca",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(
    files: Files, options: dict[str, str], said: str
) -> None:
    from otelchain_collector.settings import CollectorSettings

    folder = files.certificate.parent
    paths: dict[str, Any] = {name: folder / file for name, file in options.items()}

    with pytest.raises(CollectorError, match=said):
        Tls.of(CollectorSettings(**paths))


def test_a_client_that_never_finishes_its_handshake_holds_up_nobody(
    encrypted: RunningCollector, files: Files
) -> None:
    host, port = encrypted.http.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as silent:
        silent.sendall(b"\x16\x03\x01")
        assert post(encrypted, files.context()) == 200
