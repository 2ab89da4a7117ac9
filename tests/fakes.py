"""Real LangChain parts without a network, and the spans they left."""

from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.retrievers import BaseRetriever
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import Field

from otelchain.attributes import RUN_NAME, RUN_STATUS


class FakeModel(GenericFakeChatModel):
    """A fake model that says who it is, as real integrations do."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": "openai", "ls_model_name": "fake-1", "ls_model_type": "chat"}


class StreamingModel(FakeModel):
    """Streams three chunks; usage comes with the last one, as providers send it."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for text in ("one ", "two ", "three"):
            yield ChatGenerationChunk(message=AIMessageChunk(text))
        usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=usage))  # type: ignore[arg-type]


class FakeRetriever(BaseRetriever):
    documents: list[Document] = Field(default_factory=list)
    error: Any = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.error:
            raise self.error
        return self.documents


class FinishedSpans:
    """The spans that ended, in order, by name and by any otelchain attribute."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def __call__(self) -> dict[str, ReadableSpan]:
        """Spans by the name of their run; a name that occurs twice is a mistake of the test."""
        spans = {self.run_name(span): span for span in self.all()}
        assert len(spans) == len(self.all()), [self.run_name(span) for span in self.all()]
        return spans

    def statuses(self) -> dict[str, Any]:
        return {name: (span.attributes or {})[RUN_STATUS] for name, span in self().items()}

    @staticmethod
    def run_name(span: ReadableSpan) -> str:
        return str((span.attributes or {}).get(RUN_NAME, span.name))
