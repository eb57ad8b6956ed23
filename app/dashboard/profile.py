"""One profile: the environment it comes to, where each value is from, every check, and its plan."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from app.core.profiles.effective import EffectiveValue, Source
from app.core.profiles.secrets import masked
from app.dashboard.access import ProfilesVisitor
from app.dashboard.checks_view import checks_of, document_link
from app.dashboard.templating import page
from app.db.session import database_time
from app.profiles.service.checks import profile_findings
from app.profiles.service.contracts import StoredProfile, get_profile
from app.profiles.service.namespaces import OperatorSays, own_namespace
from app.profiles.service.ranks import plan_bytes
from app.web.deps import ReadSession

router = APIRouter(prefix="/profiles", include_in_schema=False)

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Path(max_length=128)]
SOURCES: Final = {
    Source.PARENT_TEMPLATE: "parent's template",
    Source.OWN_TEMPLATE: "own template",
    Source.CONTRACT: "contract",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLine:
    """One variable with where it is from; `link` leads there, `replaced` is what the parent had."""

    key: str
    value: str
    source: str
    origin: str
    link: str
    replaced: str | None
    is_placeholder: bool


@router.get("/{contract_sha256}/{name}")
def show_profile(
    contract_sha256: Digest, name: Name, request: Request, session: ReadSession, login: ProfilesVisitor
) -> Response:
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    templates = [one.document_sha256 for one in profile.templates]
    own = None
    if profile.image_id is not None:
        own = own_namespace(session, profile=profile, says=OperatorSays())
    return page(
        request,
        "profile.html",
        login=login,
        now=database_time(session),
        profile=profile,
        entry=profile.effective.entry,
        values=value_lines(profile),
        checks=checks_of(profile_findings(profile), stored=(contract_sha256, *templates)),
        own=own,
        ranks=range(profile.effective.entry.node_count),
    )


@router.get("/{contract_sha256}/{name}/plan/{rank}")
def give_plan(
    contract_sha256: Digest,
    name: Name,
    rank: Annotated[int, Path(ge=0, le=1023)],
    session: ReadSession,
    _login: ProfilesVisitor,
) -> Response:
    """The plan of one rank, to be kept and reviewed; never executed."""
    profile = get_profile(session, contract_sha256=contract_sha256, name=name)
    body = plan_bytes(profile, rank=rank, image_id=None)
    headers = {
        "Content-Disposition": f'attachment; filename="{profile.effective.entry.name}-rank{rank}.json"',
        "Cache-Control": "private, no-store",
    }
    return Response(body, media_type="application/json", headers=headers)


def value_lines(profile: StoredProfile) -> list[ValueLine]:
    """The values in the order of the templates, the contract's own last; secrets masked."""
    effective = profile.effective
    return [_line(profile, one) for one in (*effective.values, *effective.common)]


def _line(profile: StoredProfile, one: EffectiveValue) -> ValueLine:
    return ValueLine(
        key=one.key,
        value=masked(one.key, one.value),
        source=SOURCES[one.source],
        origin=one.origin,
        link=_link(profile, one),
        replaced=None if one.replaced is None else masked(one.key, one.replaced),
        is_placeholder=one.is_placeholder,
    )


def _link(profile: StoredProfile, one: EffectiveValue) -> str:
    """To the value's place in the stored document it was read from."""
    if one.source is Source.CONTRACT:
        return document_link(profile.contract.sha256, one.origin)
    file = one.origin.rpartition(":")[0]
    chosen = next((t for t in profile.templates if t.template.name == file), None)
    if chosen is None:
        return ""
    is_own_file = chosen.template.sha256 == chosen.document_sha256
    pointer = f"/{one.key}" if is_own_file else f"/templates/{file}"
    return document_link(chosen.document_sha256, pointer)
