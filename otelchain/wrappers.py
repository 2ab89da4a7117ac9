"""Embeddings and rerankers → runs. LangChain has no callbacks for them, so they are wrapped.

A call becomes a run of every otelchain handler that listens where it happens, as any other run
does: in the step, tool, graph node or retriever it was made from. Nothing listens, nothing is done.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, cast
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from pydantic import PrivateAttr

from otelchain import ambient_run, payloads
from otelchain import attributes as names
from otelchain.content import Attributes, ContentGate
from otelchain.errors import ConfigurationError
from otelchain.handler import OtelCallbackHandler
from otelchain.recorder import RunRecorder
from otelchain.run_facts import RunStart

_log = logging.getLogger("otelchain")

Describe = Callable[[ContentGate], Attributes]

_MODEL_FIELDS = ("model", "model_name", "model_id", "deployment")
_PARAMETER_FIELDS = ("encoding_format", "dimensions", "base_url", "openai_api_base")
_TOP_N_FIELDS = ("top_n", "top_k", "k")
_NO_PROVIDERS = {"core", "community", "classic", "experimental", "tests"}


def traced_embeddings(
    embeddings: Embeddings, handler: OtelCallbackHandler | None = None
) -> Embeddings:
    """Wrap an embedding model, so that each call of it is a run.

    It has the conventions' operation ``embeddings``, the model, the number of texts and the length
    of the vectors. The texts are content and pass the handler's redactor; the vectors are not
    recorded. Everything else of the model stays reachable, and the wrapper says it is of the
    model's class.

    Args:
        embeddings: The model to wrap.
        handler: Records the calls also where no handler listens, at the top of a script for
            example. Not needed inside of runs, nor with `instrument`.

    Raises:
        ConfigurationError: It is no embedding model.

    Example:
        ``InMemoryVectorStore(traced_embeddings(OpenAIEmbeddings()))``
    """
    _require(
        "traced_embeddings", "an embedding model", embeddings, ("embed_documents", "embed_query")
    )
    return TracedEmbeddings(embeddings, handler)


def traced_reranker(
    reranker: BaseDocumentCompressor, handler: OtelCallbackHandler | None = None
) -> BaseDocumentCompressor:
    """Wrap a reranker or another document compressor, so that each call of it is a run.

    It records the query and the texts as content; ids, scores, ranks, lengths and hashes of the
    documents that went in and came out always. What the reranker itself runs hangs below it.

    Args:
        reranker: The compressor to wrap.
        handler: Records the calls also where no handler listens.

    Raises:
        ConfigurationError: It is no document compressor.

    Example:
        ``ContextualCompressionRetriever(base_compressor=traced_reranker(CohereRerank()), …)``
    """
    _require("traced_reranker", "a document compressor", reranker, ("compress_documents",))
    wrapped = TracedReranker(compressor=reranker)
    wrapped._handler = handler  # noqa: SLF001 - a field of pydantic's that no argument can set
    return wrapped


def _require(function: str, what: str, given: Any, methods: Sequence[str]) -> None:
    """Refuse what is not the part that a wrapper wraps: told by its methods, as LangChain does."""
    if isinstance(given, type):
        raise ConfigurationError(
            f"{function}() takes {what}, not the class {given.__name__}; pass an object of it"
        )
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise ConfigurationError(
            f"{function}() takes {what}, not {type(given).__name__}, "
            f"which has no {' and no '.join(missing)}"
        )


class TracedEmbeddings(Embeddings):
    """An embedding model each call of which is a run; see `traced_embeddings`."""

    def __init__(self, embeddings: Embeddings, handler: OtelCallbackHandler | None) -> None:
        self._embeddings = embeddings
        self._handler = handler

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        # Vector stores name the provider by it, and some fields accept one class only.
        return type(self._embeddings)

    def __getattr__(self, name: str) -> Any:
        if name == "_embeddings":  # not there yet while being copied or unpickled
            raise AttributeError(name)
        return getattr(self._embeddings, name)

    def embed_documents(self, texts: list[str], **options: Any) -> list[list[float]]:
        """Embed texts for storing."""
        with self._call(texts) as call:
            vectors = self._embeddings.embed_documents(texts, **options)
            call.answered(lambda _: payloads.vectors(vectors))
            return vectors

    def embed_query(self, text: str, **options: Any) -> list[float]:
        """Embed a text for searching."""
        with self._call(text) as call:
            vector = self._embeddings.embed_query(text, **options)
            call.answered(lambda _: payloads.vectors(vector))
            return vector

    async def aembed_documents(self, texts: list[str], **options: Any) -> list[list[float]]:
        """Embed texts for storing."""
        with self._call(texts) as call:
            vectors = await self._embeddings.aembed_documents(texts, **options)
            call.answered(lambda _: payloads.vectors(vectors))
            return vectors

    async def aembed_query(self, text: str, **options: Any) -> list[float]:
        """Embed a text for searching."""
        with self._call(text) as call:
            vector = await self._embeddings.aembed_query(text, **options)
            call.answered(lambda _: payloads.vectors(vector))
            return vector

    def _call(self, inputs: Any) -> "_Call":
        manager = CallbackManager.configure(ambient_run.callbacks(), _local(self._handler))
        return _Call(
            "embedding", self._embeddings, manager, lambda gate: payloads.texts(gate, inputs)
        )


class TracedReranker(BaseDocumentCompressor):
    """A document compressor each call of which is a run; see `traced_reranker`."""

    compressor: Any
    _handler: OtelCallbackHandler | None = PrivateAttr(default=None)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Rerank documents by a query."""
        manager = CallbackManager.configure(
            callbacks or ambient_run.callbacks(), _local(self._handler)
        )
        with self._call(documents, query, manager) as call:
            ranked: Sequence[Document] = self.compressor.compress_documents(
                documents, query, call.callbacks(callbacks)
            )
            call.answered(lambda gate: payloads.documents(gate, ranked))
            return ranked

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Rerank documents by a query."""
        manager = AsyncCallbackManager.configure(
            callbacks or ambient_run.callbacks(), _local(self._handler)
        )
        with self._call(documents, query, manager) as call:
            ranked: Sequence[Document] = await self.compressor.acompress_documents(
                documents, query, call.callbacks(callbacks)
            )
            call.answered(lambda gate: payloads.documents(gate, ranked))
            return ranked

    def _call(self, documents: Sequence[Document], query: str, manager: Any) -> "_Call":
        def given(gate: ContentGate) -> Attributes:
            found = payloads.ranking(gate, query, documents)
            top_n = _first(self.compressor, _TOP_N_FIELDS, int)
            return {**found, names.RERANK_TOP_N: top_n} if top_n else found

        return _Call("reranker", self.compressor, manager, given)


class _Call:
    """One call of a wrapped part, as a run of each handler that listens.

    The run's span is the current one until the call is over: attached and detached in one frame.
    """

    def __init__(
        self,
        run_type: str,
        part: Any,
        manager: CallbackManager | AsyncCallbackManager,
        given: Describe,
    ) -> None:
        self.run_id = uuid4()
        self._manager = manager
        self._run_type = run_type
        self._part = part
        self._given = given
        self._found: Describe | None = None
        self._context: Context | None = None
        self._attached: Any = None
        own = [h for h in manager.handlers if isinstance(h, OtelCallbackHandler)]
        self._alone = bool(own) and len(own) == len(manager.handlers)
        self._retriever = ambient_run.retriever(manager.parent_run_id)
        self._recorders = [handler._recorder for handler in own]  # noqa: SLF001 - one part, two modules
        if not own and self._retriever is not None:
            # Called with callbacks of its own, a retriever leaves its body without any.
            self._recorders = [cast("RunRecorder", self._retriever.owner)]

    def __enter__(self) -> "_Call":  # noqa: PYI034 - Self is new in Python 3.11
        self._each(self._start)
        return self

    def answered(self, found: Describe) -> None:
        """Say what the part returned."""
        self._found = found

    def callbacks(self, given: Callbacks | None) -> Callbacks | None:
        """Return the callbacks for the part itself, so that its runs hang below this one.

        Other handlers do not know this run; in their company the callbacks stay as they are.
        """
        if not self._alone:
            return given
        below: CallbackManager | AsyncCallbackManager = self._manager.copy()
        below.parent_run_id = self.run_id
        return below

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        # A coroutine that is thrown away may be closed in another context; its own dies with it.
        elsewhere = kind is GeneratorExit and otel_context.get_current() is not self._context
        if self._attached is not None and not elsewhere:
            otel_context.detach(self._attached)
        if error is None:
            self._each(self._end)
        else:
            failure = error
            self._each(lambda recorder: recorder.fail(self.run_id, failure))

    def _start(self, recorder: RunRecorder) -> None:
        inside = self._retriever
        start = RunStart(
            run_id=self.run_id,
            parent_run_id=inside.run_id if inside else self._manager.parent_run_id,
            run_type=self._run_type,
            name=type(self._part).__name__,
            tags=self._manager.tags,
            metadata={**self._manager.metadata, **_model(self._part)},
            parameters=_fields(self._part, _PARAMETER_FIELDS),
        )
        recorder.start(start, self._given)
        run = recorder.runs.get(self.run_id)
        if run is not None and self._attached is None:
            self._context = trace.set_span_in_context(run.span)
            self._attached = otel_context.attach(self._context)

    def _end(self, recorder: RunRecorder) -> None:
        found = self._found
        recorder.end(self.run_id, lambda gate: found(gate) if found else {})

    def _each(self, act: Callable[[RunRecorder], None]) -> None:
        for recorder in self._recorders:
            try:
                act(recorder)
            except Exception as error:  # noqa: BLE001 - the application must not notice
                recorder.failed += 1
                _log_once(f"{self._run_type}: {type(error).__name__}")


@functools.lru_cache(maxsize=64)
def _log_once(kind: str) -> None:
    # The text of the error may hold content of the application.
    _log.error("otelchain could not record a run (%s); the application goes on", kind)


def _local(handler: OtelCallbackHandler | None) -> list[Any] | None:
    return None if handler is None else [handler]


def _model(part: Any) -> dict[str, Any]:
    """Say which model a part uses as LangChain's metadata would: ``ls_provider`` and the name."""
    found: dict[str, Any] = {}
    model = _first(part, _MODEL_FIELDS, str)
    if model:
        found["ls_model_name"] = model
    provider = _provider(type(part))
    if provider:
        found["ls_provider"] = provider
    return found


def _provider(kind: type) -> str | None:
    """Read the provider off the integration's package: ``langchain_openai`` → ``openai``."""
    package = kind.__module__.partition(".")[0]
    name = package.removeprefix("langchain_")
    if name == package or name in _NO_PROVIDERS:
        return None
    return "azure_openai" if name == "openai" and kind.__name__.startswith("Azure") else name


def _fields(part: Any, wanted: Sequence[str]) -> dict[str, Any]:
    values = {name: getattr(part, name, None) for name in wanted}
    return {name: value for name, value in values.items() if value is not None}


def _first(part: Any, wanted: Sequence[str], kind: type) -> Any:
    values = (getattr(part, name, None) for name in wanted)
    return next((v for v in values if isinstance(v, kind) and not isinstance(v, bool)), None)
