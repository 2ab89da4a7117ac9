"""Token usage, in whichever shape a provider or LangChain reports it → GenAI attributes.

The conventions count cached tokens within ``input_tokens`` and reasoning tokens within
``output_tokens``. LangChain's own `usage_metadata` does the same; providers differ, so their raw
shapes are brought to it here. A detail is never added to a total that already holds it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from otelchain import attributes as names

Counts = dict[str, int]
"""Attribute → number of tokens."""

Path = tuple[str, ...]
"""Keys from the outside in; a list of ``{modality, token_count}`` is entered by its modality."""

# langchain_core.messages.ai.InputTokenDetails and OutputTokenDetails. langchain-openai prefixes
# what a service tier was charged for; langchain-anthropic splits cache writes by their lifetime
# and then leaves cache_creation at 0.
_INPUT_DETAIL = {
    "cache_read": names.GEN_AI_USAGE_CACHE_READ,
    "priority_cache_read": names.GEN_AI_USAGE_CACHE_READ,
    "flex_cache_read": names.GEN_AI_USAGE_CACHE_READ,
    "cache_creation": names.GEN_AI_USAGE_CACHE_WRITE,
    "audio": names.GEN_AI_USAGE_AUDIO_INPUT,
    "image": names.GEN_AI_USAGE_IMAGE_INPUT,
    "text": names.GEN_AI_USAGE_TEXT_INPUT,
}
_OUTPUT_DETAIL = {
    "reasoning": names.GEN_AI_USAGE_REASONING,
    "priority_reasoning": names.GEN_AI_USAGE_REASONING,
    "flex_reasoning": names.GEN_AI_USAGE_REASONING,
    "audio": names.GEN_AI_USAGE_AUDIO_OUTPUT,
    "image": names.GEN_AI_USAGE_IMAGE_OUTPUT,
    "text": names.GEN_AI_USAGE_TEXT_OUTPUT,
}
_CACHE_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")

# Where usage stands beside a message: LangChain's spellings, Bedrock's and Cohere's.
_HOLDERS = (
    "token_usage",
    "usage",
    "usage_metadata",
    "usageMetadata",
    "amazon-bedrock-invocationMetrics",
    "token_count",
)

# OpenAI chat and text, OpenAI Responses and Anthropic, Bedrock Converse and metrics, Gemini, IBM,
# Ollama. The first key that is there wins.
_INPUT = (
    "prompt_tokens",
    "input_tokens",
    "inputTokens",
    "inputTokenCount",
    "prompt_token_count",
    "promptTokenCount",
    "input_token_count",
    "prompt_eval_count",
)
_OUTPUT = (
    "completion_tokens",
    "output_tokens",
    "outputTokens",
    "outputTokenCount",
    "candidates_token_count",
    "candidatesTokenCount",
    "generated_token_count",
    "eval_count",
)
_TOTAL = ("total_tokens", "totalTokens", "total_token_count", "totalTokenCount")
# Anthropic and Bedrock count these beside their input, not within it.
_CACHE_READ_BESIDE = (
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cacheReadInputTokenCount",
)
_CACHE_WRITE_BESIDE = (
    "cache_creation_input_tokens",
    "cache_write_input_tokens",
    "cacheWriteInputTokens",
    "cacheWriteInputTokenCount",
)
_INPUT_WITHOUT_CACHE = {"input_tokens", "inputTokens", "inputTokenCount"}
# Gemini counts thoughts beside its candidates.
_THOUGHTS_BESIDE = ("thoughts_token_count", "thoughtsTokenCount")
_OUTPUT_WITHOUT_THOUGHTS = {"candidates_token_count", "candidatesTokenCount"}

_INPUT_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "input_token_details",
    "promptTokensDetails",
)
_OUTPUT_DETAILS = (
    "completion_tokens_details",
    "output_tokens_details",
    "output_token_details",
    "candidates_tokens_details",
    "candidatesTokensDetails",
)


def _within(groups: tuple[str, ...], *keys: str) -> tuple[Path, ...]:
    return tuple((group, key) for group in groups for key in keys)


_RAW_DETAILS: tuple[tuple[str, tuple[Path, ...]], ...] = (
    (
        names.GEN_AI_USAGE_CACHE_READ,
        (
            *((key,) for key in _CACHE_READ_BESIDE),
            *_within(_INPUT_DETAILS, "cached_tokens", "cache_read"),
            ("cached_content_token_count",),
            ("cachedContentTokenCount",),
            ("prompt_cache_hit_tokens",),
        ),
    ),
    (
        names.GEN_AI_USAGE_CACHE_WRITE,
        (
            *((key,) for key in _CACHE_WRITE_BESIDE),
            *_within(_INPUT_DETAILS, "cache_creation", "cache_write_tokens"),
        ),
    ),
    (
        names.GEN_AI_USAGE_REASONING,
        (
            *_within(_OUTPUT_DETAILS, "reasoning_tokens", "reasoning"),
            *((key,) for key in _THOUGHTS_BESIDE),
            ("reasoning_tokens",),
        ),
    ),
    (names.GEN_AI_USAGE_AUDIO_INPUT, _within(_INPUT_DETAILS, "audio_tokens", "audio")),
    (names.GEN_AI_USAGE_AUDIO_OUTPUT, _within(_OUTPUT_DETAILS, "audio_tokens", "audio")),
    (names.GEN_AI_USAGE_IMAGE_INPUT, _within(_INPUT_DETAILS, "image_tokens", "image")),
    (names.GEN_AI_USAGE_IMAGE_OUTPUT, _within(_OUTPUT_DETAILS, "image_tokens", "image")),
    (names.GEN_AI_USAGE_TEXT_INPUT, _within(_INPUT_DETAILS, "text_tokens", "text")),
    (names.GEN_AI_USAGE_TEXT_OUTPUT, _within(_OUTPUT_DETAILS, "text_tokens", "text")),
)


def of_result(messages: list[Any], infos: list[Any], llm_output: Mapping[str, Any]) -> Counts:
    """Read the usage of one model run; the best source wins, the next fills what it leaves out.

    Args:
        messages: The message of each generation, or None.
        infos: The ``generation_info`` of each generation, or None.
        llm_output: What the provider said of the whole call.
    """
    # Several generations of one prompt repeat the prompt's usage, so no generation is added.
    counts = _greatest(of_usage_metadata(getattr(m, "usage_metadata", None)) for m in messages)
    if len(counts) > 2:
        return counts  # totals and a detail: nobody else knows more
    for source in (llm_output, *(getattr(m, "response_metadata", None) for m in messages), *infos):
        if source:
            for attribute, count in _held(source).items():
                counts.setdefault(attribute, count)
    return counts


def of_usage_metadata(usage: Any) -> Counts:
    """Read LangChain's `UsageMetadata`, which counts as the conventions do.

    >>> of_usage_metadata({"input_tokens": 9, "input_token_details": {"cache_read": 3}})
    {'gen_ai.usage.input_tokens': 9, 'gen_ai.usage.cache_read.input_tokens': 3}
    """
    if not usage or not isinstance(usage, Mapping):
        return {}
    counts: Counts = {}
    _put(counts, names.GEN_AI_USAGE_INPUT_TOKENS, usage.get("input_tokens"))
    _put(counts, names.GEN_AI_USAGE_OUTPUT_TOKENS, usage.get("output_tokens"))
    sent, received = usage.get("input_token_details"), usage.get("output_token_details")
    if sent:
        _put_details(counts, sent, _INPUT_DETAIL)
        split = sum(_count(_mapping(sent).get(key)) or 0 for key in _CACHE_WRITES)
        if split > counts.get(names.GEN_AI_USAGE_CACHE_WRITE, 0):
            counts[names.GEN_AI_USAGE_CACHE_WRITE] = split
    if received:
        _put_details(counts, received, _OUTPUT_DETAIL)
    return counts


def _put_details(counts: Counts, details: Any, known: Mapping[str, str]) -> None:
    for key, value in _mapping(details).items():
        attribute = known.get(key)
        count = _count(value)
        if attribute is not None and count is not None and count >= counts.get(attribute, 0):
            counts[attribute] = count


def of_provider_usage(usage: Any) -> Counts:
    """Read a provider's raw usage.

    >>> of_provider_usage({"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1})
    {'gen_ai.usage.input_tokens': 8, 'gen_ai.usage.output_tokens': 1, \
'gen_ai.usage.cache_read.input_tokens': 3}
    """
    usage = _mapping(usage)
    input_key, input_tokens = _first(usage, _INPUT)
    output_key, output_tokens = _first(usage, _OUTPUT)
    _, total = _first(usage, _TOTAL)
    known = (input_tokens or 0) + (output_tokens or 0)
    beside = total is None or total > known  # a total that is reached leaves nothing beside it
    if input_tokens is not None and beside and input_key in _INPUT_WITHOUT_CACHE:
        for keys in (_CACHE_READ_BESIDE, _CACHE_WRITE_BESIDE):
            input_tokens += _first(usage, keys)[1] or 0
    if output_tokens is not None and beside and output_key in _OUTPUT_WITHOUT_THOUGHTS:
        output_tokens += _first(usage, _THOUGHTS_BESIDE)[1] or 0
    counts: Counts = {}
    _put(counts, names.GEN_AI_USAGE_INPUT_TOKENS, input_tokens)
    _put(counts, names.GEN_AI_USAGE_OUTPUT_TOKENS, output_tokens)
    for attribute, paths in _RAW_DETAILS:
        for path in paths:
            if _put(counts, attribute, _at(usage, path)):
                break
    return counts


class StreamedUsage:
    """What the chunks of one stream said of its usage, also when the stream never ends well.

    LangChain adds up the usage of all chunks. A provider or proxy that repeats running totals in
    every chunk is then counted many times over. A request's input is read once: when it is
    reported a second time, the numbers are running totals and the greatest of each key counts.

    Used by one thread at a time.
    """

    __slots__ = ("_greatest", "_input_reports", "_sum")

    def __init__(self) -> None:
        self._sum: Counts = {}
        self._greatest: Counts = {}
        self._input_reports = 0

    def add(self, counts: Counts) -> None:
        """Take what one more chunk says."""
        for attribute, count in counts.items():
            self._sum[attribute] = self._sum.get(attribute, 0) + count
            self._greatest[attribute] = max(self._greatest.get(attribute, 0), count)
        if counts.get(names.GEN_AI_USAGE_INPUT_TOKENS):
            self._input_reports += 1

    def counts(self) -> Counts:
        """Return the usage of the whole stream so far."""
        return self._greatest if self._input_reports > 1 else self._sum


def add_chunk(usage: StreamedUsage | None, chunk: Any) -> StreamedUsage | None:
    """Add what a chunk of a stream says of its usage; most chunks say nothing and cost nothing.

    Args:
        usage: What earlier chunks said, None at first.
        chunk: A `GenerationChunk` or a v3 stream event; anything else is ignored.
    """
    if isinstance(chunk, Mapping):
        counts = of_usage_metadata(chunk.get("usage"))
    else:
        message = getattr(chunk, "message", None)
        counts = of_usage_metadata(getattr(message, "usage_metadata", None))
        if not counts:
            counts = _held(getattr(message, "response_metadata", None))
    if counts:
        usage = usage or StreamedUsage()
        usage.add(counts)
    return usage


def _held(source: Any) -> Counts:
    """Read the usage that response metadata, generation info or an LLM output holds."""
    if not source or not isinstance(source, Mapping):
        return {}
    for holder in _HOLDERS:
        if holder in source:
            counts = of_provider_usage(source[holder])
            if counts:
                return counts
    return of_provider_usage(source) if "prompt_eval_count" in source else {}  # Ollama


def _greatest(several: Iterator[Counts]) -> Counts:
    greatest: Counts = {}
    for counts in several:
        for attribute, count in counts.items():
            if count >= greatest.get(attribute, 0):
                greatest[attribute] = count
    return greatest


def _first(usage: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str | None, int | None]:
    for key in keys:
        count = _count(usage.get(key))
        if count is not None:
            return key, count
    return None, None


def _at(usage: Mapping[str, Any], path: Path) -> Any:
    value: Any = usage.get(path[0])
    if len(path) == 1 or not value:
        return value
    if isinstance(value, (list, tuple)):
        return next(
            (_modality_count(entry, path[1]) for entry in value if _is(entry, path[1])), None
        )
    return _mapping(value).get(path[1])


def _is(entry: Any, modality: str) -> bool:
    named = _mapping(entry).get("modality")
    named = getattr(named, "value", named)
    return isinstance(named, str) and named.lower() == modality


def _modality_count(entry: Any, _modality: str) -> Any:
    entry = _mapping(entry)
    return entry.get("token_count", entry.get("tokenCount"))


def _mapping(value: Any) -> Mapping[str, Any]:
    """Read a provider's own object (a pydantic model, a message class) by its fields."""
    if isinstance(value, Mapping):
        return value
    return getattr(value, "__dict__", None) or {}


def _put(counts: Counts, attribute: str, value: Any) -> bool:
    count = _count(value)
    if count is None:
        return False
    counts[attribute] = count
    return True


def _count(value: Any) -> int | None:
    """Accept what can be a number of tokens; int64 is what OTLP can carry."""
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**63 and value == int(value) else None
