"""A serialised prompt → its template texts, its name and version. Its variables are the input."""

from collections.abc import Mapping
from typing import Any

from otelchain import attributes as names

_MAX_DEPTH = 5  # chat prompt, message, prompt, and some room


def templates_json(serialized: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Collect the templates of a prompt in order, each under the message class that uses it.

    A template whose variables are partly filled in carries them; the others are the run's input.

    >>> templates_json({"id": ["langchain", "PromptTemplate"], "kwargs": {"template": "Hi {name}"}})
    [{'type': 'PromptTemplate', 'template': 'Hi {name}'}]
    """
    found: list[dict[str, Any]] = []
    _collect(serialized, found, depth=0)
    return found


def identity(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Name a prompt and its version as its metadata does (LangSmith's hub writes ``lc_hub_*``).

    >>> identity({"lc_hub_owner": "ann", "lc_hub_repo": "rag", "lc_hub_commit_hash": "50442af"})
    {'gen_ai.prompt.name': 'ann/rag', 'gen_ai.prompt.version': '50442af'}
    """
    repository = _name(metadata.get("lc_hub_repo"))
    owner = _name(metadata.get("lc_hub_owner"))
    if repository and owner and owner != "-":  # "-" is the hub's word for one's own
        repository = f"{owner}/{repository}"
    name = _name(metadata.get("prompt_name")) or repository
    version = _name(metadata.get("prompt_version")) or _name(metadata.get("lc_hub_commit_hash"))
    found = {names.GEN_AI_PROMPT_NAME: name} if name else {}
    if name and version:
        found[names.GEN_AI_PROMPT_VERSION] = version
    return found


def _name(value: Any) -> str | None:
    if type(value) is int and abs(value) < 2**63:
        value = str(value)
    return value if isinstance(value, str) and value else None


def _collect(node: Any, found: list[dict[str, Any]], depth: int) -> None:
    if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
        return
    kwargs = node.get("kwargs")
    if not isinstance(kwargs, Mapping):
        return
    if isinstance(kwargs.get("template"), str):
        found.append(_template(node, kwargs))
        return
    members = kwargs.get("messages")
    for member in members if isinstance(members, list) else [kwargs.get("prompt")]:
        _collect(member, found, depth + 1)


def _template(node: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    path = node.get("id")
    kind = path[-1] if isinstance(path, (list, tuple)) and path else None
    described: dict[str, Any] = {
        "type": kind if isinstance(kind, str) else "prompt",
        "template": kwargs["template"],
    }
    if isinstance(kwargs.get("partial_variables"), Mapping) and kwargs["partial_variables"]:
        described["variables"] = kwargs["partial_variables"]
    return described
