"""Variables of this shell that decide whether and where spans go."""

import dataclasses
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Final

# What the exporters' own library asks; typeshed does not know it.
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding
from otelchain.reading.connect import is_loopback
from otelchain.redaction.hash_keys import KEY_VARIABLE
from otelchain.settings import HandlerSettings
from otelchain.spool.settings import SpoolSettings
from otelchain_collector.settings import setting_texts

# Those that are no field of a settings class.
_OTHER_VARIABLES: Final = (
    "OTELCHAIN_ENDPOINT",
    KEY_VARIABLE,
    "OTELCHAIN_QUERIES",
    "OTELCHAIN_TIMEZONE",
    "OTELCHAIN_TOKEN",
    "OTELCHAIN_TOKEN_FILE",
)
# By the name, so that a secret that is added later is hidden too.
_SECRET: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_ALL_SPANS: Final = frozenset({"", "always_on", "parentbased_always_on"})
_PROXIES: Final = {
    "http/protobuf": ("{scheme}_proxy", "{SCHEME}_PROXY", "all_proxy", "ALL_PROXY"),
    # gRPC's C core reads these, in this order, for every scheme.
    "grpc": ("grpc_proxy", "https_proxy", "http_proxy"),
}


def own_settings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Show each variable of otelchain that is set, and those that nothing reads."""
    known = _known_variables()
    found = sorted(name for name in environment if name.startswith("OTELCHAIN_"))
    if not found:
        yield Finding("settings", "ok", "no OTELCHAIN_* variable is set: every setting is default")
    for name in found:
        if name in known:
            value = "(hidden)" if name.endswith(_SECRET) else environment[name]
            yield Finding("settings", "ok", f"{name}={value} (from the environment)")
        else:
            close = get_close_matches(name, sorted(known), 1)
            remedy = f"did you mean {close[0]}?" if close else "unset it"
            yield Finding("settings", "warning", f"nothing reads the variable {name}", remedy)


def _known_variables() -> set[str]:
    application = (
        str(setting.metadata["variable"])
        for settings in (HandlerSettings, SpoolSettings)
        for setting in dataclasses.fields(settings)
    )
    collector = (text.variable for text in setting_texts())
    return {*application, *collector, *_OTHER_VARIABLES}


def switches(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find what keeps spans from being made or sent at all."""
    get = _reader(environment)
    if get("OTEL_SDK_DISABLED") in _TRUE:
        yield Finding(
            "sdk", "error", "OTEL_SDK_DISABLED is true: no span is made", "unset OTEL_SDK_DISABLED"
        )
    exporters = get("OTEL_TRACES_EXPORTER")
    if exporters and "otlp" not in exporters.split(","):
        yield Finding(
            "sdk",
            "error",
            f"OTEL_TRACES_EXPORTER={exporters} sends no OTLP",
            "unset OTEL_TRACES_EXPORTER, or set it to otlp",
        )
    sampler = get("OTEL_TRACES_SAMPLER")
    if sampler not in _ALL_SPANS:
        yield Finding(
            "sdk",
            "warning",
            f"OTEL_TRACES_SAMPLER={sampler} leaves out some or all traces",
            "unset OTEL_TRACES_SAMPLER to keep every trace",
        )
    disabled = get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS")
    if {"otelchain", "*"} & {name.strip() for name in disabled.split(",")}:
        yield Finding(
            "sdk",
            "error",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS names otelchain: opentelemetry-instrument "
            "leaves it out",
            "take otelchain out of it",
        )
    for name in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"):
        if get(name) in _TRUE:
            yield Finding(
                "langsmith",
                "warning",
                f"{name} is true: runs also go to LangSmith, with their content unredacted",
                f"unset {name} unless you want that",
            )


def proxies(environment: Mapping[str, str], exporter: Exporter) -> Iterator[Finding]:
    """Find a proxy that would be asked for this machine's own collector."""
    parts = exporter.address
    if parts is None:
        return
    host = parts.hostname or ""
    names = [
        name.format(scheme=parts.scheme, SCHEME=parts.scheme.upper())
        for name in _PROXIES.get(exporter.protocol, ())
    ]
    proxy = next((name for name in names if environment.get(name)), None)
    if proxy is None or not is_loopback(host):
        return
    excluded = [
        environment.get(name, "")
        for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY")
        if exporter.protocol == "grpc" or not name.startswith("no_grpc")
    ]
    if not proxy_bypass_environment(host, {"no": ",".join(filter(None, excluded))}):
        yield Finding(
            "proxy",
            "error",
            f"{proxy} is set and NO_PROXY does not name {host}: spans for this machine go to the "
            "proxy, which cannot reach it",
            f"export NO_PROXY={host} no_proxy={host}",
        )


def retries(environment: Mapping[str, str], exporter: Exporter) -> Finding:
    """Say what an application with this environment sends again, and for how long."""
    package = (
        "opentelemetry-exporter-otlp-proto-grpc"
        if exporter.protocol == "grpc"
        else "opentelemetry-exporter-otlp-proto-http"
    )
    answers = (
        "UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED, CANCELLED, DEADLINE_EXCEEDED, OUT_OF_RANGE and "
        "DATA_LOSS"
        if exporter.protocol == "grpc"
        else "429, 502, 503, 504 and lost connections"
    )
    spool = environment.get("OTELCHAIN_SPOOL", "").strip()
    return Finding(
        "retries",
        "ok" if spool else "note",
        f"{package} {_version(package)} sends again after {answers}, within "
        f"{exporter.timeout_seconds:g} s for all tries of a batch; after that "
        + (f"the batch waits in {spool}" if spool else "the batch is lost"),
        "" if spool else "set OTELCHAIN_SPOOL to a directory to keep spans in a longer outage",
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _reader(environment: Mapping[str, str]) -> "_Read":
    return _Read(environment)


class _Read:
    """Variables as switches: trimmed and in lower case."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def __call__(self, name: str) -> str:
        return self._environment.get(name, "").strip().lower()
