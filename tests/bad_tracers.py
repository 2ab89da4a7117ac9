"""Tracers with known faults, for the conformance kit to find; each fault is one that exists."""

import json
import os
import time
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, StatusCode


class AttachingTracer(BaseCallbackHandler):
    """Attaches the context in start hooks, trusts every end to come, and serialises as it goes."""

    run_inline = True

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = provider.get_tracer("attaching")
        self.spans: dict[Any, tuple[Span, Any]] = {}

    def _start(self, kind: str, name: str, given: Any, event: dict[str, Any]) -> None:
        parent = event.get("parent_run_id")
        ambient = trace.set_span_in_context(self.spans[parent][0]) if parent else None
        span = self.tracer.start_span(event.get("name") or name, ambient)
        if "agent" in (event.get("name") or ""):
            kind = "AGENT"
        span.set_attribute("openinference.span.kind", kind)
        token = context.attach(trace.set_span_in_context(span))
        self.spans[event["run_id"]] = (span, token)
        span.set_attribute("input", json.dumps(given, ensure_ascii=False))
        span.set_attribute("metadata", json.dumps(event.get("metadata")))
        span.set_attribute("tags", json.dumps(event.get("tags")))

    def _end(self, given: Any, run_id: Any) -> None:
        span, token = self.spans.pop(run_id)
        span.set_attribute("output", json.dumps(given, ensure_ascii=False))
        context.detach(token)
        span.end()

    def _fail(self, error: BaseException, run_id: Any) -> None:
        span, token = self.spans.pop(run_id)
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, str(error))
        context.detach(token)
        span.end()

    def on_chain_start(self, serialized: Any, inputs: Any, **event: Any) -> None:
        self._start("CHAIN", "chain", inputs, event)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **event: Any) -> None:
        self._end(outputs, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **event: Any) -> None:
        self._fail(error, run_id)

    def on_chat_model_start(self, serialized: Any, messages: Any, **event: Any) -> None:
        described = [str(message.content) for message in messages[0]]
        params = event.get("invocation_params")
        self._start("LLM", "model", [*described, str(params)], event)

    def on_llm_end(self, response: Any, *, run_id: Any, **event: Any) -> None:
        message = response.generations[0][0].message
        usage = getattr(message, "usage_metadata", None)
        if usage:
            details = sum(usage.get("input_token_details", {}).values())
            span = self.spans[run_id][0]
            span.set_attribute("gen_ai.usage.input_tokens", usage["input_tokens"] + details)
            span.set_attribute("gen_ai.usage.output_tokens", usage["output_tokens"])
        self._end(str(message.content), run_id)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **event: Any) -> None:
        self._fail(error, run_id)

    def on_tool_start(self, serialized: Any, input_str: str, **event: Any) -> None:
        self._start("TOOL", "tool", [input_str, serialized], event)

    def on_tool_end(self, output: Any, *, run_id: Any, **event: Any) -> None:
        self._end(str(output), run_id)

    def on_tool_error(self, error: BaseException, *, run_id: Any, **event: Any) -> None:
        self._fail(error, run_id)

    def on_retriever_start(self, serialized: Any, query: str, **event: Any) -> None:
        self._start("RETRIEVER", "retriever", query, event)

    def on_retriever_end(self, documents: Any, *, run_id: Any, **event: Any) -> None:
        self._end([document.page_content for document in documents], run_id)


class HangingTracer(AttachingTracer):
    def on_tool_start(self, serialized: Any, input_str: str, **event: Any) -> None:
        time.sleep(60)


class DyingTracer(AttachingTracer):
    def on_tool_start(self, serialized: Any, input_str: str, **event: Any) -> None:
        os._exit(3)


class RaisingTracer(AttachingTracer):
    raise_error = True

    def on_tool_start(self, serialized: Any, input_str: str, **event: Any) -> None:
        raise LookupError("no such span")


def silent(provider: TracerProvider) -> BaseCallbackHandler:
    return BaseCallbackHandler()
