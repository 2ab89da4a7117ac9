"""Small LangChain parts without a network: each calls `inside` where real ones do their work."""
# ruff: noqa: ARG002 - fakes keep the signatures of what they stand for

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool
from pydantic import Field

Inside = Callable[[], Any]


def nothing() -> None:
    """Do no work."""


async def _in_async(inside: Inside) -> None:
    done = inside()
    if asyncio.iscoroutine(done):
        await done


class ChatModel(BaseChatModel):
    """A chat model that says who it is, as integrations do."""

    inside: Any = nothing
    answer: str = "one two three"
    chunk_usages: Any = None
    usage: Any = None

    @property
    def _llm_type(self) -> str:
        return "conformance"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        stops = {"ls_stop": stop} if stop else {}
        return {
            "ls_provider": "openai",
            "ls_model_name": "fake-1",
            "ls_model_type": "chat",
            **stops,
        }

    def _message(self) -> ChatResult:
        message = AIMessage(
            self.answer,
            usage_metadata=self.usage,
            response_metadata={"model_name": "fake-1", "finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunks(self) -> list[ChatGenerationChunk]:
        usages = self.chunk_usages or [None, None, None]
        words = [*self.answer.split(), *[""] * len(usages)][: len(usages)]
        return [
            ChatGenerationChunk(message=AIMessageChunk(content=word, usage_metadata=usage))
            for word, usage in zip(words, usages, strict=True)
        ]

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.inside()
        return self._message()

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        await _in_async(self.inside)
        return self._message()

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        run_manager = kwargs.get("run_manager")
        for number, chunk in enumerate(self._chunks()):
            if number == 1:
                self.inside()
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        run_manager = kwargs.get("run_manager")
        for number, chunk in enumerate(self._chunks()):
            if number == 1:
                await _in_async(self.inside)
            if run_manager:
                await run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
            yield chunk


def model_result(text: str = "answer") -> LLMResult:
    """What LangChain hands to ``on_llm_end``."""
    return LLMResult(generations=[[ChatGeneration(message=AIMessage(text))]])


class UnnamedChatModel(ChatModel):
    """A chat model that does not say who it is, as home-made ones do."""

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {}


class Retriever(BaseRetriever):
    """A retriever over a list."""

    inside: Any = nothing
    documents: list[Document] = Field(default_factory=lambda: [Document("found")])

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.inside()
        return self.documents

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await _in_async(self.inside)
        return self.documents


def make_tool(inside: Inside = nothing, **options: Any) -> StructuredTool:
    """A tool that answers its question, sync and async."""

    def look_up(q: str) -> str:
        """Look it up."""
        inside()
        return f"answer to {q}"

    async def alook_up(q: str) -> str:
        """Look it up."""
        await _in_async(inside)
        return f"answer to {q}"

    return StructuredTool.from_function(look_up, alook_up, name="look_up", **options)
