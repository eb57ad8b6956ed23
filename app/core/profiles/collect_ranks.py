"""One rank's entry of a receipt, each value from the lines that show it (profile-contract §11.1, §11.3,
§18.7). A value that is absent, ambiguous or shown by half of its lines only stays absent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.core.canonical_json import ExactValue
from app.core.digest import Digest, sha256
from app.core.profiles.activation_ranks import (
    loader_counter,
    transport_counter,
)
from app.core.profiles.collect_sources import Proof, RankLog, Series, proofs
from app.core.profiles.contract import Contract
from app.core.profiles.log_lines import LineValue
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import DOMAINS, TP2_STEP_ROWS, TP4_STEP_ROWS

_HOST_PREFIX = b"sparkgate-host/v1\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A field that was not collected, and why."""

    pointer: str
    reason: str

    def to_object(self) -> dict[str, ExactValue]:
        """As JSON."""
        return {"pointer": self.pointer, "reason": self.reason}


@dataclass(slots=True)
class Draft:
    """A receipt in the making: members with their evidence, and what is absent."""

    evidence: dict[str, ExactValue] = field(default_factory=dict)
    absent: list[Absent] = field(default_factory=list)

    def put(
        self, place: dict[str, ExactValue], at: str, name: str, value: ExactValue, *, shown_by: list[Proof]
    ) -> None:
        """Set a member and its evidence."""
        place[name] = value
        self.evidence[f"{at}/{name}"] = [one.to_object() for one in shown_by]

    def lack(self, pointer: str, reason: str) -> None:
        """Name a member that stays absent."""
        self.absent.append(Absent(pointer=pointer, reason=reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInspection:
    """What a container inspection says of its rank; texts are empty where it does not."""

    image_id: str
    container_id: str
    started_at: str
    hostname: str
    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """Everything known of one rank."""

    rank: int
    log: RankLog
    inspection: RankInspection | None
    environment: Mapping[str, str] | None
    """Of the environment file, else of the container; compared, never copied."""
    domains: Mapping[str, tuple[str, Proof]]
    """PCI domain of each adapter, by its name, with the line that says so."""


def rank_entry(
    facts: RankFacts, *, index: int, entry: ProfileEntry, contract: Contract, draft: Draft
) -> dict[str, ExactValue]:
    """The entry of one rank; what it lacks is named in the draft."""
    made: dict[str, ExactValue] = {"rank": facts.rank}
    at = f"/ranks/{index}"
    writer = _Rank(facts=facts, made=made, at=at, draft=draft)
    writer.inspected()
    writer.same("observed_tp", "tensor_parallel_size")
    writer.same("observed_dcp", "decode_context_parallel_size")
    writer.same("nccl_version", "nccl_version")
    writer.host_domains()
    writer.graphs()
    writer.loader(loader_counter(entry, contract))
    writer.counter("mtp_draft_tokens", also="drafted")
    writer.counter("continuation_coalesced_groups")
    writer.rows(TP2_STEP_ROWS if not entry.is_tp4 else (TP4_STEP_ROWS,), named=not entry.is_tp4)
    writer.difference(transport_counter(entry))
    return made


def host_id(hostname: str) -> Digest:
    """A host by a digest of its name, so that the name stays where it is (§14 G-15)."""
    return sha256(_HOST_PREFIX + hostname.encode("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    facts: RankFacts
    made: dict[str, ExactValue]
    at: str
    draft: Draft

    def series(self, name: str) -> Series | None:
        return self.facts.log.series.get(name)

    def put(self, name: str, value: ExactValue, *, shown_by: list[Proof]) -> None:
        self.draft.put(self.made, self.at, name, value, shown_by=shown_by)

    def lack(self, name: str, reason: str) -> None:
        self.draft.lack(f"{self.at}/{name}", reason)

    def inspected(self) -> None:
        """Image, container, start and host, from the inspection alone."""
        seen = self.facts.inspection
        hostname = host_id(seen.hostname) if seen and seen.hostname else ""
        for name, value in (
            ("image_id", seen.image_id if seen else ""),
            ("container_id", seen.container_id if seen else ""),
            ("started_at", seen.started_at if seen else ""),
            ("host_id", hostname),
        ):
            if seen is not None and value:
                self.put(name, str(value), shown_by=[seen.proof])
            else:
                self.lack(name, "container inspection" if seen is None else "not in the inspection")

    def same(self, name: str, said: str, *, take: Callable[[LineValue], ExactValue] | None = None) -> None:
        """A value that every line must say alike."""
        found = self.series(said)
        if found is None:
            self.lack(name, f"no line with {said}")
        elif len(found.values) > 1:
            self.lack(name, f"ambiguous: {', '.join(str(one) for one in found.values[:8])}")
        else:
            value = found.first.value
            self.put(name, take(value) if take else _plain(value), shown_by=proofs([found]))

    def counter(self, name: str, *, also: str = "") -> None:
        """A counter's last word; or the sum of an engine's periodic reports under another name."""
        found = self.series(name)
        reports = self.series(also) if also else None
        if found is not None:
            self.put(name, _plain(found.last.value), shown_by=[found.last.proof])
        elif reports is not None:
            self.put(name, reports.total, shown_by=[one.proof for one in reports.kept])
        else:
            self.lack(name, f"no line with {name}")

    def difference(self, name: str) -> None:
        """Two sights of a status, before and after: what they differ by is of this run (§11.3)."""
        found = self.series(name)
        if found is None:
            self.lack(name, f"no line with {name}")
        elif found.count < 2:
            self.lack(name, "one sight only; before and after are needed")
        elif isinstance(found.first.value, int) and isinstance(found.last.value, int):
            self.put(name, found.last.value - found.first.value, shown_by=proofs([found]))

    def graphs(self) -> None:
        """The configured sizes count once the capture has ended (§11.3)."""
        if self.series("graph_capture_seconds") is None:
            self.lack("captured_graph_sizes", "no line about the end of the capture")
            return
        before = len(self.draft.absent)
        self.same("captured_graph_sizes", "cudagraph_capture_sizes", take=_listed)
        if len(self.draft.absent) == before:
            ended = proofs([self.series("cudagraph_capture_sizes"), self.series("graph_capture_seconds")])
            self.draft.evidence[f"{self.at}/captured_graph_sizes"] = [one.to_object() for one in ended]

    def loader(self, name: str) -> None:
        """The counter as a word, else one for each terminal record of the profile's loader."""
        found, ended = self.series(name), self.series("loader_completed")
        wanted = "b12x" if name.startswith("managed") else "instanttensor"
        if found is not None:
            self.put(name, _plain(found.last.value), shown_by=[found.last.proof])
            return
        records = [one for one in ended.kept if one.value == wanted] if ended is not None else []
        if records:
            self.put(name, len(records), shown_by=[one.proof for one in records])
        else:
            self.lack(name, "no terminal record of the loader")

    def rows(self, steps: tuple[int, ...], *, named: bool) -> None:
        """Executions of full steps; the rest of a prompt is no full step and is not listed (§18.7)."""
        found = self.series("mhc")
        full = [one for one in found.kept if _rows(one.value)[0] in steps] if found is not None else []
        if not full or found is None:
            for name in ("mhc_sharded_prefill_calls", "mhc_owner_rows"):
                self.lack(name, "no record of a full step with rows and owner_rows")
            if named:
                self.lack("mhc_prefill_rows", "no record of a full step with rows and owner_rows")
            return
        shown = [one.proof for one in full]
        owners = list(dict.fromkeys(_rows(one.value)[1] for one in full))
        self.put("mhc_sharded_prefill_calls", found.count, shown_by=shown)
        self.put("mhc_owner_rows", list(owners), shown_by=shown)
        ceilings = list(dict.fromkeys(_rows(one.value)[0] for one in full))
        if named and len(ceilings) == 1:
            self.put("mhc_prefill_rows", ceilings[0], shown_by=shown)
        elif named:
            self.lack("mhc_prefill_rows", f"ambiguous: {ceilings}")

    def host_domains(self) -> None:
        """Adapters of successful routes, joined with the PCI domain each lies in (§11.3)."""
        routes = self.series("hca")
        if routes is None:
            self.lack("nccl_host_domains", "no line about a final route with hca")
            return
        used = {str(one.value): one.proof for one in routes.kept}
        known = {name: self.facts.domains[name] for name in used if name in self.facts.domains}
        if len(known) < len(used):
            unknown = ", ".join(sorted(used.keys() - known.keys())[:8])
            self.lack("nccl_host_domains", f"PCI addresses of {unknown}")
            return
        domains = {DOMAINS[0] if int(domain, 16) == 0 else DOMAINS[1] for domain, _ in known.values()}
        shown = [proof for name in known for proof in (used[name], known[name][1])]
        self.put("nccl_host_domains", [one for one in DOMAINS if one in domains], shown_by=shown)


def _plain(value: LineValue) -> ExactValue:
    return value if isinstance(value, bool | int | str) else str(value)


def _listed(value: LineValue) -> ExactValue:
    return list(value) if isinstance(value, tuple) else _plain(value)


def _rows(value: LineValue) -> tuple[int, int]:
    return (value[0], value[1]) if isinstance(value, tuple) and len(value) == 2 else (0, 0)
