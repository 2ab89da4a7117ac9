"""Odd values as a chain's input and output: no span lost, no attribute lost, nothing raised."""
# ruff: noqa: ARG001, ARG002 - fakes keep the signatures of what they stand for

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from otelchain.conformance.probe import probe, register
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

_LARGE = 5_000_000
_DEEP = 2_000
# A collector takes 4 MB in one gRPC message; a span has to leave room for others.
_MAX_SPAN_BYTES = 1_000_000


@dataclass
class _HoldsLock:
    name: str = "state"
    lock: Any = field(default_factory=threading.Lock)


class _BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class _BadDump:
    def model_dump(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no dump")


class _BadTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _self_reference() -> Any:
    value: dict[str, Any] = {"a": 1}
    value["self"] = value
    return value


def _deep() -> Any:
    value: list[Any] = []
    for _ in range(_DEEP):
        value = [value]
    return value


_SHAPES: dict[str, tuple[str, Callable[[], Any]]] = {
    "lock": ("a lock", threading.Lock),
    "dataclass-with-lock": ("a dataclass that holds a lock", _HoldsLock),
    "bad-repr": ("an object whose __repr__ raises", _BadRepr),
    "bad-model-dump": ("an object whose model_dump raises", _BadDump),
    "self-reference": ("a dict that contains itself", _self_reference),
    "lone-surrogate": ("a lone surrogate", lambda: "a\ud800b"),
    "nan": ("NaN and infinity", lambda: {"x": float("nan"), "y": float("inf")}),
    "bytes": ("bytes", lambda: b"\x00\xff"),
    "tuple-keys": ("a dict with tuple keys", lambda: {(1, 2): "x"}),
    "generator": ("a generator", lambda: (number for number in range(3))),
    "none": ("None", lambda: None),
    "large-text": ("a text of 5 MB", lambda: "x" * _LARGE),
    "deep-list": ("a list 2,000 levels deep", _deep),
    "datetime": ("a date", lambda: {"when": datetime(2026, 11, 30, tzinfo=timezone.utc)}),
}


def _run_with(trial: Trial, value: Any) -> None:
    """Hand a value through the two steps of a chain: as it is, and inside a dict."""
    step = RunnableLambda(lambda given: given, name="step")
    (step | step).invoke(value, trial.config())
    (step | step).invoke({"value": value}, trial.config())


def _kept(make: Callable[[], Any]) -> Callable[[Trial], Verdict]:
    def run(trial: Trial) -> Verdict:
        _run_with(trial, "plain")
        expected = len(trial.log.ended())
        _run_with(trial, make())
        trial.settle()
        got = len(trial.log.ended()) - expected
        lost = len(trial.log.unfinished()) or expected - got
        complaints = _encode(trial)
        good = not lost and not complaints and expected > 0
        told = f"{got} of {expected} spans ended"
        return judge(good, told + (f"; {complaints[0]}" if complaints else ""))

    return run


def _encode(trial: Trial) -> list[str]:
    """Encode every span as the OTLP exporter does; returns what it and the SDK complained of."""
    ended = trial.log.ended()
    request = encode_spans(ended)
    encoded = [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    wanted = sum(len(span.attributes or {}) for span in ended)
    got = sum(len(span.attributes) for span in encoded)
    complaints = [f"{wanted - got} attributes lost in encoding"] if got != wanted else []
    request.SerializeToString()
    complaints += trial.complaints.texts("opentelemetry")
    complaints += trial.complaints.texts("langchain_core.callbacks")
    return [text[:120] for text in complaints]


for _name, (_what, _make) in _SHAPES.items():
    register(f"value-{_name}", f"The value {_what}: no span and no attribute is lost", _kept(_make))


@probe("No span is larger than a collector takes")
def value_budget(trial: Trial) -> Verdict:
    """A text of 5 MB as input and as output."""
    _run_with(trial, "x" * _LARGE)
    sizes = [encode_spans([span]).ByteSize() for span in trial.log.ended()]
    largest = max(sizes, default=0)
    return judge(0 < largest <= _MAX_SPAN_BYTES, f"largest span {largest:,} bytes")


@probe("A tool gets the very object it was given, also one that cannot be copied")
def value_tool_state(trial: Trial) -> Verdict:
    """A tracer that copies or pickles inputs fails on locks and connections."""
    given = {"state": _HoldsLock()}
    seen: list[Any] = []

    def keep(state: Any) -> str:
        """Keep it."""
        seen.append(state)
        return "kept"

    StructuredTool.from_function(keep, name="keep").invoke(given, trial.config())
    verdict = trial.all_ended()
    good = seen == [given["state"]] and seen[0] is given["state"]
    complaints = trial.complaints.texts("langchain_core.callbacks")
    return judge(good and not complaints and verdict.outcome == "pass", verdict.seen)


@probe("An exception whose text cannot be read ends its span")
def value_bad_error(trial: Trial) -> Verdict:
    """``str(error)`` raises."""

    def step(value: Any) -> Any:
        raise _BadTextError

    try:
        RunnableLambda(step, name="step").invoke(1, trial.config())
    except _BadTextError:
        return trial.all_ended()
    return judge(False, "the application did not get its own exception")
