"""One rule of a policy: what it looks for, what happens to it, where. Refused when it cannot work.

The same fields in Python (``Redactor(rules=[PolicyRule(…)])``) and in a file (``[[rules]]``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from otelchain.errors import RedactionPolicyError
from otelchain.redaction import paths
from otelchain.redaction.places import PLACES
from otelchain.redaction.replacing import ACTIONS, MAX_KEPT, ActionName
from otelchain.redaction.rules import Match, Rule, Span, whole
from otelchain.redaction.scanner import compiled

MAX_PATTERN_CHARS = 10_000
NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def _entry(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class PolicyRule:
    """What to look for (exactly one of detectors, pattern, keys, paths, callable), and what to do.

    Where two rules speak of the same detector, name or path, the first one counts.
    """

    name: str = _entry(
        "",
        "Stands in the replacement, as in `[REDACTED:name]`. Needed with `pattern` and `paths`; "
        "`secret` for keys and the function's name for a callable when left out.",
    )
    detectors: Sequence[str] = _entry(
        (), "Built-in detectors, by family or by the name of one rule: `email`, `us_ssn`."
    )
    pattern: str | None = _entry(
        None,
        "RE2 syntax, looked for in every text, name and number. Where it has a group named "
        "`secret`, only that group is replaced.",
    )
    keys: Sequence[str] = _entry(
        (),
        "Names whose values are meant, word by word: `customer` covers `customerId` and "
        "`customer-name`. With `keep`: exactly these words.",
    )
    paths: Sequence[str] = _entry(
        (),
        "Places in a JSON tree: `metadata.customer.*`, `messages[*].content`, `**.ssn`. All that "
        "is below is meant too.",
    )
    callable: Callable[[str], str] | None = _entry(  # noqa: RUF009 - it returns a field
        None,
        "A function from text to text, in a file as `module:function`. It runs after the rules, "
        "and what it returns stands: no action.",
    )
    action: ActionName | None = _entry(  # noqa: RUF009 - it returns a field
        None,
        "`mask`, `hash`, `partial`, `remove`, `withhold` (by its size, and hash where there is a "
        "key) or `keep`. Default: the policy's.",
    )
    keep_last: int | None = _entry(
        None,
        "Letters and digits that `partial` shows, 1 to 8, 4 when left out; never more than half "
        "of the value.",
    )
    places: Sequence[str] | None = _entry(None, "Only there; everywhere when left out.")
    attributes: Sequence[str] | None = _entry(
        None, "Only in attributes with such a key: `gen_ai.*`, `http.url`."
    )
    keep_secrets: bool = _entry(
        False,
        "With `paths` and `keep`: keep even what the secret detectors find there.",
    )


KINDS = ("detectors", "pattern", "keys", "paths", "callable")


def checked(rule: PolicyRule) -> PolicyRule:
    """Refuse a rule that contradicts itself.

    Raises:
        RedactionPolicyError: The text says what is wrong; who called adds which rule it is.
    """
    kinds = [kind for kind in KINDS if getattr(rule, kind) not in ((), [], None)]
    if len(kinds) != 1:
        found = f"it has {' and '.join(kinds)}" if kinds else "it has none"
        raise RedactionPolicyError(f"a rule needs exactly one of {', '.join(KINDS)}; {found}")
    for entry in ("detectors", "keys", "paths"):
        check_texts(entry, getattr(rule, entry))
    for entry in ("places", "attributes"):
        _check_where(entry, getattr(rule, entry))
    _check_name(rule, kinds[0])
    _check_action(rule, kinds[0])
    for place in rule.places or ():
        one_of("place", place, PLACES)
    for path in rule.paths:
        paths.parse(path)
    if rule.callable is not None and not callable(rule.callable):
        raise RedactionPolicyError(f"callable {rule.callable!r} is not callable")
    return rule


def _check_name(rule: PolicyRule, kind: str) -> None:
    if rule.name and kind == "detectors":
        raise RedactionPolicyError("detectors have names of their own; leave out name")
    if rule.name:
        check_name(rule.name)
    elif kind in ("pattern", "paths"):
        raise RedactionPolicyError(f"a rule with {kind} needs a name, which replacements show")


def _check_action(rule: PolicyRule, kind: str) -> None:
    if rule.action is not None:
        one_of("action", rule.action, ACTIONS)
    if kind == "callable" and rule.action is not None:
        raise RedactionPolicyError("a callable decides itself what stands there; leave out action")
    if kind == "pattern" and rule.action == "keep":
        raise RedactionPolicyError("a pattern with action keep would find nothing; leave it out")
    if rule.keep_secrets and (rule.action != "keep" or kind != "paths"):
        raise RedactionPolicyError('keep_secrets goes with paths and action "keep"')
    if type(rule.keep_secrets) is not bool:
        raise RedactionPolicyError(f"keep_secrets must be true or false, not {rule.keep_secrets!r}")
    if rule.keep_last is None:
        return
    if rule.action != "partial":
        raise RedactionPolicyError('keep_last goes with action "partial"; leave it out')
    if type(rule.keep_last) is not int or not 1 <= rule.keep_last <= MAX_KEPT:
        raise RedactionPolicyError(f"keep_last must be 1 to {MAX_KEPT}, not {rule.keep_last!r}")


def _check_where(entry: str, texts: Sequence[str] | None) -> None:
    if texts is None:
        return
    check_texts(entry, texts)
    if not texts:
        raise RedactionPolicyError(
            f"{entry} is empty, so the rule would apply nowhere; leave it out for everywhere"
        )


def check_texts(entry: str, texts: Iterable[Any]) -> None:
    """Refuse what is no list of names.

    Raises:
        RedactionPolicyError: A single text, or a member that is none or blank.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise RedactionPolicyError(f"{entry} takes a list of names, got {texts!r}")
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise RedactionPolicyError(f"{entry}: {text!r} must be a name")


def one_of(what: str, name: Any, known: Iterable[str]) -> None:
    """Refuse a name that is not known, and guess which was meant.

    Raises:
        RedactionPolicyError: It is not known.
    """
    known = list(known)
    if name in known:
        return
    near = get_close_matches(str(name), known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise RedactionPolicyError(
        f"no redaction {what} is named {name!r}; {hint}use one of: {', '.join(known)}"
    )


def check_name(name: Any) -> None:
    """Refuse names that would not survive inside a replacement.

    Raises:
        RedactionPolicyError: The name has other characters than ``A-Z a-z 0-9 _ . -``.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RedactionPolicyError(
            f"redaction rule name {name!r} must be 1 to 64 of the characters A-Z a-z 0-9 _ . -"
        )


def pattern_rule(name: str, pattern: Any) -> Rule:
    """Make a rule of a user's pattern.

    Raises:
        RedactionPolicyError: The pattern cannot be used.
    """
    check_name(name)
    if not isinstance(pattern, str):
        raise RedactionPolicyError(f"redaction pattern {name!r} must be text, got {pattern!r}")
    if not pattern:
        raise RedactionPolicyError(f"redaction pattern {name!r} is empty")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise RedactionPolicyError(
            f"redaction pattern {name!r} has {len(pattern)} characters; "
            f"at most {MAX_PATTERN_CHARS} are taken"
        )
    import re2

    try:
        groups = compiled(pattern).groupindex
    except (re2.error, UnicodeEncodeError) as error:
        raise RedactionPolicyError(
            f"redaction pattern {name!r} cannot be used: {_reason(error)}. Patterns have RE2 "
            "syntax: no look-around, no back-references, \\z for the end of the text"
        ) from error
    find = _named_group(groups["secret"]) if "secret" in groups else whole
    anchored = re.search(r"[\^$]|\\[AzQ]", pattern) is not None
    return Rule(name, name, pattern, find, folded=False, anchored=anchored)


def _named_group(group: int) -> Callable[[Match], list[Span]]:
    def find(match: Match) -> list[Span]:
        span = Span(match.start(group), match.end(group))
        return [span] if span.start >= 0 else []

    return find


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)
