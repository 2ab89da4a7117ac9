"""Retrieved documents → the documents attribute: what a retriever found, in order."""

import math
from collections.abc import Sequence
from typing import Any

# Where integrations put a document's score; LangChain has no field for it.
_SCORE_KEYS = ("score", "relevance_score", "similarity_score", "_score", "distance")


def documents_json(documents: Sequence[Any], *, content: bool) -> list[dict[str, Any]]:
    """Describe documents by rank: id, score and length always, text and metadata as content."""
    return [_document(document, content=content) for document in documents]


def _document(document: Any, *, content: bool) -> dict[str, Any]:
    text = getattr(document, "page_content", None)
    metadata = getattr(document, "metadata", None) or {}
    described: dict[str, Any] = {"id": getattr(document, "id", None), "score": _score(metadata)}
    described["length_chars"] = len(text) if isinstance(text, str) else None
    described = {key: value for key, value in described.items() if value is not None}
    if content:
        described["content"] = document if text is None else text
        if metadata:
            described["metadata"] = metadata
    return described


def _score(metadata: dict[str, Any]) -> float | None:
    for key in _SCORE_KEYS:
        value = metadata.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None
