"""Redaction: text and JSON-like trees in, the same without secrets out.

:class:`Redactor` is the one door. ``otelchain.content`` passes every value through it before the
value becomes a span attribute, so no processor, exporter or file ever holds the original.
"""

from otelchain.redaction.hash_keys import HashKey
from otelchain.redaction.policy_rule import PolicyRule
from otelchain.redaction.redactor import Redactor

__all__ = ["HashKey", "PolicyRule", "Redactor"]
