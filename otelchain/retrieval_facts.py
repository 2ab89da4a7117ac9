"""Retrieved documents → the documents attribute: what a retriever found, in order."""

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from langchain_core.documents import Document

from otelchain import attributes as names
from otelchain.snapshot import utf8

# Where integrations put a document's score; LangChain has no field for it.
_SCORE_KEYS = ("score", "relevance_score", "similarity_score", "_score", "distance", "similarity")
_ID_KEYS = ("id", "_id", "doc_id", "document_id")

#: Documents that are described; the count is of all. More than this fit into no value's budget,
#: and hashing a million texts would hold up the event loop.
MAX_DOCUMENTS = 1_000


def documents_json(
    documents: Sequence[Any], fact: Callable[[str], str], *, content: bool
) -> list[dict[str, Any]]:
    """Describe documents in order: text and metadata as content, the rest always.

    The rest is rank (from 1), id, score, length and SHA-256 of the text; so two runs can be
    compared without their content.

    Args:
        documents: As a retriever gave them.
        fact: Redacts an id, and cuts it where it is none.
        content: Whether text and metadata are wanted.
    """
    return [
        _document(document, rank, fact, content=content)
        for rank, document in enumerate(islice(documents, MAX_DOCUMENTS), 1)
    ]


def request(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Read how a retriever was asked to search, where its metadata says so."""
    found: dict[str, Any] = {}
    inner = metadata.get("search_kwargs")
    top_k = _whole(metadata.get("k")) or _whole(metadata.get("top_k"))
    if isinstance(inner, Mapping):
        top_k = top_k or _whole(inner.get("k"))
    if top_k:
        found[names.GEN_AI_RETRIEVAL_TOP_K] = top_k
    for attribute, key in (
        (names.RETRIEVAL_SEARCH_TYPE, "search_type"),
        (names.GEN_AI_DATA_SOURCE_ID, "data_source_id"),
    ):
        value = metadata.get(key)
        if isinstance(value, str) and value:
            found[attribute] = value
    return found


def _document(
    document: Any, rank: int, fact: Callable[[str], str], *, content: bool
) -> dict[str, Any]:
    fields = _fields(document)
    text = fields.get("page_content")
    metadata = fields.get("metadata")
    places = (fields, metadata if isinstance(metadata, Mapping) else {})
    described: dict[str, Any] = {"rank": rank}
    identity = _identity(places)
    if identity is not None:
        described["id"] = fact(identity)
    score = _score(places)
    if score is not None:
        described["score"] = score
    if isinstance(text, str):
        described["length_chars"] = len(text)
        described["sha256"] = sha256(utf8(text)).hexdigest()
    if content:
        described["content"] = document if text is None else text
        if metadata:
            described["metadata"] = metadata
    return described


def _fields(document: Any) -> Mapping[str, Any]:
    """Read a document's fields; it may be a plain dict (a store's own search result)."""
    if isinstance(document, Document):
        return vars(document)
    if isinstance(document, Mapping):
        return document
    wanted = ("page_content", "metadata", "id", *_SCORE_KEYS)
    return {name: getattr(document, name, None) for name in wanted}


def _identity(places: tuple[Mapping[str, Any], ...]) -> str | None:
    """Look for an id in the document itself, then in its metadata."""
    for place in places:
        for key in _ID_KEYS:
            identity = place.get(key)
            if isinstance(identity, str):
                return identity
            if type(identity) is int and abs(identity) < 2**63:
                return str(identity)
    return None


def _score(places: tuple[Mapping[str, Any], ...]) -> float | None:
    """Look for a score in the document itself, then in its metadata; a flag or NaN is none."""
    for place in places:
        for key in _SCORE_KEYS:
            if key in place:
                score = _finite(place[key])
                if score is not None:
                    return score
    return None


def _finite(value: Any) -> float | None:
    # numpy.float32 is no float, but it says how to become one.
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        return None
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - an object of the application may do anything
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63
    return value if valid else None
