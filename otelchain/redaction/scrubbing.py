"""One pass over a text or a tree: what the rules of a place find is replaced and counted."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from otelchain.redaction.checksums import compact
from otelchain.redaction.chosen import PathRule
from otelchain.redaction.embedded import looks_like_json, redact_json
from otelchain.redaction.json_text import is_json
from otelchain.redaction.phones import is_plausible
from otelchain.redaction.place_rules import NO_PATH, Above, Named, PlaceRules
from otelchain.redaction.policy import TYPE, WALK
from otelchain.redaction.replacing import KEEP, failed
from otelchain.redaction.tally import Tally
from otelchain.redaction.trees import PHONE, number_text, rebuild, texts_and_names

_ENDS_OF_JSON = ("}", "]", " ", "\n", "\t", "\r")
_NUMBER = re.compile(r"\+?[0-9](?:[ \-]?[0-9])+", re.ASCII)


class Pass:
    """Applies rules to one text or tree and counts in a tally; for one thread.

    Args:
        rules: The rules of the place.
        tally: Told of every finding.
    """

    def __init__(self, rules: PlaceRules, tally: Tally) -> None:
        self.rules = rules
        self.tally = tally
        self._scanned = False  # the engine has seen every leaf of the tree and found nothing

    def root(self, key: str) -> Above:
        """Give what holds at the root of the value of an attribute."""
        return self.rules.root(key)

    def value(self, tree: Any, above: Above) -> Any:
        """Give a tree without what is found; the same object when nothing was."""
        is_clean = self._is_clean(tree, above)
        if is_clean and self.rules.paths is None:
            return tree
        outer, self._scanned = self._scanned, is_clean
        try:
            copy, changed = rebuild(tree, self, above)
        finally:
            self._scanned = outer
        return copy if changed else tree

    def text(self, text: str, above: Above) -> str:
        """Give a text without what is found; JSON stays JSON."""
        rules = self.rules
        if self._scanned and text[-1:] not in _ENDS_OF_JSON:
            return text
        may_be_json = looks_like_json(text)
        looks = may_be_json and (bool(above.state) or rules.may_name(text))
        if looks or not (self._scanned or rules.engine.is_clean(text)):
            text = self._as_json(text, above) if may_be_json else self._plain(text)
        for function in rules.functions:
            text = function(text, self.tally)
        return text

    def _plain(self, text: str) -> str:
        return self.rules.engine.redact(text, self.tally)

    def _as_json(self, text: str, above: Above) -> str:
        try:
            redacted = redact_json(text, partial(self.value, above=above))
        except RecursionError:  # nobody can say what stands under which name
            self.tally.failed(WALK)
            return failed(WALK)
        if redacted is None:
            return self.rules.engine.redact(text, self.tally, as_json=is_json(text))
        own = self.rules.own
        return own.redact(redacted, self.tally, as_json=True) if own else redacted

    # --- the walk over a tree ------------------------------------------------------------------

    def leaf(self, leaf: Any, above: Above) -> Any:
        """Give what replaces a leaf."""
        if leaf is None:
            return None
        rule = self._path_rule(above)
        if rule is not None and rule.action != KEEP:
            return self._by_path(leaf, above, rule)
        if isinstance(leaf, bool):
            return leaf
        if not isinstance(leaf, (str, int, float)):
            return self._unknown()
        text = leaf if isinstance(leaf, str) else number_text(leaf)
        if above.named:
            cleaned = self._named(text, above, above.named)
        elif rule is not None:
            cleaned = text if rule.keep_secrets else self._kept(text)
        else:
            cleaned = self.text(text, above)
        return leaf if cleaned == text else cleaned

    def name(self, name: Any, above: Above) -> Any:
        """Give what replaces a dict's name."""
        if self._scanned and type(name) is str and name[-1:] not in _ENDS_OF_JSON:
            return name
        rule = self._path_rule(above)
        if rule is not None and rule.action == KEEP:
            return self.leaf(name, above)
        return self.leaf(name, Above(where=above.where))

    def whole(self, node: Any, above: Above) -> str | None:
        """Give the size of a container that is withheld."""
        rule = self._path_rule(above)
        if rule is None or rule.action.name != "withhold" or self._may_keep(above):
            return None
        text = json.dumps(node, ensure_ascii=False, separators=(",", ":"), default=repr)
        return self._replaced(text, rule.rule, rule)

    def withheld(self, text: str | None, about_bytes: int, above: Above) -> str:
        """Give the size of a value that is withheld whole: of its text, else about that many."""
        rule = self._path_rule(above)
        if rule is None:
            return self._unknown()
        if text is not None:
            return self._replaced(text, rule.rule, rule)
        self.tally.found(rule.rule, 0, about_bytes)
        return f"[withheld: about {about_bytes} bytes]"

    def below(self, above: Above, name: str, *, is_text: bool) -> Above:
        """Give what holds below an entry of a dict."""
        return self.rules.below(above, name, is_text)

    def at(self, above: Above, place: int) -> Above:
        """Give what holds at a place in a list."""
        return self.rules.at(above, place)

    def unnamed(self, above: Above) -> Above:
        """Give what still holds where names above say nothing."""
        return above._replace(named=None)

    def drops(self, above: Above) -> bool:
        """Tell whether an entry goes with its name; it counts as a finding of no length."""
        treated: Named | PathRule | None = self._path_rule(above)
        if treated is not None:
            goes = treated.action.name == "remove" and not self._may_keep(above)
        else:
            treated = above.named
            goes = treated is not None and treated.action.name == "remove" and treated.rule != PHONE
        if goes and treated is not None:
            self.tally.found(treated.rule, 0, 0)
        return goes

    # --- paths ---------------------------------------------------------------------------------

    def _path_rule(self, above: Above) -> PathRule | None:
        return None if above.path == NO_PATH else self.rules.path_rules[above.path]

    def _may_keep(self, above: Above) -> bool:
        """Tell whether an earlier rule may keep something further down."""
        return any(
            number < above.path and self.rules.path_rules[number].action == KEEP
            for number, _ in above.state
        )

    # --- leaves --------------------------------------------------------------------------------

    def _by_path(self, leaf: Any, above: Above, rule: PathRule) -> Any:
        if isinstance(leaf, str):
            text, may_be_json = leaf, looks_like_json(leaf)
        elif isinstance(leaf, (bool, int, float)):
            text, may_be_json = number_text(leaf), False
        else:
            return self._unknown()
        if self.rules.tokens.cover(text):
            return leaf
        if not may_be_json or not is_json(text):
            return self._replaced(text, rule.rule, rule)
        as_json = redact_json(text, partial(self.value, above=above))
        return json.dumps(self._replaced(text, rule.rule, rule)) if as_json is None else as_json

    def _named(self, text: str, above: Above, named: Named) -> str:
        if named.rule == PHONE:
            if not is_plausible(text):
                return self.text(text, self.unnamed(above))
            return self._replaced(compact(text), PHONE, named)
        return text if self.rules.tokens.cover(text) else self._replaced(text, named.rule, named)

    def _replaced(self, text: str, rule: str, treated: Named | PathRule) -> str:
        self.tally.found(rule, 0, len(text))
        if treated.action.name == "hash" and _NUMBER.fullmatch(text):
            text = compact(text)  # as the detectors of numbers do, so that the hashes are equal
        return self.rules.replace(treated.action, rule, text)

    def _kept(self, text: str) -> str:
        """Look only for secrets."""
        if self.rules.kept.is_clean(text):
            return text
        as_json = looks_like_json(text) and is_json(text)
        return self.rules.kept.redact(text, self.tally, as_json=as_json)

    def _unknown(self) -> str:
        self.tally.failed(TYPE)
        return failed(TYPE)

    def _is_clean(self, tree: Any, above: Above) -> bool:
        rules = self.rules
        if rules.functions or above.named is not None:
            return False
        try:
            texts, names = texts_and_names(tree)
            texts.extend(names)
            return not any(map(rules.named, names)) and rules.engine.are_clean(texts)
        except TypeError:  # not a JSON type, or a name that is not text
            return False
