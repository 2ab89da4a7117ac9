"""Model runs: request parameters, answer, finish reasons → GenAI attributes (no content)."""

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from otelchain import attributes as names
from otelchain import usage_facts
from otelchain.content import Attributes
from otelchain.snapshot import utf8

# LangChain's ls_provider (and what integrations write there) → gen_ai.provider.name.
_PROVIDERS = {
    "amazon_bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
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


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    """Accept a whole number that OTLP can carry, also when it was written as 40.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -(2**63) <= value < 2**63 or value != int(value):
        return None
    return int(value)


def _several(value: Any) -> int | None:
    """Accept a choice count above 1: the conventions leave the common case out."""
    count = _whole(value)
    return count if count is not None and count > 1 else None


def _word(value: Any) -> str | None:
    value = value.value if isinstance(value, enum.Enum) else value
    if not isinstance(value, str) or not value:
        return None
    return value if value.isascii() else utf8(value).decode()


def _true(value: Any) -> bool | None:
    return True if value is True else None


def _effort(value: Any) -> str | None:
    """OpenAI's ``reasoning`` and Anthropic's ``output_config``: the level is one of their keys."""
    return _word(value.get("effort")) if isinstance(value, Mapping) else None


def _format(value: Any) -> str | None:
    """Read the output type out of OpenAI's ``response_format``, or see that there is a schema."""
    if isinstance(value, Mapping):
        inner = value.get("format")
        kind = (inner if isinstance(inner, Mapping) else value).get("type")
        if isinstance(kind, str):
            return _OUTPUT_TYPES.get(kind)
        return "json" if "schema" in value or "json_schema" in value else None
    return "json" if isinstance(value, type) else None


def _mime(value: Any) -> str | None:
    """Read a MIME type, or Ollama's ``format``: a word or a schema."""
    if isinstance(value, Mapping):
        return "json"
    return _OUTPUT_TYPES.get(value) if isinstance(value, str) else None


def _modalities(value: Any) -> str | None:
    """Read the output type out of a list of modalities; text beside another one says little."""
    if not isinstance(value, (list, tuple)):
        return None
    wanted = [_OUTPUT_TYPES.get(kind.lower()) for kind in value if isinstance(kind, str)]
    return next((kind for kind in wanted if kind not in {None, "text"}), None) or (
        "text" if "text" in wanted else None
    )


def _schema(value: Any) -> str | None:
    return "json" if value else None


def _words(value: Any) -> list[str] | None:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)):
        return None
    return [word for word in words if isinstance(word, str)] or None


_OUTPUT_TYPES = {
    "text": "text",
    "text/plain": "text",
    "json": "json",
    "json_object": "json",
    "json_schema": "json",
    "application/json": "json",
    "image": "image",
    "audio": "speech",
    "speech": "speech",
}

_TEMPERATURE = (names.GEN_AI_REQUEST_TEMPERATURE, _number)
_TOP_P = (names.GEN_AI_REQUEST_TOP_P, _number)
_TOP_K = (names.GEN_AI_REQUEST_TOP_K, _whole)
_MAX_TOKENS = (names.GEN_AI_REQUEST_MAX_TOKENS, _whole)
_CHOICES = (names.GEN_AI_REQUEST_CHOICE_COUNT, _several)
_LEVEL = (names.GEN_AI_REQUEST_REASONING_LEVEL, _word)
_STREAM = (names.GEN_AI_REQUEST_STREAM, _true)
_OUTPUT = names.GEN_AI_OUTPUT_TYPE

# What integrations call a parameter → the attribute, and how its value is read.
_RULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "temperature": _TEMPERATURE,
    "top_p": _TOP_P,
    "topP": _TOP_P,
    "top_k": _TOP_K,
    "topK": _TOP_K,
    "max_tokens": _MAX_TOKENS,
    "max_completion_tokens": _MAX_TOKENS,
    "max_output_tokens": _MAX_TOKENS,
    "max_new_tokens": _MAX_TOKENS,
    "max_tokens_to_sample": _MAX_TOKENS,
    "maxTokens": _MAX_TOKENS,
    "num_predict": _MAX_TOKENS,
    "seed": (names.GEN_AI_REQUEST_SEED, _whole),
    "random_seed": (names.GEN_AI_REQUEST_SEED, _whole),
    "frequency_penalty": (names.GEN_AI_REQUEST_FREQUENCY_PENALTY, _number),
    "presence_penalty": (names.GEN_AI_REQUEST_PRESENCE_PENALTY, _number),
    "n": _CHOICES,
    "candidate_count": _CHOICES,
    "num_generations": _CHOICES,
    "reasoning_effort": _LEVEL,
    "thinking_level": _LEVEL,
    "effort": _LEVEL,
    "reasoning": (names.GEN_AI_REQUEST_REASONING_LEVEL, _effort),
    "output_config": (names.GEN_AI_REQUEST_REASONING_LEVEL, _effort),
    "encoding_format": (names.GEN_AI_REQUEST_ENCODING_FORMATS, _words),
    "encoding_formats": (names.GEN_AI_REQUEST_ENCODING_FORMATS, _words),
    "previous_response_id": (names.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID, _word),
    "stream": _STREAM,
    "streaming": _STREAM,
    "response_format": (_OUTPUT, _format),
    "text": (_OUTPUT, _format),
    "format": (_OUTPUT, _mime),
    "response_mime_type": (_OUTPUT, _mime),
    "modalities": (_OUTPUT, _modalities),
    "response_modalities": (_OUTPUT, _modalities),
    "ls_structured_output_format": (_OUTPUT, _schema),
}
# Parameters inside a parameter: what a wrapper passes on, Gemini's, Bedrock's and Ollama's groups.
_GROUPS = ("model_kwargs", "generation_config", "inferenceConfig", "options", "extra_body")
_ADDRESSES = (
    "base_url",
    "openai_api_base",
    "azure_endpoint",
    "endpoint_url",
    "anthropic_api_url",
    "api_base",
)
# Where the definitions of tools stand; "toolConfig" is Bedrock Converse's.
TOOLS = ("tools", "functions", "toolConfig")
_STOPS = ("stop", "stop_sequences", "stopSequences")
_FINISH_REASONS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
_MODELS = ("model_name", "model", "model_id", "modelId", "modelVersion")
_IDS = ("id", "response_id", "responseId", "request_id")
# Ids that LangChain gives a message when the provider gave none.
_OWN_MESSAGE_IDS = ("run-", "lc_", "lc-")


def parameters(serialized: Mapping[str, Any] | None, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Bring together what a model was asked with, from the three places where LangChain says it.

    Invocation parameters are the bulk; structured output is announced in the options only, and
    the address of the server stands in the serialised model.
    """
    given = event.get("invocation_params") or {}
    options = event.get("options") or {}
    more: dict[str, Any] = {}
    schema = options.get("ls_structured_output_format")
    if schema:
        more["ls_structured_output_format"] = schema
    made_with = serialized.get("kwargs") if serialized else None
    if isinstance(made_with, Mapping):
        for key in _ADDRESSES:
            if key in made_with:
                more[key] = made_with[key]
    return {**more, **given} if more else given


def provider(metadata: Mapping[str, Any]) -> str | None:
    """Name the provider as the GenAI conventions spell it."""
    return provider_name(metadata.get("ls_provider"))


def provider_name(name: Any) -> str | None:
    """Spell a provider's name as the GenAI conventions do."""
    return _PROVIDERS.get(name, name) if isinstance(name, str) and name else None


def model(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> str | None:
    """Find the requested model: LangChain's own field first, then the provider's parameters."""
    name = metadata.get("ls_model_name")
    if isinstance(name, str) and name:
        return name
    candidates = (
        parameters.get(key) for key in ("model", "model_name", "model_id", "deployment_name")
    )
    return next((name for name in candidates if isinstance(name, str) and name), None)


def request(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> Attributes:
    """Read the request parameters that the conventions name."""
    found: Attributes = {}
    _take(found, _TEMPERATURE, metadata.get("ls_temperature"))
    _take(found, _MAX_TOKENS, metadata.get("ls_max_tokens"))
    for group in _GROUPS:
        inner = parameters.get(group)
        if isinstance(inner, Mapping):
            _take_all(found, inner)
    _take_all(found, parameters)
    for key in _ADDRESSES:
        if parameters.get(key):
            found.update(_server(parameters[key]))
            break
    return found


def _take_all(found: Attributes, parameters: Mapping[str, Any]) -> None:
    for key, value in parameters.items():
        if value is not None:
            rule = _RULES.get(key)
            if rule is not None:
                _take(found, rule, value)


def _take(found: Attributes, rule: tuple[str, Callable[[Any], Any]], value: Any) -> None:
    read = rule[1](value)
    if read is not None:
        found[rule[0]] = read


def _server(address: Any) -> Attributes:
    """Take host and port out of an address; a password in it stays out."""
    if not isinstance(address, str):
        return {}
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:  # a malformed port or IPv6 address
        return {}
    found: Attributes = {names.SERVER_ADDRESS: host} if host else {}
    if host and port:
        found[names.SERVER_PORT] = port
    return found


def stop_sequences(metadata: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """Read the stop sequences; they may hold content."""
    stop = next(filter(None, map(parameters.get, _STOPS)), None) or metadata.get("ls_stop")
    if not stop:
        return []
    if isinstance(stop, str):
        return [stop]
    return [word for word in stop if isinstance(word, str)] if isinstance(stop, Iterable) else []


def response(result: Any) -> Attributes:
    """Read usage, finish reasons, model and id from an ``LLMResult``."""
    generations = [generation for prompt in result.generations for generation in prompt]
    messages = [getattr(generation, "message", None) for generation in generations]
    llm_output = _mapping(getattr(result, "llm_output", None))
    infos = [getattr(generation, "generation_info", None) for generation in generations]
    found: Attributes = dict(usage_facts.of_result(messages, infos, llm_output))
    reasons = [reason for reason in map(finish_reason, generations) if reason]
    if reasons:
        found[names.GEN_AI_RESPONSE_FINISH_REASONS] = reasons
    _identify(found, messages, llm_output)
    return found


def finish_reason(generation: Any) -> str | None:
    """Read why the model stopped, under whichever name the provider gives it."""
    message = getattr(generation, "message", None)
    for metadata in (
        getattr(message, "response_metadata", None),
        getattr(generation, "generation_info", None),
    ):
        if metadata and isinstance(metadata, Mapping):
            for key in _FINISH_REASONS:
                if metadata.get(key):
                    reason = _word(metadata[key])
                    if reason:
                        return _once(reason)
            incomplete = metadata.get("incomplete_details")  # OpenAI Responses
            if isinstance(incomplete, Mapping):
                return _word(incomplete.get("reason"))
            if metadata.get("status") == "completed":
                return "completed"
    return None


def _identify(found: Attributes, messages: list[Any], llm_output: Mapping[str, Any]) -> None:
    message = next((m for m in messages if m is not None), None)
    metadata = _mapping(getattr(message, "response_metadata", None))
    name = _first_word(metadata, _MODELS) or _first_word(llm_output, _MODELS)
    if name:
        found[names.GEN_AI_RESPONSE_MODEL] = _once(name)
    identity = _first_word(metadata, _IDS) or _first_word(llm_output, _IDS)
    if identity is None:
        given = _word(getattr(message, "id", None))
        identity = None if given is None or given.startswith(_OWN_MESSAGE_IDS) else given
    if identity:
        found[names.GEN_AI_RESPONSE_ID] = identity


def _first_word(metadata: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key in metadata:
            word = _word(metadata[key])
            if word:
                return word
    return None


def _once(word: str) -> str:
    """Undo the merging of chunks, which makes "stopstop" of two chunks that both say "stop".

    >>> _once("stopstop"), _once("gpt-4o")
    ('stop', 'gpt-4o')
    """
    period = (word + word).find(word, 1)
    return word[:period] if _SHORTEST_REPEAT_CHARS <= period < len(word) else word


_SHORTEST_REPEAT_CHARS = 4  # "stop"; a name may well repeat a letter or two


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
