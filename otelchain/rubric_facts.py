"""What deepagents' RubricMiddleware put into the agent's state → verdict attributes. Pure.

The middleware tells callbacks nothing of its verdicts; they are in the state updates that its two
hooks return (``before_agent`` opens a grading run, ``after_agent`` adds an evaluation). Numbers and
the words of the verdict are no content; what the grader wrote is.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from otelchain import attributes as names
from otelchain.content import Attributes, ContentGate
from otelchain.snapshot import utf8

# deepagents/middleware/rubric.py, RubricState: private there, so read here and nowhere else.
_EVALUATIONS = "_rubric_evaluations"
_STATUS = "_rubric_status"
_GRADING_RUN = "_current_grading_run_id"
_RUBRIC = "_active_rubric"


def rubric_attributes(gate: ContentGate, outputs: Any) -> Attributes:
    """Read the newest verdict, or the start of a grading run, from a run's output.

    Told by its shape, not by the run's name: a subclass of the middleware has another name. Any
    other output gives nothing.
    """
    if not isinstance(outputs, Mapping):
        return {}
    if _EVALUATIONS in outputs:
        return _verdict(gate, outputs)
    if _GRADING_RUN in outputs:
        return _grading_start(gate, outputs)
    return {}


def _grading_start(gate: ContentGate, outputs: Mapping[str, Any]) -> Attributes:
    found = _identifier(gate, outputs[_GRADING_RUN])
    rubric = outputs.get(_RUBRIC)
    if isinstance(rubric, str):
        # Tells two rubrics of one thread apart, also where no text is kept.
        found[names.RUBRIC_SHA256] = sha256(utf8(rubric)).hexdigest()
    return found


def _verdict(gate: ContentGate, outputs: Mapping[str, Any]) -> Attributes:
    # The list grows over all rubrics of a thread; the last one is this run's.
    evaluations = outputs[_EVALUATIONS]
    last = evaluations[-1] if isinstance(evaluations, Sequence) and evaluations else None
    if not isinstance(last, Mapping):
        return {}
    found = _identifier(gate, last.get("grading_run_id"))
    if isinstance(last.get("iteration"), int):
        found[names.RUBRIC_ITERATION] = last["iteration"]
    if isinstance(last.get("unverified"), bool):
        found[names.RUBRIC_UNVERIFIED] = last["unverified"]
    # The loop's own word beside the grader's: deepagents 0.6 reports a used-up budget only here.
    for name, word in (
        (names.RUBRIC_RESULT, last.get("result")),
        (names.RUBRIC_STATUS, outputs.get(_STATUS)),
    ):
        if isinstance(word, str):
            found[name] = gate.fact(name, word)
    found.update(_criteria(gate, last.get("criteria")))
    if isinstance(last.get("explanation"), str):
        found.update(gate.text(names.RUBRIC_EXPLANATION, last["explanation"]))
    return found


def _criteria(gate: ContentGate, criteria: Any) -> Attributes:
    if not isinstance(criteria, list):
        return {}
    passed = sum(isinstance(each, Mapping) and each.get("passed") is True for each in criteria)
    return {
        names.RUBRIC_CRITERIA_TOTAL: len(criteria),
        names.RUBRIC_CRITERIA_PASSED: passed,
        # Again, although the output has it: the output grows with every round until it is cut.
        **gate.json(names.RUBRIC_CRITERIA, criteria),
    }


def _identifier(gate: ContentGate, value: Any) -> Attributes:
    if value is None:
        return {}
    try:
        return {names.RUBRIC_GRADING_RUN_ID: str(UUID(str(value)))}
    except ValueError:
        return {names.RUBRIC_GRADING_RUN_ID: gate.fact(names.RUBRIC_GRADING_RUN_ID, str(value))}
