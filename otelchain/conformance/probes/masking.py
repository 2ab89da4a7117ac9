"""A mask is applied wherever a text is recorded, and a mask that fails lets nothing through."""
# ruff: noqa: ARG001 - fakes keep the signatures of what they stand for

from otelchain.conformance.probe import probe
from otelchain.conformance.probes.secrets import use_every_place
from otelchain.conformance.spans import texts
from otelchain.conformance.subject import Options
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge

_MARK = "planted"


def _mask(text: str) -> str:
    return text.replace(_MARK, "masked")


def _broken(text: str) -> str:
    raise RuntimeError("the mask fails")


def _leaks(trial: Trial) -> Verdict:
    ended = trial.log.ended()
    found = {place for span in ended for place, text in texts(span) if _MARK in text}
    seen = f"in {', '.join(sorted(found))}"[:200] if found else "nowhere"
    return judge(bool(ended) and not found, seen if ended else "no spans")


@probe(
    "A mask covers every text: errors, tags, metadata and events too", options=Options(mask=_mask)
)
def masking_everywhere(trial: Trial) -> Verdict:
    """Every place of the probes for secrets, with content on."""
    use_every_place(trial)
    return _leaks(trial)


@probe("When the mask itself fails, the text is left out", options=Options(mask=_broken))
def masking_fails_closed(trial: Trial) -> Verdict:
    """And the spans are there all the same."""
    use_every_place(trial)
    return _leaks(trial)
