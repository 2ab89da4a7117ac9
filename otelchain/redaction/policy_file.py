"""A policy as a file: ``redaction.toml`` → what a `Redactor` is made of, or rule and reason."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from otelchain.errors import RedactionPolicyError
from otelchain.redaction.hash_keys import (
    KEY_VARIABLE,
    HashKey,
    checked_id,
    key_from_file,
    key_from_variable,
)
from otelchain.redaction.policy import DEFAULT_BUDGET_MS, title
from otelchain.redaction.policy_rule import PolicyRule, one_of
from otelchain.redaction.presets import DEFAULT_PRESET, PRESETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

VARIABLE = "OTELCHAIN_REDACTION"

# 10,000 rules of the usual length; a larger file is no policy.
MAX_FILE_BYTES = 1_048_576

FILE_ENTRIES: Mapping[str, tuple[type, str]] = {
    "preset": (str, f"What the file starts from: {', '.join(PRESETS)}. Default: {DEFAULT_PRESET}."),
    "action": (str, "What happens where no rule gives an action. Default: `mask`."),
    "time_budget_ms": (
        int,
        f"What one rule may take for one text; longer fails. Default: {DEFAULT_BUDGET_MS}.",
    ),
    "hash": (dict, "A table: where the key of hashes stands."),
    "rules": (list, "Tables: the rules, in order of precedence."),
}
"""What stands at the top of a file."""

HASH_ENTRIES: Mapping[str, str] = {
    "key_env": f"Variable that holds the key. Default: `{KEY_VARIABLE}`.",
    "key_file": "File that holds the key; a relative path counts from the policy's folder.",
    "key_id": "Stands in every token: a letter and up to 7 of `A-Z a-z 0-9 _ -`. Default: made of "
    "the key, so that a new key has a new id.",
}
"""What stands in ``[hash]``."""

_LISTS = ("detectors", "keys", "paths", "places", "attributes")


def read_policy(path: Path) -> dict[str, Any]:
    """Read a policy file; returns the arguments of `Redactor`.

    Raises:
        RedactionPolicyError: It cannot be used; the text names rule and reason.
    """
    return _arguments(_toml(path), path.parent)


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RedactionPolicyError(f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise RedactionPolicyError(f"larger than {MAX_FILE_BYTES} bytes")
    try:
        entries: dict[str, Any] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RedactionPolicyError(f"no TOML: {error}") from error
    return entries


def _arguments(entries: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    for name, value in entries.items():
        one_of("setting", name, FILE_ENTRIES)
        _check_type(name, value, FILE_ENTRIES[name][0])
    return {
        "preset": entries.get("preset", DEFAULT_PRESET),
        "action": entries.get("action", "mask"),
        "time_budget_ms": entries.get("time_budget_ms", DEFAULT_BUDGET_MS),
        "hash_key": _hash_key(entries.get("hash", {}), folder),
        "rules": [_rule(number, rule) for number, rule in enumerate(entries.get("rules", []))],
    }


def _hash_key(entries: Mapping[str, Any], folder: Path) -> HashKey | None:
    for name, value in entries.items():
        one_of("[hash] setting", name, HASH_ENTRIES)
        _check_type(name, value, str)
    key_id = entries.get("key_id", "")
    if "key_id" in entries:
        checked_id(key_id)
    if "key_file" in entries:
        if "key_env" in entries:
            raise RedactionPolicyError("[hash] has key_file and key_env; one of them is enough")
        return key_from_file(folder / entries["key_file"], key_id)
    variable = entries.get("key_env", KEY_VARIABLE)
    key = key_from_variable(variable, key_id)
    if key is None and "key_env" in entries:
        raise RedactionPolicyError(f"[hash] key_env: the variable {variable} is not set")
    return key


def _rule(number: int, entries: Any) -> PolicyRule:
    known = [entry.name for entry in dataclasses.fields(PolicyRule)]
    named = PolicyRule(name=str(entries["name"])) if _has_name(entries) else PolicyRule()
    try:
        _check_type("[[rules]]", entries, dict)
        values = dict(entries)
        for name, value in entries.items():
            one_of("rule setting", name, known)
            _check_type(name, value, _type_of(name))
        for name in _LISTS:
            if name in values:
                values[name] = tuple(values[name])
        if "callable" in values:
            values["callable"] = _function(values["callable"])
        return PolicyRule(**values)
    except RedactionPolicyError as error:
        raise RedactionPolicyError(f"{title(number, named)}: {error}") from error


def _has_name(entries: Any) -> bool:
    return isinstance(entries, dict) and "name" in entries


def _type_of(name: str) -> type:
    if name in _LISTS:
        return list
    return {"keep_last": int, "keep_secrets": bool}.get(name, str)


def _check_type(name: str, value: Any, kind: type) -> None:
    words = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}
    if type(value) is not kind:
        raise RedactionPolicyError(f"{name} must be {words.get(kind, 'a table')}, got {value!r}")


def _function(name: str) -> Callable[[str], str]:
    """Import ``module:function``."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise RedactionPolicyError(f"callable must be written module:function, got {name!r}")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise RedactionPolicyError(f"callable {name!r} cannot be imported: {reason}") from error
    if not callable(found):
        raise RedactionPolicyError(f"callable {name!r} is not callable")
    return cast("Callable[[str], str]", found)
