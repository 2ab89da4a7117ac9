"""Ended runs → the log events of the GenAI conventions, tied to the span of their run.

Names: open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml. What they carry has been
redacted for the span already, and is without content where the span is.
"""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from otelchain import attributes as names
from otelchain.errors import ConfigurationError
from otelchain.runs import OpenRun
from otelchain.version import __version__

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

DETAILS_EVENT = "gen_ai.client.inference.operation.details"
EXCEPTION_EVENT = "gen_ai.client.operation.exception"
EVALUATION_EVENT = "gen_ai.evaluation.result"

_INFERENCE = frozenset({"chat", "text_completion"})
_DEBUG, _INFO, _WARN = 5, 9, 13  # SeverityNumber, logs data model
_FAMILIES = ("gen_ai.", "error.", "server.")


class LogEvents:
    """The events of one handler.

    Args:
        provider: Where they go.

    Raises:
        ConfigurationError: The installed OpenTelemetry has no events.
    """

    def __init__(self, provider: "LoggerProvider") -> None:
        from opentelemetry._logs import SeverityNumber

        self._logger = provider.get_logger("otelchain", __version__)
        self._severity = SeverityNumber
        if "event_name" not in inspect.signature(self._logger.emit).parameters:
            raise ConfigurationError(
                "logger_provider= needs an OpenTelemetry with log events; "
                "install a newer opentelemetry-sdk, or leave the argument out"
            )

    def ended(self, run: OpenRun, found: Mapping[str, Any], end_time_unix_nano: int) -> None:
        """Tell of a model call, or of a rubric's verdict.

        Args:
            run: The run with what was known at its start, its input included.
            found: The attributes of its end.
            end_time_unix_nano: When it ended.
        """
        known = {**run.attributes, **found}
        if known.get(names.GEN_AI_OPERATION_NAME) in _INFERENCE:
            told = {key: value for key, value in known.items() if key.startswith(_FAMILIES)}
            self._emit(DETAILS_EVENT, _DEBUG, run, told, end_time_unix_nano)
        if names.RUBRIC_RESULT in found:
            self._emit(EVALUATION_EVENT, _INFO, run, _evaluation(found), end_time_unix_nano)

    def failed(self, run: OpenRun, exception: Mapping[str, Any]) -> None:
        """Tell of a GenAI operation that raised, with the attributes of its exception event."""
        if names.GEN_AI_OPERATION_NAME in run.attributes:
            self._emit(EXCEPTION_EVENT, _WARN, run, exception, None)

    def _emit(
        self,
        event: str,
        severity: int,
        run: OpenRun,
        attributes: Mapping[str, Any],
        time_unix_nano: int | None,
    ) -> None:
        self._logger.emit(
            event_name=event,
            severity_number=self._severity(severity),
            context=trace.set_span_in_context(run.span),
            timestamp=time_unix_nano,
            attributes=dict(attributes),
        )


def _evaluation(found: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "gen_ai.evaluation.name": "rubric",
        "gen_ai.evaluation.score.label": found[names.RUBRIC_RESULT],
        "gen_ai.evaluation.explanation": found.get(names.RUBRIC_EXPLANATION),
    }
    total = found.get(names.RUBRIC_CRITERIA_TOTAL)
    if total:
        told["gen_ai.evaluation.score.value"] = found[names.RUBRIC_CRITERIA_PASSED] / total
    return {key: value for key, value in told.items() if value is not None}
