"""The model behind each step of the application: prepared messages, or a real model by name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import Runnable

from otelchain.demo import planted
from otelchain.demo.errors import DemoError, first_line

SCRIPTED_MODEL = "scripted-support-1"

ModelFor: TypeAlias = Callable[[str], BaseChatModel]
"""Gives the chat model of a step: "handbook", "plan" or "answer"."""


class ChatScripted(GenericFakeChatModel):
    """Say prepared messages in order, with the model name and token usage a provider reports."""

    model_name: str = SCRIPTED_MODEL

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Take the tools as every chat model does; the script decides which are called."""
        return self.bind(tools=[{"name": tool.name} for tool in tools], **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        # The parent class drops usage and model name when it streams; providers send them last.
        message = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in re.findall(r"\S+\s*", message.text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(message=_closing_chunk(message))


def _closing_chunk(message: BaseMessage) -> AIMessageChunk:
    return AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata if isinstance(message, AIMessage) else None,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def says(
    text: str, *, tokens: tuple[int, int], calls: Mapping[str, dict[str, Any]] | None = None
) -> AIMessage:
    """Make a message of the script.

    Args:
        text: What the model says.
        tokens: Input and output tokens to report.
        calls: Arguments by tool name.
    """
    sent, received = tokens
    return AIMessage(
        content=text,
        tool_calls=[
            tool_call(name=name, args=arguments, id=f"call-{number}")
            for number, (name, arguments) in enumerate((calls or {}).items(), start=1)
        ],
        usage_metadata=UsageMetadata(
            input_tokens=sent,
            output_tokens=received,
            total_tokens=sent + received,
            input_token_details={},
            output_token_details={},
        ),
        response_metadata={"model_name": SCRIPTED_MODEL, "finish_reason": "stop"},
    )


def scripted_models() -> ModelFor:
    """Make the models of one run of the application; each step has its own script."""
    scripts = {
        "handbook": says(
            "You can return an item within 30 days; the refund follows within 5 working days.",
            tokens=(412, 21),
        ),
        "plan": says(
            "",
            tokens=(288, 37),
            calls={
                "find_order": {"order_id": "4711", "customer_email": planted.CUSTOMER_EMAIL},
                "track_parcel": {"order_id": "4711"},
            },
        ),
        "answer": says(
            "Order 4711 was damaged on its way; a replacement kettle is in stock and leaves today.",
            tokens=(731, 24),
        ),
    }
    return lambda step: ChatScripted(messages=iter([scripts[step]]))


def real_models(name: str) -> ModelFor:
    """Take one real model for every step.

    Args:
        name: ``provider:name`` as ``langchain.chat_models.init_chat_model`` takes it.

    Raises:
        DemoError: A package or a key is missing, or the name is not known.
    """
    try:
        init_chat_model = import_module("langchain.chat_models").init_chat_model
    except ImportError as error:
        raise DemoError(
            f"--model {name} needs the packages langchain and its integration for the provider;"
            " try: pip install langchain langchain-openai"
        ) from error
    try:
        model: BaseChatModel = init_chat_model(name)
    except Exception as error:  # each provider has its own: no key, no package, …
        raise DemoError(f"--model {name} cannot be used: {first_line(error)}") from error
    return lambda step: model
