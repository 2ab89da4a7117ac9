"""What the support assistant can look things up in: three places to search, one of them down."""

import re
from collections.abc import Sequence

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from otelchain.demo import planted

_COMMON_WORDS = frozenset(
    ["a", "an", "and", "are", "can", "i", "in", "is", "of", "on", "the", "to"]
)


class KeywordRetriever(BaseRetriever):
    """Find the documents that share the most words with the query, best first."""

    documents: Sequence[Document]
    most: int = 2

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        wanted = _words(query)
        scored = [(len(wanted & _words(each.page_content)), each) for each in self.documents]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [document for _, document in found[: self.most]]


class UnreachableRetriever(BaseRetriever):
    """Fail as a client does whose database is down: with the whole address in the message."""

    address: str

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise ConnectionError(f"could not connect to {self.address}: timed out after 3 s")


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - _COMMON_WORDS


def handbook() -> KeywordRetriever:
    """Make the retriever over the support handbook, where somebody has pasted credentials."""
    return KeywordRetriever(
        name="handbook",
        documents=[
            Document(
                "Returns: a customer may return an item within 30 days of delivery.",
                metadata={"source": "handbook/returns.md", "id": "returns"},
            ),
            Document(
                "Refunds are paid within 5 working days after the return has arrived. To start one:"
                f" curl -H 'Authorization: Bearer {planted.HANDBOOK_TOKEN}' /refunds"
                f" (archive: AWS access key {planted.HANDBOOK_AWS_KEY}).",
                metadata={"source": "handbook/refunds.md", "id": "refunds"},
            ),
            Document(
                "Damaged on the way: offer a replacement; the carrier pays for the parcel.",
                metadata={"source": "handbook/damage.md", "id": "damage"},
            ),
        ],
    )


def past_tickets() -> UnreachableRetriever:
    """Make the retriever over past tickets; it always fails."""
    return UnreachableRetriever(
        name="past-tickets",
        address=f"postgresql://support:{planted.TICKETS_PASSWORD}@tickets.internal:5432/tickets",
    )


def forum() -> KeywordRetriever:
    """Make the retriever over the customers' forum; it has nothing on kettles."""
    return KeywordRetriever(
        name="forum",
        documents=[Document("Which grinder suits light roasts?", metadata={"id": "grinders"})],
    )
