"""The part of the table that is `app/core/profiles`; the rest is in `table.py`."""

from __future__ import annotations

from typing import Final

from .entry import Entry
from .entry import entry as _e

PROFILES: Final[Entry] = _e(
    "profiles/",
    "deployment profiles: documents, guards, plan and drift; overlay, activation and claims",
    _e("kinds.py", "bytes of any kind of profile document, parsed whole"),
    _e("collect.py", "an activation receipt made from environments, inspections and logs"),
    _e("drill_bar.py", "the bar a drill must pass"),
    _e("drill.py", "drill documents, read"),
    _e("claim.py", "claims about documents and what they do"),
    _e("activation.py", "activation receipts, judged by the published and the strict rules"),
    _e("activation_serving.py", "limit, pool, long prefill and cache of an activation"),
    _e("activation_ranks.py", "the ranks of an activation"),
    _e("activation_own.py", "what our own schema of an activation demands besides"),
    _e("activation_terms.py", "the words in which activation rules speak"),
    _e("overlay_document.py", "the result of an overlay check as a document"),
    _e("overlay.py", "an image root and its overlay, judged from observed files"),
    _e("overlay_bindings.py", "what ties an overlay to its image"),
    _e("overlay_files.py", "observed files against lock and anchors"),
    _e("overlay_launch.py", "entrypoint and mounts of the container"),
    _e("overlay_verification.py", "the image's own verifier, read"),
    _e("folder.py", "a folder of documents: contract, templates and all they refer to, checked"),
    _e("drift.py", "a rank's real environment or inspection beside its plan, line by line"),
    _e("plan.py", "what one rank would be started with: a document, never executed"),
    _e("matrix.py", "TP x DCP x cache: status and recommendation with the evidence behind"),
    _e("diff.py", "two contracts or two effective profiles, line by line"),
    _e("guards/", "what a rank's environment must be, on every arm", _e("*.py", "one concern")),
    _e("observed.py", "a rank's environment file or container inspection, read"),
    _e("entry_checks.py", "the resolved template against its contract entry"),
    _e("effective.py", "one level of inheritance, and where each value comes from"),
    _e("site.py", "the site document and the permitted lists"),
    _e("anchors.py", "digests that selections and operators anchor overlay files with"),
    _e("release.py", "locks, release selection, publication and catalog entries"),
    _e("budget.py", "rows, key-value budget, pool window, buffers"),
    _e("namespace.py", "which cache namespace a profile writes to, and collisions"),
    _e("image_receipt.py", "the image receipt against the contract"),
    _e("contract.py", "the contract document, parsed"),
    _e("profile_entry.py", "one named profile of a contract"),
    _e("template.py", "KEY=VALUE files read literally, and placeholders"),
    _e("launch.py", "a container inspection: entrypoint, environment, mounts"),
    _e("source_lock.py", "the lock inside the image"),
    _e("root_files.py", "the files of an unpacked image root, observed"),
    _e("fields.py", "fields of a document taken with their pointer, or refused"),
    _e("references.py", "references resolved inside the allowed folder only"),
    _e("documents.py", "bytes to a document of a known kind, or a refusal with its code"),
    _e("secrets.py", "names whose values never leave"),
    _e("findings.py", "results and findings of checks"),
    _e("codes.py", "every code of a check: severity, group, what must hold"),
    layered=True,
)
