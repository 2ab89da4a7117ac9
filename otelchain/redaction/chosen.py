"""The rules that apply in one place: what `Policy` puts together and `PlaceRules` makes ready."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from otelchain.redaction.engine import TreatedRule
from otelchain.redaction.keys import IsSensitive
from otelchain.redaction.paths import Segments
from otelchain.redaction.replacing import Action


class KeysRule(NamedTuple):
    """Names and what happens to their values."""

    is_named: IsSensitive
    rule: str
    action: Action
    words: tuple[str, ...] = ()  # as the user wrote them


class PathRule(NamedTuple):
    """A path and what happens to what is there."""

    segments: Segments
    rule: str
    action: Action
    keep_secrets: bool


class CallableRule(NamedTuple):
    """A function of the user and the name under which it fails."""

    rule: str
    function: Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The rules that apply in one place, in policy order."""

    rules: Sequence[TreatedRule]
    own: Sequence[TreatedRule]
    kept: Sequence[TreatedRule]
    keys: Sequence[KeysRule]
    phone: Action | None
    paths: Sequence[PathRule]
    callables: Sequence[CallableRule]
