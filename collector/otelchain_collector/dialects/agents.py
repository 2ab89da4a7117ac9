"""Tell agents from chains for tracers that guess them by name, or not at all."""

from otelchain_collector.dialects.dialect import Found

_NAMED_AGENT = ("chain", "agent")


def announce_agent(found: Found, name: str, *, guessed: bool = False) -> None:
    """Make the run an agent that LangChain's create_agent announced.

    It announces its name in the metadata, which all runs inside inherit: the agent is the one that
    is called so. ``guessed``: the tracer calls every chain an agent whose name has that word in
    it, so what it says is no answer.
    """
    if found.get("run_type") not in _NAMED_AGENT:
        return
    if found.get("agent_name") == name:
        found["run_type"] = "agent"
    elif guessed:
        found["run_type"] = "chain"
