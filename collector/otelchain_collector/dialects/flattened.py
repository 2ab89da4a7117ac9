"""Put together lists that were spread over attributes: ``llm.input_messages.0.message.role``."""

from collections.abc import Mapping
from typing import Any

# OpenInference writes the kind of an item between its index and its fields.
_ITEM_KINDS = frozenset({"message", "message_content", "tool_call", "document", "prompt"})
_MAX_SEGMENTS = 16  # the deepest real name has nine; a name made of dots must not recurse for ever
_MAX_INDEX_DIGITS = 6

_Tree = dict[str, Any]


def unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any] | None:
    """Return the list whose items' fields are the attributes under ``prefix``.

    Items keep the order of their numbers; numbers left out leave no hole. None when there is no
    such attribute.
    """
    start = prefix + "."
    tree: _Tree = {}
    for name, value in attributes.items():
        if name.startswith(start):
            _place(tree, _path(name[len(start) :]), value)
    items = _listed(tree)
    return items if isinstance(items, list) else None


def _path(rest: str) -> list[str]:
    segments = rest.split(".")
    return [
        segment
        for position, segment in enumerate(segments)
        if not (
            segment in _ITEM_KINDS
            and position
            and position + 1 < len(segments)
            and _is_index(segments[position - 1])
        )
    ]


def _place(tree: _Tree, path: list[str], value: Any) -> None:
    if len(path) > _MAX_SEGMENTS:
        return
    for segment in path[:-1]:
        tree = tree.setdefault(segment, {})
        if not isinstance(tree, dict):  # `a` and `a.b` are both there: the first one stays
            return
    tree.setdefault(path[-1], value)


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(map(_is_index, tree)):
        return [_listed(tree[index]) for index in sorted(tree, key=int)]
    return {name: _listed(value) for name, value in tree.items()}


def _is_index(segment: str) -> bool:
    return segment.isascii() and segment.isdigit() and len(segment) <= _MAX_INDEX_DIGITS
