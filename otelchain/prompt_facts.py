"""A serialised prompt → its template texts. The variables are the run's input."""

from collections.abc import Mapping
from typing import Any


def templates_json(serialized: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Collect the templates of a prompt in order, each under the message class that uses it.

    >>> templates_json({"id": ["langchain", "PromptTemplate"], "kwargs": {"template": "Hi {name}"}})
    [{'type': 'PromptTemplate', 'template': 'Hi {name}'}]
    """
    found: list[dict[str, str]] = []
    _collect(serialized, found, depth=0)
    return found


def _collect(node: Any, found: list[dict[str, str]], depth: int) -> None:
    if not isinstance(node, Mapping) or depth > 5:  # chat prompt, message, prompt, and some room
        return
    kwargs = node.get("kwargs")
    if not isinstance(kwargs, Mapping):
        return
    if isinstance(kwargs.get("template"), str):
        kind = str((node.get("id") or ["prompt"])[-1])
        found.append({"type": kind, "template": kwargs["template"]})
        return
    members = kwargs.get("messages")
    for member in members if isinstance(members, list) else [kwargs.get("prompt")]:
        _collect(member, found, depth + 1)
