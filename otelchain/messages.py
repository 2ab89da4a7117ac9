"""LangChain messages → the message JSON of the GenAI conventions.

Shape: ``[{role, parts: [{type: "text", content} | {type: "tool_call", id, name, arguments} |
{type: "tool_call_response", id, response} | {type: "reasoning", content} | {type: "uri", uri} |
{type: "blob", mime_type, data} | …], name?, finish_reason?}]``
(open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-input-messages.json).
Nothing is redacted or cut here; the values go on to `ContentGate`.
"""

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import BaseMessage

from otelchain.model_facts import finish_reason

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool"}

Part = dict[str, Any]


def message_json(message: Any) -> dict[str, Any]:
    """Describe one message; what is no LangChain message is described as a text of the user."""
    if not isinstance(message, BaseMessage):
        return {"role": "user", "parts": [{"type": "text", "content": message}]}
    described: dict[str, Any] = {"role": _role(message), "parts": _parts(message)}
    if message.name:
        described["name"] = message.name
    return described


def prompt_json(prompt: str) -> dict[str, Any]:
    """Describe the prompt of a text completion model."""
    return {"role": "user", "parts": [{"type": "text", "content": prompt}]}


def output_messages(result: Any) -> list[dict[str, Any]]:
    """Describe what a model answered, one message per generation, each with its finish reason."""
    described = []
    for prompt in result.generations:
        for generation in prompt:
            message = getattr(generation, "message", None)
            output = message_json(generation.text if message is None else message)
            output["role"] = "assistant"
            reason = finish_reason(generation)
            described.append({**output, "finish_reason": reason} if reason else output)
    return described


def _role(message: BaseMessage) -> str:
    if message.type == "chat":
        return str(getattr(message, "role", "user"))
    return _ROLES.get(message.type, message.type.removesuffix("MessageChunk").lower())


def _parts(message: BaseMessage) -> list[Part]:
    call_id = getattr(message, "tool_call_id", None)
    if call_id is not None:
        return [{"type": "tool_call_response", "id": call_id, "response": message.content}]
    parts = list(_content_parts(message.content))
    parts.extend(_tool_calls(message))
    return parts


def _content_parts(content: Any) -> Iterable[Part]:
    if isinstance(content, str):
        if content:
            yield {"type": "text", "content": content}
        return
    for block in content:
        part = _block_part(block)
        if part is not None:
            yield part


def _block_part(block: Any) -> Part | None:
    """Translate one content block of LangChain or of a provider; unknown kinds stay as they are."""
    if not isinstance(block, dict):
        return {"type": "text", "content": block}
    kind = block.get("type")
    if kind in {"text", "input_text", "output_text"}:
        return {"type": "text", "content": block.get("text", "")}
    if kind in {"reasoning", "thinking"}:
        return {"type": "reasoning", "content": block.get("reasoning") or block.get("thinking")}
    if kind in {"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"}:
        return None  # the same call stands in message.tool_calls, parsed
    if kind == "image_url":
        return _uri_part(block["image_url"])
    if block.get("base64"):
        return _blob_part(kind, str(block.get("mime_type", "")), block["base64"])
    if block.get("url"):
        return {"type": "uri", "modality": kind, "uri": block["url"]}
    return block


def _uri_part(image: Any) -> Part:
    url = str(image.get("url", "") if isinstance(image, dict) else image)
    if url.startswith("data:"):
        mime_type, _, encoded = url.removeprefix("data:").partition(";base64,")
        return _blob_part("image", mime_type, encoded)
    return {"type": "uri", "modality": "image", "uri": url}


def _blob_part(modality: Any, mime_type: str, encoded: str) -> Part:
    """Name a picture or sound by its size: a trace is no place for megabytes of base64."""
    note = f"<{len(encoded) * 3 // 4} bytes>"
    return {"type": "blob", "modality": modality, "mime_type": mime_type, "data": note}


def _tool_calls(message: BaseMessage) -> Iterable[Part]:
    for call in getattr(message, "tool_calls", None) or []:
        yield {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("args"),
        }
    for call in getattr(message, "invalid_tool_calls", None) or []:
        yield {
            "type": "tool_call",
            "id": call.get("id"),
            "name": call.get("name"),
            "arguments": call.get("args"),
            "error": call.get("error"),
        }
