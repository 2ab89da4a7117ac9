"""Policies with a name: what each looks for, and which rules it brings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from otelchain.redaction.detectors import DEFAULT_RULES, OPTIONAL_RULES
from otelchain.redaction.detectors import PERSONAL_FAMILIES as PERSONAL_FAMILIES
from otelchain.redaction.places import CONTENT
from otelchain.redaction.policy_rule import PolicyRule

DETECTORS = tuple(dict.fromkeys([*(rule.family for rule in DEFAULT_RULES), "secret"]))
"""Families of rules. Single rules may be named too."""

RULE_NAMES = frozenset(rule.name for rule in DEFAULT_RULES)

OPTIONAL_DETECTORS = tuple(dict.fromkeys(rule.family for rule in OPTIONAL_RULES))
"""Families that only who names them has."""

SECRET_FAMILIES = tuple(name for name in DETECTORS if name not in PERSONAL_FAMILIES)

WITHHELD = "content"


class Preset(NamedTuple):
    """What a policy starts from."""

    help: str
    detectors: tuple[str, ...]
    rules: tuple[PolicyRule, ...] = ()


DEFAULT_PRESET, OFF = "personal", "off"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "secrets": Preset("keys, tokens, passwords: whatever opens a door", SECRET_FAMILIES),
        "personal": Preset("the default: `secrets`, and what identifies a person", DETECTORS),
        "strict": Preset(
            "no content at all: of inputs, outputs, error texts and events only the size, and the "
            "keyed hash where there is a key; users' metadata and tags, texts of documents not at "
            "all; `personal` for names and ids",
            DETECTORS,
            (PolicyRule(name=WITHHELD, paths=("**",), places=CONTENT, action="withhold"),),
        ),
        OFF: Preset("nothing is redacted", ()),
    }
)
