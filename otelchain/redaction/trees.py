"""Walks over JSON-like trees without recursion, so that depth costs no stack."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

SECRET, PHONE = "secret", "phone"

Above = TypeVar("Above", bound=Hashable)


class Walk(Protocol[Above]):
    """What is done on the way; ``Above`` is what the names above a value say about it.

    ``leaf`` and ``name`` give what replaces a leaf and a dict's name, ``whole`` what replaces a
    container with all that is in it (None to walk on). ``below``, ``at`` and ``unnamed`` give what
    holds for an entry of a dict, for a place in a list, and where names above say nothing.
    ``drops`` tells whether an entry goes with its name.
    """

    def leaf(self, leaf: Any, above: Above) -> Any: ...  # noqa: D102
    def name(self, name: Any, above: Above) -> Any: ...  # noqa: D102
    def whole(self, node: Any, above: Above) -> str | None: ...  # noqa: D102
    def below(self, above: Above, name: str, *, is_text: bool) -> Above: ...  # noqa: D102
    def at(self, above: Above, place: int) -> Above: ...  # noqa: D102
    def unnamed(self, above: Above) -> Above: ...  # noqa: D102
    def drops(self, above: Above) -> bool: ...  # noqa: D102


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
    """Write a number as its digits, also when JSON made a float of it; true and false as JSON does.

    >>> number_text(4111111111111111.0), number_text(0.25)
    ('4111111111111111', '0.25')
    """
    if isinstance(number, bool):
        return str(number).lower()
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return repr(number)


def rebuild(tree: Any, walk: Walk[Above], above: Above) -> Rebuilt:
    """Copy a tree, top down, with every leaf and every name cleaned.

    Args:
        tree: What to copy.
        walk: What to do.
        above: What holds at the root.
    """
    root = [tree]
    rest: list[tuple[Any, Any, Above]] = [(root, 0, above)]
    changed = False
    while rest:
        parent, at, above = rest.pop()
        node = parent[at]
        if not isinstance(node, (dict, list, tuple)):
            parent[at] = walk.leaf(node, above)
            changed = changed or parent[at] is not node
            continue
        whole = walk.whole(node, above)
        if whole is not None:
            parent[at] = whole
            changed = True
        elif isinstance(node, dict):
            entries = _entries(node, walk, above)
            parent[at] = {name: node[old] for name, old, _ in entries}
            rest.extend((parent[at], name, below) for name, _, below in entries)
            changed = changed or list(node) != list(parent[at])
        else:
            parent[at] = list(node)
            rest.extend((parent[at], place, walk.at(above, place)) for place in range(len(node)))
    return Rebuilt(root[0], changed)


def _entries(node: dict[Any, Any], walk: Walk[Above], above: Above) -> list[tuple[Any, Any, Above]]:
    """List new name, old name and what holds below it; no two names become one."""
    if is_placeholder(node):
        return [(old, old, walk.unnamed(above)) for old in node]
    entries: list[tuple[Any, Any, Above]] = []
    taken: set[Any] = set()
    for old in node:
        new = walk.name(old, above)
        # Judged by the name without its secrets, so that a second pass judges the same.
        below = walk.below(above, str(new), is_text=is_piece_of_text(node, old))
        if walk.drops(below):
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


def is_piece_of_text(node: dict[Any, Any], name: Any) -> bool:
    """Tell the token of a model's log probability from a credential."""
    return name == "token" and "logprob" in node


def is_placeholder(node: dict[Any, Any]) -> bool:
    """Tell LangChain's serialised secret: it names an environment variable and holds nothing.

    Source: ``SerializedSecret`` in ``langchain_core.load.serializable``.
    """
    return node.get("type") == "secret" and node.keys() == {"lc", "type", "id"}
