"""Model runs: request parameters, usage, finish reasons → GenAI attributes (no content)."""

from collections.abc import Mapping
from typing import Any

from otelchain import attributes as names
from otelchain.content import Attributes

# LangChain's ls_provider (and what integrations write there) → gen_ai.provider.name.
_PROVIDERS = {
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertexai": "gcp.vertex_ai",
    "xai": "x_ai",
}

# attribute, type, where it may stand (first hit wins): invocation parameters, then run metadata.
_PARAMETERS: tuple[tuple[str, type, tuple[str, ...]], ...] = (
    (names.GEN_AI_REQUEST_TEMPERATURE, float, ("temperature", "ls_temperature")),
    (names.GEN_AI_REQUEST_TOP_P, float, ("top_p",)),
    (names.GEN_AI_REQUEST_TOP_K, int, ("top_k",)),
    (
        names.GEN_AI_REQUEST_MAX_TOKENS,
        int,
        ("max_tokens", "max_completion_tokens", "max_output_tokens", "ls_max_tokens"),
    ),
    (names.GEN_AI_REQUEST_SEED, int, ("seed",)),
    (names.GEN_AI_REQUEST_FREQUENCY_PENALTY, float, ("frequency_penalty",)),
    (names.GEN_AI_REQUEST_PRESENCE_PENALTY, float, ("presence_penalty",)),
    (names.GEN_AI_REQUEST_CHOICE_COUNT, int, ("n",)),
)

# langchain_core.messages.ai.UsageMetadata: input_tokens includes cached tokens (its docstring),
# so a detail is never added to a total.
_USAGE_DETAILS = (
    (names.GEN_AI_USAGE_CACHE_READ, "input_token_details", "cache_read"),
    (names.GEN_AI_USAGE_CACHE_WRITE, "input_token_details", "cache_creation"),
    (names.GEN_AI_USAGE_AUDIO_INPUT, "input_token_details", "audio"),
    (names.GEN_AI_USAGE_REASONING, "output_token_details", "reasoning"),
    (names.GEN_AI_USAGE_AUDIO_OUTPUT, "output_token_details", "audio"),
)


def provider(metadata: Mapping[str, Any]) -> str | None:
    """Name the provider as the GenAI conventions spell it."""
    name = metadata.get("ls_provider")
    return _PROVIDERS.get(name, name) if isinstance(name, str) and name else None


def model(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> str | None:
    """Find the requested model: LangChain's own field first, then the provider's parameters."""
    candidates = (
        metadata.get("ls_model_name"),
        *(parameters.get(key) for key in ("model", "model_name", "model_id", "deployment_name")),
    )
    return next((name for name in candidates if isinstance(name, str) and name), None)


def request(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> Attributes:
    """Read the request parameters that the conventions name."""
    found: Attributes = {}
    for attribute, kind, keys in _PARAMETERS:
        for key in keys:
            value = parameters.get(key, metadata.get(key))
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found[attribute] = kind(value)
                break
    return found


def stop_sequences(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """Read the stop sequences; they may hold content."""
    stop = parameters.get("stop") or metadata.get("ls_stop") or []
    return [stop] if isinstance(stop, str) else [str(word) for word in stop]


def response(result: Any) -> Attributes:
    """Read usage, finish reasons, model and id from an ``LLMResult``."""
    generations = [generation for prompt in result.generations for generation in prompt]
    messages = [getattr(generation, "message", None) for generation in generations]
    found: Attributes = dict(_usage(messages, result.llm_output or {}))
    reasons = [reason for reason in map(finish_reason, generations) if reason]
    if reasons:
        found[names.GEN_AI_RESPONSE_FINISH_REASONS] = reasons
    found.update(_identity(messages, result.llm_output or {}))
    return found


def _usage(messages: list[Any], llm_output: Mapping[str, Any]) -> Attributes:
    # Several generations of one prompt repeat the prompt's usage; so it is counted once.
    usage = next((m.usage_metadata for m in messages if getattr(m, "usage_metadata", None)), None)
    if usage is not None:
        return _of_usage_metadata(usage)
    usage = llm_output.get("token_usage") or llm_output.get("usage")
    if usage is None:
        usage = next((_response_usage(m) for m in messages if _response_usage(m)), None)
    return _of_provider_usage(usage) if isinstance(usage, Mapping) else {}


def _response_usage(message: Any) -> Any:
    metadata = getattr(message, "response_metadata", None) or {}
    return metadata.get("token_usage") or metadata.get("usage")


def _of_usage_metadata(usage: Mapping[str, Any]) -> Attributes:
    found: Attributes = {}
    _count(found, names.GEN_AI_USAGE_INPUT_TOKENS, usage.get("input_tokens"))
    _count(found, names.GEN_AI_USAGE_OUTPUT_TOKENS, usage.get("output_tokens"))
    for attribute, group, key in _USAGE_DETAILS:
        _count(found, attribute, (usage.get(group) or {}).get(key))
    return found


def _of_provider_usage(usage: Mapping[str, Any]) -> Attributes:
    found: Attributes = {}
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    completion = usage.get("completion_tokens", usage.get("output_tokens"))
    _count(found, names.GEN_AI_USAGE_INPUT_TOKENS, prompt)
    _count(found, names.GEN_AI_USAGE_OUTPUT_TOKENS, completion)
    return found


def _count(found: Attributes, attribute: str, value: Any) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        found[attribute] = value


def finish_reason(generation: Any) -> str | None:
    """Read why the model stopped, under whichever name the provider gives it."""
    message_metadata = getattr(getattr(generation, "message", None), "response_metadata", None)
    for metadata in (message_metadata or {}, generation.generation_info or {}):
        for key in ("finish_reason", "stop_reason", "done_reason"):
            if isinstance(metadata.get(key), str):
                return str(metadata[key])
    return None


def _identity(messages: list[Any], llm_output: Mapping[str, Any]) -> Attributes:
    metadata: dict[str, Any] = next((m.response_metadata for m in messages if m is not None), {})
    found: Attributes = {}
    name = metadata.get("model_name") or metadata.get("model") or llm_output.get("model_name")
    if isinstance(name, str):
        found[names.GEN_AI_RESPONSE_MODEL] = name
    if isinstance(metadata.get("id"), str):
        found[names.GEN_AI_RESPONSE_ID] = metadata["id"]
    return found
