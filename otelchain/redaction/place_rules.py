"""What the rules of one place need, made once: engines, names, paths, functions."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

from otelchain.redaction.chosen import Chosen
from otelchain.redaction.engine import Engine
from otelchain.redaction.keys import names_pattern, words
from otelchain.redaction.paths import Paths, State
from otelchain.redaction.phones import PHONE_WORDS
from otelchain.redaction.replacing import KEEP, Action, OwnTokens, Replacer
from otelchain.redaction.trees import PHONE
from otelchain.redaction.user_functions import UserFunction


class Named(NamedTuple):
    """The rule that a name falls under."""

    rule: str
    action: Action


NO_PATH = 2**31
NOWHERE: State = frozenset()


class Above(NamedTuple):
    """What the names above a value say about it.

    Attributes:
        named: The rule that a name fell under.
        path: Number of the path rule in force; the first in the policy counts.
        state: Which paths may still match below.
        where: The path so far; only followed when somebody asks for it.
    """

    named: Named | None = None
    path: int = NO_PATH
    state: State = NOWHERE
    where: str = ""


class PlaceRules:
    """The rules of one place, ready to use; shared by all places where the same rules apply.

    Args:
        chosen: The rules.
        replace: Writes replacements.
        tokens: Finds earlier ones.
        budget_seconds: What one rule may take for one text.

    Raises:
        RedactionPolicyError: The patterns are too large together.
    """

    def __init__(
        self, chosen: Chosen, replace: Replacer, tokens: OwnTokens, budget_seconds: float
    ) -> None:
        self.replace, self.tokens = replace, tokens
        engine = partial(Engine, replace=replace, tokens=tokens, budget_seconds=budget_seconds)
        self.engine = engine(chosen.rules)
        # Inside JSON text the user's patterns may also look at the text as it is written.
        self.own = engine(chosen.own) if chosen.own else None
        if chosen.own:
            self.engine.compile()  # a policy that cannot work is refused here and not later
        self.kept = engine(chosen.kept)
        self.paths = Paths([rule.segments for rule in chosen.paths]) if chosen.paths else None
        self.path_rules = chosen.paths
        self.functions = [
            UserFunction(rule.rule, rule.function, budget_seconds) for rule in chosen.callables
        ]
        self.named = lru_cache(maxsize=4096)(self._named)
        self.below = lru_cache(maxsize=16_384)(self._below)
        self._at = lru_cache(maxsize=1_024)(self._at_place)
        self._keys, self._phone = chosen.keys, chosen.phone

    @property
    def reads_json_text(self) -> bool:
        """Whether JSON text as it is written shows all that the tree it stands for shows.

        So with the bundled rules. A pattern of the user may be bound to the ends of a text, a path
        to a place in the tree, and a function is meant for the strings inside.
        """
        return self.own is None and self.paths is None and not self.functions

    def root(self, key: str) -> Above:
        """Give what holds at the root of the value of an attribute."""
        return Above() if self.paths is None else self._met(Above(), self.paths.start(key))

    def entry(self, key: str) -> Above:
        """Give the same for an attribute of which nobody knows that its key is no secret's name."""
        above = Above(self.named(key))
        return above if self.paths is None else self._met(above, self.paths.start(key))

    def _below(self, above: Above, name: str, is_text: bool) -> Above:
        named = above.named
        if named is None and not is_text:
            named = self.named(name)
        below = Above(named, above.path, above.state)
        return (
            below if self.paths is None else self._met(below, self.paths.below(above.state, name))
        )

    def at(self, above: Above, place: int) -> Above:
        """Give what holds at a place in a list."""
        return above if self.paths is None else self._at(above, self.paths.known(place))

    def _at_place(self, above: Above, place: int) -> Above:
        return above if self.paths is None else self._met(above, self.paths.at(above.state, place))

    def _met(self, above: Above, state: State) -> Above:
        """Note the paths that end here; a path that keeps a value keeps it whatever its name."""
        number = self.paths.matched(state) if self.paths is not None and state else None
        if number is None or number > above.path:
            return Above(above.named, above.path, state)
        keeps = self.path_rules[number].action == KEEP
        return Above(None if keeps else above.named, number, state)

    def may_name(self, text: str) -> bool:
        """Tell whether a name in JSON text may fall under a rule."""
        if not self._keys and self._phone is None:
            return False
        return self._names.search(text.encode(errors="replace")) is not None

    @property
    def names_pattern(self) -> str:
        """What occurs in JSON text in which a name may fall under a rule; empty where none can."""
        if not self._keys and self._phone is None:
            return ""
        own = [word for keys in self._keys for word in keys.words]
        return names_pattern([*own, *PHONE_WORDS])

    @cached_property
    def _names(self) -> Any:
        import re2  # when something is to be redacted

        return re2.compile(self.names_pattern.encode())

    def _named(self, name: str) -> Named | None:
        name = self.tokens.blanked(name)
        for is_named, rule, action, _ in self._keys:
            if is_named(name):
                return Named(rule, action)
        if self._phone is not None and PHONE_WORDS.intersection(words(name)):
            return Named(PHONE, self._phone)
        return None
