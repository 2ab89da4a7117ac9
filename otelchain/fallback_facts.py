"""A runnable with fallbacks, and how many of its alternatives were tried → which one answered."""

from typing import Any

from otelchain import attributes as names


def fallback_facts(runnable: Any, tried: int, *, answered: bool) -> dict[str, Any]:
    """Say whether a fallback was used, and which alternative answered.

    LangChain tries them one after another, so the one that was tried last is the one that answered.

    Args:
        runnable: A ``RunnableWithFallbacks``.
        tried: Runs that started directly below it.
        answered: Whether it returned.
    """
    alternatives = list(runnable.runnables)
    if not 0 < tried <= len(alternatives):
        return {}  # some alternative is no run, or is several
    found: dict[str, Any] = {names.FALLBACK_USED: tried > 1}
    if answered:
        found[names.FALLBACK_INDEX] = tried - 1
        found[names.FALLBACK_NAME] = str(alternatives[tried - 1].get_name())
    return found
