"""docs/PROFILES.md, made from the code; ``python -m tests.data.profiles_page`` writes it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from app.core.profiles.codes import CODES, Group
from app.core.profiles.documents import SCHEMAS
from app.core.profiles.guards.cache import BOUNDED
from app.core.profiles.guards.transport import UNPUBLISHED_TP4
from app.core.profiles.matrix import Recommendation, Status

PAGE: Final = Path(__file__).parents[2] / "docs" / "PROFILES.md"

_INTRO = """# Profiles

What is checked of deployment profiles, their documents, overlays, activations and claims. This page is made
from the code (`python -m tests.data.profiles_page`) and checked by a test; the behaviour it follows is the
profile contract, whose numbers (§) are cited. Why it is built like this:
[decision 0014](decisions/0014-profiles.md); what the documents look like:
[FORMAT.md](FORMAT.md#profile-documents).

Each check answers with one of five results:

| result | means |
|---|---|
| `pass` | the sentence of the code holds |
| `fail` | it does not; of severity B that blocks, of severity W it is shown |
| `not_applicable` | this profile does not call for the check |
| `not_tested` | something is missing; the detail names it. Never a pass |
| `indeterminate` | everything is there and no published rule decides |

Many findings come to one word: `fail` if one blocks, else `indeterminate` if a check of severity B is, else
`pass` if anything passed, else `not_tested`. Every finding has code, severity, pointer, detail, expected,
found, rank and the digest of the document; a value is never shown whose name looks like a key, token or
password.
"""

_SEVERITIES = """## Codes

B blocks, W warns. Four codes may carry either, by case: `ACT_EXTRA_SHAPE` (B malformed, W absent),
`ACT_DCP_UNBOUND` (W where a release selection pins the receipt), `KV_POOL_WINDOW` (B where the receipt does
not bind DCP), `SL_FILE_DRIFT` (W for a link that ends inside the root at the right bytes). `DOC_FIELD` is
ours; the others are those of §15 and §18.
"""

_WITHOUT_SERVER = """## Without a server

`--json` gives every command's answer as one object. Exit codes: 0 nothing blocks, 1 something does or a
document cannot be taken, 2 usage or unreadable. No link is followed; references of a contract are read
inside the parent of its folder, and below `--assets`, only.

| command | does |
|---|---|"""

_COMMANDS: Final = {
    "check CONTRACT": "templates against entries, pins, inheritance; `--receipt`, `--selection`; with "
    "`--profile` and `--rank N=FILE` every guard of real ranks",
    "effective CONTRACT PROFILE": "values, each with template and line or pointer",
    "diff LEFT RIGHT": "two contracts, or with `--profile A,B` two effective profiles; 1 if they differ",
    "plan CONTRACT PROFILE": "one rank's environment, mounts and command; `--site`, `--set`, `--output`; "
    "nothing is started",
    "drift CONTRACT PROFILE FILE": "a rank's environment file or inspection against that plan",
    "namespace IMAGE_ID PROFILE": "the derived namespace; with `--deployments` the collisions",
    "overlay IMAGE_ROOT": "every locked file of an unpacked image and every file of `--overlay`; `--launch`, "
    "`--selection`, `--anchors`, `--lock-sha256`, `--verify`, `--other-rank`",
    "activation FILE": "an activation receipt by the published or by our rules; `--contract`, `--selection`, "
    "`--pinned`, `--pool`, `--claim`, `--rules upstream`",
    "collect FOLDER": "a receipt and its performance record from what the ranks left behind",
    "claim FILE…": "what claims do to the documents they speak of",
    "drill FILE": "a drill held to its bar",
}

_UNPUBLISHED: Final = (
    *UNPUBLISHED_TP4,
    "the six native values of a cache profile (contract and receipt are held against each other)",
    "the variable of the lease contract",
    "the variable of the dynamic draft depth (#254; an operator may say it)",
    "the variable of the DCP interleave (its flag in the command is checked)",
    "reuse tracing and clear-once of a diagnostic start",
    "targets of model and cache mounts; arguments of the command after `serve`",
    "the fields of a fabric plan",
)


def page() -> str:
    """The whole page."""
    return "\n".join((_INTRO, *_codes(), *_unpublished(), *_matrix(), *_kinds(), *_commands()))


def _codes() -> Iterator[str]:
    yield _SEVERITIES
    for group in Group:
        yield f"### {group.value.capitalize()}\n"
        yield "| code | | what must hold |"
        yield "|---|---|---|"
        for code in CODES.values():
            if code.group is group:
                yield f"| `{code.name}` | {code.severity.value} | {code.says} |"
        yield ""


def _unpublished() -> Iterator[str]:
    yield "## What is not tested for want of a published name\n"
    yield "These checks exist and answer `not_tested` with the missing name (§18.14):\n"
    yield from (f"* {missing}" for missing in _UNPUBLISHED)
    yield "\nHeld to the profile's template on every arm with a cache (`GUARD_CAPACITY`), and with"
    yield "`KV_CACHE_MEMORY_BYTES` and `MAX_MODEL_LEN` on every arm at all:\n"
    yield _names(BOUNDED) + ".\n"


def _matrix() -> Iterator[str]:
    yield "## Status and recommendation\n"
    yield f"Two columns, never one (§18.10). Status: {_names(one.value for one in Status)}."
    yield f"Recommendation: {_names(one.value for one in Recommendation)}, or none."
    yield "The catalog's `alternative` is `available`, its `recommended` is `preferred`. Without a catalog"
    yield "entry a profile is what its contract is as a whole. A publication or an activation receipt stands"
    yield "behind a row and changes no column.\n"


def _kinds() -> Iterator[str]:
    yield "## Kinds of documents\n"
    yield "| schema | kind |"
    yield "|---|---|"
    yield from (f"| `{schema}` | {kind.value} |" for schema, kind in SCHEMAS.items())
    yield "| none: `KEY=VALUE` lines | template |"
    yield "| none: an object with `Path` and `Config` | launch |\n"


def _commands() -> Iterator[str]:
    yield _WITHOUT_SERVER
    yield from (f"| `sparkgate profile {command}` | {does} |" for command, does in _COMMANDS.items())
    yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
