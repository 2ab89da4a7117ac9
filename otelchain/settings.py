"""Settings of the application side, read once from the environment.

Each setting is one field of `HandlerSettings`; its variable and its help text travel in the field's
metadata, and the table in the README is generated from there.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from otelchain.errors import ConfigurationError

_log = logging.getLogger("otelchain")

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}

#: The standard GenAI variable and what each of its values means for content on spans
#: (opentelemetry-util-genai, environment_variables.py; true and false are its older values).
GENAI_CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_GENAI_CAPTURE = {
    "no_content": False,
    "event_only": False,
    "span_only": True,
    "span_and_event": True,
    "false": False,
    "true": True,
}


def _setting(default: Any, variable: str, help_text: str) -> Any:
    return field(default=default, metadata={"variable": variable, "help": help_text})


@dataclass(frozen=True)
class HandlerSettings:
    """What a handler records and how much of it it keeps.

    Raises:
        ConfigurationError: A variable holds a value that cannot be read; the text names it.
    """

    capture_content: bool = _setting(
        True,
        "OTELCHAIN_CAPTURE_CONTENT",
        "Record inputs, outputs, prompts, documents and error texts (redacted). `false` keeps only "
        f"names, ids, counts, tokens and times. `{GENAI_CAPTURE_VARIABLE}` is honoured when this "
        "is not set.",
    )
    redaction: str = _setting(
        "",
        "OTELCHAIN_REDACTION",
        "What is redacted: the path of a policy file, or `secrets`, `personal` (the default), "
        "`strict` (no content, only sizes and hashes) or `off`. A policy that cannot be used is "
        "refused, and nothing is recorded.",
    )
    # A 30,000-token prompt is about 120 KB; walking and redacting this much takes about a
    # millisecond, so a huge payload cannot hold up the event loop.
    max_value_bytes: int = _setting(
        131_072, "OTELCHAIN_MAX_VALUE_BYTES", "Largest input or output kept of one run, in bytes."
    )
    # Eight values of the largest size; custom events are what may bring more.
    max_span_bytes: int = _setting(
        1_048_576,
        "OTELCHAIN_MAX_SPAN_BYTES",
        "Most bytes of text kept of one run, its events included; what comes later is named by "
        "size and SHA-256.",
    )
    # 10,000 open runs hold about 60 MB; an application with more of them has lost their ends.
    max_open_runs: int = _setting(
        10_000,
        "OTELCHAIN_MAX_OPEN_RUNS",
        "Most runs open at once; beyond it the oldest is ended as `abandoned`.",
    )
    max_run_age_seconds: int = _setting(
        86_400,
        "OTELCHAIN_MAX_RUN_AGE_SECONDS",
        "A run open for longer is ended as `abandoned`.",
    )
    interrupt_file: str = _setting(
        "",
        "OTELCHAIN_INTERRUPT_FILE",
        "Path of a small SQLite file, shared by the processes of a host, in which interrupted "
        "LangGraph runs are remembered, so that a resume in another process is linked to them.",
    )
    payload_directory: str = _setting(
        "",
        "OTELCHAIN_PAYLOAD_DIRECTORY",
        "Directory in which inputs and outputs beyond these budgets are kept whole, redacted, at "
        "most 1 GiB; their attribute `….reference` names the file.",
    )
    live_runs: bool = _setting(
        False,
        "OTELCHAIN_LIVE_RUNS",
        "With `configure()`: send runs already while they are open, so that the collector shows "
        "what runs now and, after a crash, what was running. Only for otelchain's own collector.",
    )
    openinference: bool = _setting(
        False,
        "OTELCHAIN_OPENINFERENCE",
        "Write OpenInference's attributes too, so that Phoenix shows the spans as its own.",
    )
    nested_spans: bool = _setting(
        False,
        "OTELCHAIN_NESTED_SPANS",
        "With `instrument()`: hang spans of HTTP clients and databases under the run that caused "
        "them.",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "HandlerSettings":
        """Read every setting that the environment names; the others keep their default."""
        environment = os.environ if environment is None else environment
        _name_misspelt(environment)
        values: dict[str, Any] = {}
        for setting in fields(cls):
            variable = setting.metadata["variable"]
            text = environment.get(variable, "").strip()
            if text:
                values[setting.name] = _parse(variable, text, type(setting.default))
        values.setdefault("capture_content", _genai_capture(environment))
        return cls(**values)


# Read by other parts: provider.py, the spool, the command line and the collector.
_OTHERS = (
    "OTELCHAIN_COLLECTOR_",
    "OTELCHAIN_DATABASE",
    "OTELCHAIN_ENDPOINT",
    "OTELCHAIN_REDACTION_KEY",
    "OTELCHAIN_SPOOL",
    "OTELCHAIN_TOKEN",
)
_named: set[str] = set()


def _name_misspelt(environment: Mapping[str, str]) -> None:
    """Warn once of a variable that nothing reads: it may be a misspelt privacy switch."""
    known = [setting.metadata["variable"] for setting in fields(HandlerSettings)]
    for name in environment:
        if not name.startswith("OTELCHAIN_") or name in known or name.startswith(_OTHERS):
            continue
        if name not in _named:
            _named.add(name)
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            _log.warning("nothing reads the variable %s%s", name, hint)


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is bool:
        return _boolean(variable, text)
    if kind is str:
        return text
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"{variable} must be a whole number above 0, not {text!r}")
    return int(text)


def _boolean(variable: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ConfigurationError(f"{variable} must be true or false, not {text!r}")


def _genai_capture(environment: Mapping[str, str]) -> bool:
    text = environment.get(GENAI_CAPTURE_VARIABLE, "").strip()
    if not text:
        return True
    if text.lower() not in _GENAI_CAPTURE:
        choices = ", ".join(sorted(value.upper() for value in _GENAI_CAPTURE))
        raise ConfigurationError(f"{GENAI_CAPTURE_VARIABLE} must be one of {choices}, not {text!r}")
    return _GENAI_CAPTURE[text.lower()]
