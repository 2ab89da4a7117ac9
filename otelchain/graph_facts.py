"""A LangGraph graph → its shape; what a node returned → where it sends the graph. No content.

The shape is read from the builder of the graph: `get_graph()` takes a millisecond and more, which
an application that compiles its graph for each request would pay each time.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from otelchain import attributes as names
from otelchain.content import Attributes, ContentGate

MAX_NODES = 128
MAX_EDGES = 256
MAX_TARGETS = 128
_MAX_OUTPUTS = 256  # members of a returned list that are looked at
_HIDDEN = ("__start__", "__end__")

Edge = tuple[str, str | None, str]
"""Source, target, kind: edge, join (waits for all its sources), branch or command; the target is
None where a branch function may name any node."""


class GraphShapes:
    """The shapes of the graphs that one handler has seen, each read once."""

    def __init__(self, gate: ContentGate) -> None:
        self._gate = gate
        self._known: WeakKeyDictionary[Any, Attributes] = WeakKeyDictionary()

    def of(self, graph: Any) -> Attributes:
        """Describe a compiled graph."""
        known = self._known.get(graph)
        if known is None:
            before = self._gate.redactor.passes_with_findings
            known = shape(self._gate, graph)
            # What the redactor has to say is said, and counted, each time.
            if self._gate.redactor.passes_with_findings == before:
                self._known[graph] = known
        return known


def shape(gate: ContentGate, graph: Any) -> Attributes:
    """Name and count the nodes and edges of a compiled graph; edges only of a ``StateGraph``."""
    builder = getattr(graph, "builder", None)
    nodes = [str(name) for name in graph.nodes if name not in _HIDDEN]
    edges = sorted(set(_edges(builder)), key=str) if builder is not None else []
    described: Attributes = {
        names.GRAPH_NODES: [gate.fact(names.GRAPH_NODES, name) for name in nodes[:MAX_NODES]],
        names.GRAPH_NODE_COUNT: len(nodes),
    }
    if builder is not None:
        described[names.GRAPH_EDGE_COUNT] = len(edges)
        described.update(gate.fact_json(names.GRAPH_EDGES, edges[:MAX_EDGES]))
    whole = gate.redactor.value([nodes, edges])
    described[names.GRAPH_SHA256] = sha256(orjson.dumps(whole)).hexdigest()
    return described


def _edges(builder: Any) -> Iterable[Edge]:
    for source, target in getattr(builder, "edges", ()):
        yield str(source), str(target), "edge"
    for sources, target in getattr(builder, "waiting_edges", ()):
        for source in sources:
            yield str(source), str(target), "join"
    for source, branches in getattr(builder, "branches", {}).items():
        for branch in branches.values():
            for target in branch.ends.values() if branch.ends else [None]:
                yield str(source), None if target is None else str(target), "branch"
    for source, node in getattr(builder, "nodes", {}).items():
        for target in getattr(node, "ends", None) or ():
            yield str(source), str(target), "command"


def goto(gate: ContentGate, outputs: Any) -> Attributes:
    """Say where ``Command(goto=…)`` and ``Send`` in an output send the graph."""
    kind = type(outputs)
    if kind is dict or kind is str or outputs is None:
        return {}
    found: dict[str, Any] = {}
    targets: list[str] = []
    members = outputs if kind is list or kind is tuple else (outputs,)
    for member in islice(members, _MAX_OUTPUTS):
        if _is(member, "Command"):
            targets.extend(_targets(member.goto))
            if isinstance(member.graph, str):
                found[names.COMMAND_GRAPH] = gate.fact(names.COMMAND_GRAPH, member.graph)
        elif _is(member, "Send"):
            targets.append(str(member.node))
    if targets:
        found[names.COMMAND_GOTO] = [
            gate.fact(names.COMMAND_GOTO, name) for name in targets[:MAX_TARGETS]
        ]
        if len(targets) > MAX_TARGETS:
            found[names.COMMAND_GOTO + names.TRUNCATED_SUFFIX] = True
    return found


def goto_of_error(gate: ContentGate, error: BaseException) -> Attributes:
    """Say where a command for the parent graph sends it; LangGraph hands it up as an exception."""
    return goto(gate, error.args[0]) if _is(error, "ParentCommand") and error.args else {}


def _targets(goto: Any) -> list[str]:
    several: Sequence[Any] = goto if isinstance(goto, (list, tuple)) else [goto]
    return [str(each.node) if _is(each, "Send") else str(each) for each in several]


def _is(value: Any, name: str) -> bool:
    """Tell LangGraph's classes without importing it."""
    kind = type(value)
    return kind.__name__ == name and kind.__module__.startswith("langgraph.")
