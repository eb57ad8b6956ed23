"""Every check of a stored profile that its documents allow."""

from dataclasses import replace

from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.folder import (
    LoadedTemplates,
    Receipt,
    check_contract,
    pinned_findings,
    superseded_finding,
)
from app.core.qualify.pointer import step
from app.profiles.service.contracts import StoredProfile
from app.profiles.service.ranks import plan_of


def profile_findings(profile: StoredProfile) -> tuple[ProfileFinding, ...]:
    """The documents against each other, then every guard on what rank 0 would be started with.

    What only a real rank shows stays for `drift`; an approval nobody gives here is left out.
    """
    receipt = profile.image_receipt
    templates = {one.template.name: one.template for one in profile.templates}
    image = None if receipt is None else Receipt(value=receipt.value, sha256=receipt.sha256)
    around = (
        superseded_finding(profile.contract, profile.newer),
        *pinned_findings(profile.contract, image, profile.selections),
    )
    documents = check_contract(
        profile.contract,
        lookup=profile.lookup,
        templates=LoadedTemplates(by_name=templates),
        only=profile.effective.entry.name,
        receipt=image,
    )
    planned = (
        _of_plan(one, profile)
        for one in plan_of(profile, rank=0, image_id=None).findings
        if one.code != "REN_NOT_AUTHORIZED"
    )
    return tuple(dict.fromkeys((*around, *documents, *planned)))


def _of_plan(one: ProfileFinding, profile: StoredProfile) -> ProfileFinding:
    """What the template leaves to a renderer is no offence of the profile: no document can say it."""
    left_open = {step(value.key) for value in profile.effective.values if value.is_placeholder}
    if one.result is CheckResult.FAIL and one.pointer in left_open:
        detail = "a renderer supplies it; drift holds a real rank against it"
        return replace(one, result=CheckResult.NOT_TESTED, detail=detail)
    return one
