"""Ended runs → the metrics of the GenAI conventions, and the handler's own counts.

Names and units: open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md (newest
spellings: durations of model calls are ``gen_ai.client.inference.*``).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from otelchain import attributes as names
from otelchain.redaction.tally import RedactionCounts
from otelchain.runs import OpenRun
from otelchain.version import __version__

# Histogram of seconds, by the operation of the run.
_DURATIONS = {
    "chat": "gen_ai.client.inference.duration",
    "text_completion": "gen_ai.client.inference.duration",
    "execute_tool": "gen_ai.execute_tool.duration",
    "invoke_agent": "gen_ai.invoke_agent.duration",
    "invoke_workflow": "gen_ai.invoke_workflow.duration",
    "retrieval": "gen_ai.client.operation.duration",
}
_TOKENS = {
    names.GEN_AI_USAGE_INPUT_TOKENS: "gen_ai.client.inference.usage.input_tokens",
    names.GEN_AI_USAGE_OUTPUT_TOKENS: "gen_ai.client.inference.usage.output_tokens",
    names.GEN_AI_USAGE_CACHE_READ: "gen_ai.client.inference.usage.cache_read.input_tokens",
    names.GEN_AI_USAGE_CACHE_WRITE: "gen_ai.client.inference.usage.cache_write.input_tokens",
    names.GEN_AI_USAGE_REASONING: "gen_ai.client.inference.usage.reasoning.output_tokens",
}
_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
_PER_CHUNK = "gen_ai.client.inference.time_per_output_chunk"
# Low-cardinality facts only; ids and content never become metric attributes.
_DIMENSIONS = (
    names.GEN_AI_OPERATION_NAME,
    names.GEN_AI_PROVIDER_NAME,
    names.GEN_AI_REQUEST_MODEL,
    names.GEN_AI_TOOL_NAME,
    names.GEN_AI_AGENT_NAME,
    names.GEN_AI_WORKFLOW_NAME,
)
# The bucket boundaries that the conventions advise for durations of model calls, in seconds.
_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]


class RunMetrics:
    """The instruments of one handler.

    Args:
        provider: Where metrics go.
        counts: Reads the handler's counts: open, dropped and failed.
        redaction_counts: Reads how often each rule of the redactor found something or failed.
    """

    def __init__(
        self,
        provider: MeterProvider,
        counts: Callable[[], Mapping[str, int]],
        redaction_counts: Callable[[], RedactionCounts],
    ) -> None:
        meter = provider.get_meter("otelchain", __version__)
        self._durations = {
            name: meter.create_histogram(
                name, unit="s", explicit_bucket_boundaries_advisory=_BUCKETS
            )
            for name in {*_DURATIONS.values(), _FIRST_CHUNK, _PER_CHUNK}
        }
        self._tokens = {
            attribute: meter.create_counter(name, unit="{token}")
            for attribute, name in _TOKENS.items()
        }

        def read(key: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
            return lambda options: [Observation(counts()[key])]  # noqa: ARG005 - the API's signature

        meter.create_observable_gauge("otelchain.runs.open", [read("open")], unit="{run}")
        meter.create_observable_counter("otelchain.runs.dropped", [read("dropped")], unit="{run}")
        meter.create_observable_counter("otelchain.hooks.failed", [read("failed")], unit="{call}")
        meter.create_observable_counter(
            "otelchain.redaction.findings",
            [lambda options: _by_rule(redaction_counts().findings)],  # noqa: ARG005
            unit="{finding}",
        )
        meter.create_observable_counter(
            "otelchain.redaction.failures",
            [lambda options: _by_rule(redaction_counts().failures)],  # noqa: ARG005
            unit="{text}",
        )

    def chunk(self, run: OpenRun, time_unix_nano: int) -> None:
        """Record the time since the chunk before; what the run's end will tell is not known yet."""
        if run.last_chunk_unix_nano is not None:
            seconds = (time_unix_nano - run.last_chunk_unix_nano) / 1e9
            self._durations[_PER_CHUNK].record(seconds, _dimensions(run))
        run.last_chunk_unix_nano = time_unix_nano

    def ended(self, run: OpenRun, found: Mapping[str, Any], end_time_unix_nano: int) -> None:
        """Count an ended run.

        Args:
            run: The run with the attributes of its start.
            found: The attributes of its end.
            end_time_unix_nano: When it ended.
        """
        operation = run.attributes.get(names.GEN_AI_OPERATION_NAME)
        duration = _DURATIONS.get(str(operation))
        if duration is None:
            return
        dimensions = _dimensions(run)
        for key in (names.GEN_AI_RESPONSE_MODEL, names.ERROR_TYPE):
            if key in found:
                dimensions[key] = found[key]
        seconds = (end_time_unix_nano - run.start_time_unix_nano) / 1e9
        self._durations[duration].record(seconds, dimensions)
        for attribute, counter in self._tokens.items():
            if attribute in found:
                counter.add(found[attribute], dimensions)
        if run.first_chunk_seconds is not None:
            self._durations[_FIRST_CHUNK].record(run.first_chunk_seconds, dimensions)


def _dimensions(run: OpenRun) -> dict[str, Any]:
    return {key: run.attributes[key] for key in _DIMENSIONS if key in run.attributes}


def _by_rule(counts: Mapping[str, int]) -> list[Observation]:
    return [Observation(number, {names.REDACTION_RULE: rule}) for rule, number in counts.items()]
