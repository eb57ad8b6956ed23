"""One rank, its profile and what stands around it: all that a guard may read."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.canonical_json import ExactValue
from app.core.profiles.budget import MEMORY_FLOOR_BYTES
from app.core.profiles.contract import Contract
from app.core.profiles.effective import EffectiveProfile
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.observed import ObservedRank
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.secrets import masked
from app.core.qualify.pointer import step


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCase:
    """The judged rank.

    Attributes:
        receipt: the image receipt as a JSON value; checks that need it answer ``not_tested`` without it.
        image_id: the configuration id the rank must run, ``sha256:`` and 64 hexadecimal characters.
        diagnostic_namespace: of a diagnostic start that the site ordered (§6.1); none for a normal one.
        has_dynamic_draft: whether the draft depth changes while running, as an operator says; its variable
            is not published.
        available_bytes: free memory of the host, if it was measured.
        memory_floor_bytes: what the operator wants free at least.
    """

    contract: Contract
    effective: EffectiveProfile
    observed: ObservedRank
    receipt: ExactValue = None
    image_id: str | None = None
    diagnostic_namespace: str | None = None
    has_dynamic_draft: bool | None = None
    available_bytes: int | None = None
    memory_floor_bytes: int = MEMORY_FLOOR_BYTES

    @property
    def entry(self) -> ProfileEntry:
        """The contract's entry of the profile."""
        return self.effective.entry

    @property
    def environment(self) -> Mapping[str, str]:
        """The rank's variables."""
        return self.observed.environment

    def result(
        self,
        code: str,
        result: CheckResult,
        *,
        key: str = "",
        detail: str = "",
        expected: str = "",
        found: str = "",
    ) -> ProfileFinding:
        """A finding about a variable of this rank, or about the rank; the value of a secret is masked."""
        return finding(
            code,
            result,
            pointer=step(key) if key else "",
            detail=detail,
            expected=expected,
            found=masked(key, found) if key else found,
            rank=self.observed.rank,
            document_sha256=self.observed.sha256,
        )

    def compared(self, code: str, key: str, expected: str, *, detail: str = "") -> ProfileFinding:
        """Whether a variable is literally this text."""
        found = self.environment.get(key)
        return self.result(
            code,
            CheckResult.PASS if found == expected else CheckResult.FAIL,
            key=key,
            detail=detail,
            expected=expected or "an empty value",
            found=found if found is not None else "nothing",
        )

    def untested(self, code: str, missing: str) -> ProfileFinding:
        """A check that cannot be made, with what it lacks (§18.14)."""
        return self.result(code, CheckResult.NOT_TESTED, detail=missing)

    def skipped(self, code: str, why: str) -> ProfileFinding:
        """A check that this profile does not call for."""
        return self.result(code, CheckResult.NOT_APPLICABLE, detail=why)
