"""A rank's real environment or container inspection beside its plan, line by line (profile-contract §6.2).

Values are compared as they are and shown masked: what a secret is does not get out, that it differs does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.core.canonical_json import JsonObject
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.observed import ObservedRank
from app.core.profiles.plan import RankPlan
from app.core.profiles.secrets import MASKED, is_masked, is_secret_name, masked
from app.core.profiles.template import is_placeholder
from app.core.qualify.pointer import step


class Place(StrEnum):
    """What a line is about."""

    IMAGE = "image"
    COMMAND = "command"
    ENVIRONMENT = "environment"
    MOUNT = "mount"


class LineState(StrEnum):
    """Plan against reality."""

    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"
    EXTRA = "extra"
    """There and not planned: the image's own, an unpublished variable of the renderer, or an edit."""
    OPEN = "open"
    """The plan itself leaves it open."""
    NOT_OBSERVED = "not observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftLine:
    """One line; texts are fit to be shown.

    Attributes:
        is_masked: whether a value was hidden, so that two equal texts may stand for different values.
    """

    place: Place
    name: str
    state: LineState
    expected: str = ""
    found: str = ""
    is_masked: bool = False


def drift_lines(plan: RankPlan, observed: ObservedRank) -> tuple[DriftLine, ...]:
    """Every line of the plan and every line that is only real, in the order image, command, environment,
    mounts."""
    return (
        *_image(plan, observed),
        *_command(plan, observed),
        *_environment(plan, observed),
        *_mounts(plan, observed),
    )


def drift_findings(lines: Sequence[DriftLine], *, observed: ObservedRank) -> tuple[ProfileFinding, ...]:
    """REN_FILE_DRIFT for every line that differs; fails if changed or missing, indeterminate if extra."""
    results = {
        LineState.CHANGED: CheckResult.FAIL,
        LineState.MISSING: CheckResult.FAIL,
        LineState.EXTRA: CheckResult.INDETERMINATE,
        LineState.OPEN: CheckResult.NOT_TESTED,
        LineState.NOT_OBSERVED: CheckResult.NOT_TESTED,
    }
    told = tuple(
        finding(
            "IMG_ID_MISMATCH" if line.place is Place.IMAGE else "REN_FILE_DRIFT",
            results[line.state],
            pointer=step(line.place.value) + step(line.name),
            detail=f"{line.place.value} {line.name}: {line.state.value}",
            expected=line.expected,
            found=line.found,
            rank=observed.rank,
            document_sha256=observed.sha256,
        )
        for line in lines
        if line.state in results
    )
    if told:
        return told
    return (
        finding(
            "REN_FILE_DRIFT",
            CheckResult.PASS,
            found=f"{len(lines)} lines as planned",
            rank=observed.rank,
            document_sha256=observed.sha256,
        ),
    )


def masked_command(command: Sequence[str]) -> tuple[str, ...]:
    """Arguments with the values of secret flags hidden, ``--api-key X`` and ``--api-key=X`` alike."""
    shown: list[str] = []
    hides_next = False
    for argument in command:
        name, equals, value = argument.partition("=")
        if hides_next and not argument.startswith("-"):
            shown.append(MASKED)
            hides_next = False
        elif equals:
            shown.append(f"{name}={masked(name, value)}")
            hides_next = False
        else:
            shown.append(masked("", argument))
            hides_next = argument.startswith("-") and is_secret_name(argument)
    return tuple(shown)


def drift_object(lines: Sequence[DriftLine]) -> list[JsonObject]:
    """The lines as JSON."""
    return [
        {
            "place": line.place.value,
            "name": line.name,
            "state": line.state.value,
            "expected": line.expected,
            "found": line.found,
            "masked": line.is_masked,
        }
        for line in lines
    ]


def _image(plan: RankPlan, observed: ObservedRank) -> Iterator[DriftLine]:
    state = _state(plan.image_id, observed.image_id)
    yield DriftLine(
        place=Place.IMAGE,
        name="image_id",
        state=state,
        expected=plan.image_id or "",
        found=observed.image_id or "",
    )


def _state(expected: str | None, found: str | None) -> LineState:
    if found is None:
        return LineState.NOT_OBSERVED
    if expected is None:
        return LineState.OPEN
    return LineState.SAME if expected == found else LineState.CHANGED


def _command(plan: RankPlan, observed: ObservedRank) -> Iterator[DriftLine]:
    """The planned beginning of the command; what follows is the launcher's and only shown."""
    if observed.command is None:
        yield DriftLine(
            place=Place.COMMAND,
            name="0",
            state=LineState.NOT_OBSERVED,
            expected=" ".join(plan.command),
        )
        return
    real = masked_command(observed.command)
    for index, expected in enumerate(plan.command):
        found = observed.command[index] if index < len(observed.command) else None
        state = LineState.MISSING if found is None else _state(expected, found)
        told = real[index] if found is not None else ""
        yield DriftLine(place=Place.COMMAND, name=str(index), state=state, expected=expected, found=told)
    for index in range(len(plan.command), len(real)):
        yield DriftLine(
            place=Place.COMMAND,
            name=str(index),
            state=LineState.EXTRA,
            found=real[index],
            is_masked=real[index] != observed.command[index],
        )


def _environment(plan: RankPlan, observed: ObservedRank) -> Iterator[DriftLine]:
    planned = plan.values
    for key, expected in planned.items():
        found = observed.environment.get(key)
        state = LineState.MISSING
        if found is not None:
            state = LineState.SAME if found == expected else LineState.CHANGED
            if is_placeholder(expected) and not is_placeholder(found):
                state = LineState.OPEN
        yield DriftLine(
            place=Place.ENVIRONMENT,
            name=key,
            state=state,
            expected=masked(key, expected),
            found=masked(key, found) if found is not None else "",
            is_masked=is_masked(key, expected) or is_masked(key, found or ""),
        )
    for key, found in observed.environment.items():
        if key not in planned:
            yield DriftLine(
                place=Place.ENVIRONMENT,
                name=key,
                state=LineState.EXTRA,
                found=masked(key, found),
                is_masked=is_masked(key, found),
            )


def _mounts(plan: RankPlan, observed: ObservedRank) -> Iterator[DriftLine]:
    if observed.mounts is None:
        for one in plan.mounts:
            yield DriftLine(
                place=Place.MOUNT,
                name=one.target or one.source,
                state=LineState.NOT_OBSERVED,
                expected=_told(one.source, writable=one.writable),
            )
        return
    by_target = {mount.destination: mount for mount in observed.mounts}
    by_source = {mount.source: mount for mount in observed.mounts}
    met = set()
    for one in plan.mounts:
        real = by_target.get(one.target) if one.target is not None else by_source.get(one.source)
        expected = _told(one.source, writable=one.writable)
        found = _told(real.source, writable=real.writable) if real is not None else ""
        state = LineState.MISSING if real is None else _state(expected, found)
        if real is not None:
            met.add(real.destination)
        yield DriftLine(
            place=Place.MOUNT, name=one.target or one.source, state=state, expected=expected, found=found
        )
    for target, real in by_target.items():
        if target not in met:
            found = _told(real.source, writable=real.writable)
            yield DriftLine(place=Place.MOUNT, name=target, state=LineState.EXTRA, found=found)


def _told(source: str, *, writable: bool) -> str:
    return f"{source} ({'read-write' if writable else 'read-only'})"
