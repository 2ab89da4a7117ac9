"""LangChain messages → the message JSON of the GenAI conventions.

Shape: ``[{role, parts: [{type: "text", content} | {type: "tool_call", id, name, arguments} |
{type: "tool_call_response", id, response} | {type: "reasoning", content} | {type: "uri", uri} |
{type: "blob", mime_type, data} | …], name?, finish_reason?}]``
(open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-input-messages.json).
Nothing is redacted or cut here; the values go on to `ContentGate`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from otelchain.model_facts import finish_reason

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool"}

Part = dict[str, Any]


def message_json(message: Any) -> dict[str, Any]:
    """Describe one message; what is no LangChain message is described as a text of the user."""
    if not isinstance(message, BaseMessage):
        return {"role": "user", "parts": [{"type": "text", "content": message}]}
    # The fields themselves: asking a pydantic model for one it lacks takes over a microsecond.
    fields = vars(message)
    described: dict[str, Any] = {"role": _role(fields), "parts": _parts(fields)}
    name = fields.get("name")
    if name:
        described["name"] = name
    return described


def prompt_json(prompt: Any) -> dict[str, Any]:
    """Describe the prompt of a text completion model."""
    return {"role": "user", "parts": [{"type": "text", "content": prompt}]}


def output_messages(result: Any) -> list[dict[str, Any]]:
    """Describe what a model answered, one message per generation, each with its finish reason."""
    described = []
    for prompt in result.generations:
        for generation in prompt:
            message = getattr(generation, "message", None)
            output = message_json(getattr(generation, "text", None) if message is None else message)
            output["role"] = "assistant"
            reason = finish_reason(generation)
            described.append({**output, "finish_reason": reason} if reason else output)
    return described


def _role(fields: Mapping[str, Any]) -> str:
    kind = fields.get("type")
    if kind in ("chat", "ChatMessageChunk"):
        kind = fields.get("role")
    if not isinstance(kind, str):
        return "user"
    return _ROLES.get(kind) or kind.removesuffix("MessageChunk").lower()


def _parts(fields: Mapping[str, Any]) -> list[Part]:
    content = fields.get("content")
    call_id = fields.get("tool_call_id")
    if call_id is not None:
        return [{"type": "tool_call_response", "id": call_id, "response": content}]
    if isinstance(content, str):
        parts: list[Part] = [{"type": "text", "content": content}] if content else []
    else:
        parts = list(_content_parts(content))
    extra = fields.get("additional_kwargs")
    if extra and isinstance(extra, Mapping):
        _add_extra(parts, extra, has_calls=bool(fields.get("tool_calls")))
    for call in _list(fields.get("tool_calls")):
        parts.append(_tool_call(call))
    for call in _list(fields.get("invalid_tool_calls")):
        error = call.get("error") if isinstance(call, Mapping) else None
        parts.append({**_tool_call(call), "error": error})
    return parts


def _add_extra(parts: list[Part], extra: Mapping[str, Any], *, has_calls: bool) -> None:
    """Add what integrations put beside the content: thoughts, a refusal, an old function call."""
    if extra.get("reasoning_content"):
        parts.insert(0, {"type": "reasoning", "content": extra["reasoning_content"]})
    if extra.get("refusal"):
        parts.append({"type": "refusal", "content": extra["refusal"]})
    call = extra.get("function_call")
    if isinstance(call, Mapping) and not has_calls:
        parts.append(
            {"type": "tool_call", "name": call.get("name"), "arguments": call.get("arguments")}
        )


def _content_parts(content: Any) -> Iterable[Part]:
    if content is None:
        return
    for block in content if isinstance(content, (list, tuple)) else [content]:
        part = _block_part(block)
        if part is not None:
            yield part


def _block_part(block: Any) -> Part | None:
    """Translate one content block of LangChain or of a provider; unknown kinds stay as they are."""
    if not isinstance(block, Mapping):
        return {"type": "text", "content": block}
    kind = block.get("type")
    if kind in _TEXT_KINDS:
        return {"type": "text", "content": block.get("text", "")}
    if kind in _REASONING_KINDS:
        thought = block.get("reasoning") or block.get("thinking") or block.get("summary")
        return {"type": "reasoning", "content": thought}
    if kind in _CALL_KINDS:
        return None  # the same call stands in message.tool_calls, parsed
    return _media_part(kind, block) or dict(block)


# Tuples, since a provider's "type" need not be hashable.
_TEXT_KINDS = ("text", "input_text", "output_text")
_REASONING_KINDS = ("reasoning", "thinking")
_CALL_KINDS = ("tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta")


def _media_part(kind: Any, block: Mapping[str, Any]) -> Part | None:
    """Find a picture, sound or file, however the provider packs it; None when it is something else.

    LangChain: ``{type, base64, mime_type}`` or ``{type, url}``; OpenAI: ``image_url``,
    ``input_audio``, ``file``; Anthropic: ``source``; Gemini: ``media`` with ``data``.
    """
    if block.get("image_url"):
        return _uri_part("image", block["image_url"])
    source = block
    for key in ("source", "input_audio", "file", "inline_data"):
        if isinstance(block.get(key), Mapping):
            source = block[key]
    encoded = source.get("base64") or source.get("data") or source.get("file_data")
    mime_type = source.get("mime_type") or source.get("media_type") or source.get("format") or ""
    if isinstance(encoded, (str, bytes)) and encoded:
        if isinstance(encoded, str) and encoded.startswith("data:"):
            return _uri_part(kind, encoded)
        return _blob_part(kind, mime_type, encoded)
    if source.get("url"):
        return {"type": "uri", "modality": kind, "uri": source["url"]}
    if source.get("file_id"):
        return {"type": "file", "modality": kind, "file_id": source["file_id"]}
    return None


def _uri_part(modality: Any, address: Any) -> Part:
    url = address.get("url") if isinstance(address, Mapping) else address
    if isinstance(url, str) and url.startswith("data:"):
        mime_type, _, encoded = url.removeprefix("data:").partition(";base64,")
        return _blob_part(modality, mime_type, encoded)
    return {"type": "uri", "modality": modality, "uri": url}


def _blob_part(modality: Any, mime_type: Any, encoded: str | bytes) -> Part:
    """Name a picture or sound by its size: a trace is no place for megabytes of base64."""
    size = len(encoded) if isinstance(encoded, bytes) else len(encoded) * 3 // 4
    return {
        "type": "blob",
        "modality": modality,
        "mime_type": mime_type,
        "data": f"<{size} bytes>",
    }


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _tool_call(call: Any) -> Part:
    if not isinstance(call, Mapping):
        return {"type": "tool_call", "arguments": call}
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": call.get("name"),
        "arguments": call.get("args"),
    }
