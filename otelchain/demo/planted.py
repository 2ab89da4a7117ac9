"""Every secret that the demo's application carries, each with its own value; none of them is real.

Longer values are put together from parts, so that secret scanners do not report this file.
"""

from collections.abc import Iterable
from typing import Final

ORDER_SERVICE_KEY: Final = "sk-proj-" + "4fQ7mZt2" * 5  # in the system prompt
CUSTOMER_EMAIL: Final = "dana.reyes@example.com"  # in the question and in the model's tool call
CUSTOMER_PHONE: Final = "+44 20 7946 0958"  # in the question
CUSTOMER_CARD: Final = "4111 1111 1111 1111"  # in the question
HANDBOOK_TOKEN: Final = "Zx81" + "kq0Lw5Rt9vBn" * 3  # behind "Bearer" in a document
HANDBOOK_AWS_KEY: Final = "AKIA" + "Q3EGRWTZ7HK2MVXL"  # in the same document
CUSTOMER_IBAN: Final = "DE89370400440532013000"  # in a tool's result
CUSTOMER_PASSWORD: Final = "correct-horse-" + "battery-staple"  # under a sensitive key there
TICKETS_PASSWORD: Final = "t1ckets-" + "Pa55phrase"  # in a URL in an error message
SESSION_TOKEN: Final = "sess-" + "9d2c41e07ab8"  # under a sensitive key in the metadata

SECRETS: Final = {
    "order service key (system prompt)": ORDER_SERVICE_KEY,
    "e-mail address (question, tool call)": CUSTOMER_EMAIL,
    "phone number (question)": CUSTOMER_PHONE,
    "card number (question)": CUSTOMER_CARD,
    "bearer token (document)": HANDBOOK_TOKEN,
    "AWS key id (document)": HANDBOOK_AWS_KEY,
    "IBAN (tool result)": CUSTOMER_IBAN,
    "password (tool result)": CUSTOMER_PASSWORD,
    "database password (error message)": TICKETS_PASSWORD,
    "session token (run metadata)": SESSION_TOKEN,
}


def found_in(texts: Iterable[bytes]) -> list[str]:
    """Name the planted secrets whose value occurs in any of the texts."""
    values = {name: value.encode() for name, value in SECRETS.items()}
    seen: set[str] = set()
    for text in texts:
        seen.update(name for name, value in values.items() if value in text)
    return [name for name in SECRETS if name in seen]
