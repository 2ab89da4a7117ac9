"""How a run ended: the words of ``otelchain.run.status`` and which exception means which."""

from typing import Final, Literal

Status = Literal["ok", "error", "handled_error", "cancelled", "interrupted", "abandoned"]

OK: Final = "ok"
ERROR: Final = "error"
HANDLED_ERROR: Final = "handled_error"  # a tool returned ToolMessage(status="error")
CANCELLED: Final = "cancelled"  # the task was cancelled, or Ctrl-C
INTERRUPTED: Final = "interrupted"  # LangGraph waits for a human
ABANDONED: Final = "abandoned"  # the consumer stopped reading, or the end was never reported
PENDING: Final = "pending"  # has not ended yet; only in what live.py sends

# Control flow that LangChain reports through on_*_error. LangGraph's classes are matched by name:
# importing langgraph for it would cost an application without LangGraph half a second.
_CONTROL_FLOW: Final[dict[str, Status]] = {
    "asyncio.exceptions.CancelledError": CANCELLED,
    "concurrent.futures._base.CancelledError": CANCELLED,
    "builtins.KeyboardInterrupt": CANCELLED,
    "builtins.SystemExit": CANCELLED,
    "builtins.GeneratorExit": ABANDONED,
    "langgraph.errors.GraphInterrupt": INTERRUPTED,
    "langgraph.errors.ParentCommand": OK,  # Command(goto=…, graph=PARENT) leaves the subgraph
    "langgraph.errors.GraphBubbleUp": OK,
}


def of_error(error: BaseException) -> Status:
    """Tell control flow from failure.

    >>> of_error(ValueError()), of_error(KeyboardInterrupt())
    ('error', 'cancelled')
    """
    for kind in type(error).__mro__:
        status = _CONTROL_FLOW.get(f"{kind.__module__}.{kind.__qualname__}")
        if status is not None:
            return status
    return ERROR
