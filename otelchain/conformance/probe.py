"""The probes by name, and how one is tried on a subject."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otelchain.conformance import probes
from otelchain.conformance.subject import Options, Subject
from otelchain.conformance.trial import Trial, trial
from otelchain.conformance.verdict import FAIL, NOT_APPLICABLE, PASS, NotApplicableError, Verdict

PLAIN = Options()
Try = Callable[[Trial], Verdict]


@dataclass(frozen=True)
class Probe:
    """One question to a tracer.

    Attributes:
        name: How it is asked for; starts with its group.
        group: The module it is in.
        title: What a good tracer does, as a sentence.
        run: Tries it.
        options: How the tracer has to be set up.
        needs: Modules without which it cannot be tried.
        timed: The verdict hangs on the clock.
    """

    name: str
    group: str
    title: str
    run: Try
    options: Options = PLAIN
    needs: Sequence[str] = ()
    timed: bool = False


_probes: dict[str, Probe] = {}


def register(
    name: str,
    title: str,
    run: Try,
    *,
    options: Options = PLAIN,
    needs: Sequence[str] = (),
    timed: bool = False,
) -> None:
    """Add a probe; its name is written only here."""
    group = run.__module__.rpartition(".")[2]
    if name in _probes:
        raise ValueError(f"two probes are named {name!r}")
    _probes[name] = Probe(name, group, title, run, options, tuple(needs), timed)


def probe(
    title: str,
    *,
    options: Options = PLAIN,
    needs: Sequence[str] = (),
    timed: bool = False,
) -> Callable[[Try], Try]:
    """Make a function a probe; the function's name, with hyphens, is the probe's."""

    def decorate(run: Try) -> Try:
        name = run.__name__.replace("_", "-")
        register(name, title, run, options=options, needs=needs, timed=timed)
        return run

    return decorate


def all_probes() -> list[Probe]:
    """Every probe, grouped, in the order in which the modules define them."""
    for module in pkgutil.iter_modules(probes.__path__):
        importlib.import_module(f"{probes.__name__}.{module.name}")
    return sorted(_probes.values(), key=lambda each: each.group)  # sorted() is stable


def attempt(chosen: Probe, subject: Subject) -> Verdict:
    """Try a probe on a subject. What the tracer raises into the application is a failure."""
    reason = _why_not(chosen, subject)
    if reason:
        return Verdict(NOT_APPLICABLE, reason)
    try:
        with trial(subject, chosen.options) as surroundings:
            verdict = chosen.run(surroundings)
            # A tracer that records nothing does nothing wrong either.
            if verdict.outcome == PASS and not surroundings.log.started():
                return Verdict(FAIL, "no spans")
            return verdict
    except NotApplicableError as error:
        return Verdict(NOT_APPLICABLE, str(error))
    except Exception as error:  # noqa: BLE001 - a tracer under trial may break anything
        return Verdict(FAIL, f"raised {type(error).__name__}: {error}"[:300])


def _why_not(chosen: Probe, subject: Subject) -> str | None:
    declined = subject.declined.get(chosen.name) or subject.declined.get(chosen.group)
    if declined:
        return declined
    if chosen.options.mask is not None and not subject.masks:
        return "it takes no mask"
    if chosen.options.both_ways and not subject.both_ways:
        return "it is attached in one way only"
    for module in chosen.needs:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return None
