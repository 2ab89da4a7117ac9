"""Walks over JSON-like trees without recursion, so that depth costs no stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Label = Callable[[str], str]  # name of a dict entry → rule its value falls under, or ""
Clean = Callable[[Any, str], Any]  # leaf, label of the names above it → leaf

SECRET, PHONE = "secret", "phone"


class Rebuilt(NamedTuple):
    """A copy of a tree and whether it differs from the original."""

    tree: Any
    changed: bool


def texts_and_names(tree: Any) -> tuple[list[str], set[str]]:
    """Collect every string and number of a tree as text, and the distinct names of its dicts.

    Raises:
        TypeError: Something in the tree is not of a JSON type.
    """
    texts: list[str] = []
    names: set[str] = set()
    rest = [tree]
    while rest:
        node = rest.pop()
        kind = type(node)
        if kind is str:
            texts.append(node)
        elif kind is dict:
            names.update(node)
            rest.extend(node.values())
        elif kind is list:
            rest.extend(node)
        elif kind is int or kind is float:
            texts.append(number_text(node))
        elif node is not None and kind is not bool:
            raise TypeError(kind.__name__)
    return texts, names


def number_text(number: float) -> str:
    """Write a number as its digits, also when JSON made a float of it.

    >>> number_text(4111111111111111.0), number_text(0.25)
    ('4111111111111111', '0.25')
    """
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return repr(number)


def rebuild(tree: Any, clean: Clean, label: Label, *, drop_secrets: bool) -> Rebuilt:
    """Copy a tree, top down, with every leaf and every name cleaned."""
    root = [tree]
    rest: list[tuple[Any, Any, str]] = [(root, 0, "")]
    changed = False
    while rest:
        parent, at, above = rest.pop()
        node = parent[at]
        if isinstance(node, dict):
            entries = _entries(node, clean, label, above, drop_secrets=drop_secrets)
            parent[at] = {name: node[old] for name, old, _ in entries}
            rest.extend((parent[at], name, below) for name, _, below in entries)
            changed = changed or list(node) != list(parent[at])
        elif isinstance(node, (list, tuple)):
            parent[at] = list(node)
            rest.extend((parent[at], place, above) for place in range(len(node)))
        else:
            parent[at] = clean(node, above)
            changed = changed or parent[at] is not node
    return Rebuilt(root[0], changed)


def _entries(
    node: dict[Any, Any], clean: Clean, label: Label, above: str, *, drop_secrets: bool
) -> list[tuple[Any, Any, str]]:
    """List new name, old name and label of a dict's entries; no two names become one."""
    if _is_placeholder(node):
        return [(old, old, "") for old in node]
    entries: list[tuple[Any, Any, str]] = []
    taken: set[Any] = set()
    for old in node:
        new = clean(old, "")
        # Judged by the name without its secrets, so that a second pass judges the same.
        below = above or (label(new) if isinstance(new, str) else "")
        if below == SECRET and old == "token" and "logprob" in node:
            below = ""  # a model's log probabilities: the token is a piece of text
        if below == SECRET and drop_secrets:
            continue
        new = _unique(new, old, node, taken)
        taken.add(new)
        entries.append((new, old, below))
    return entries


def _unique(new: Any, old: Any, node: dict[Any, Any], taken: set[Any]) -> Any:
    name, number = new, 1
    while name in taken or (name != old and name in node):
        number += 1
        name = f"{new}#{number}"
    return name


def _is_placeholder(node: dict[Any, Any]) -> bool:
    """Tell LangChain's serialised secret: it names an environment variable and holds nothing.

    Source: ``SerializedSecret`` in ``langchain_core.load.serializable``.
    """
    return node.get("type") == "secret" and node.keys() == {"lc", "type", "id"}
