"""The one table of the architecture: every folder and file, its line of description, the import layers.

In a layered package the entries stand highest first: each may import those below it, none above it. The
import contracts (`.importlinter`), the tree in docs/ARCHITECTURE.md and the check for files outside the list
all come from here. After a change: `python -m tests.architecture.generate`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One folder (`name/`), file or family of files (`*.py`; `**` is anything below)."""

    name: str
    says: str
    inside: tuple[Entry, ...] = field(default=(), repr=False)
    layered: bool = False
    """The Python entries inside are import layers, highest first, and there are no others."""
    beside: bool = False
    """Shares the layer of the entry before; neither imports the other."""
    grows: bool = False
    """The file may become a package of the same name."""
    on_gpu_node: bool = False
    """Runs on a GPU node: reaches neither database nor web."""

    @property
    def module(self) -> str:
        """The import name, or nothing for a family, a document or a folder without Python."""
        if self.name.endswith(".py"):
            stem = self.name.removesuffix(".py")
            return stem if stem.isidentifier() else ""
        return self.name.removesuffix("/") if self.is_package else ""

    @property
    def is_package(self) -> bool:
        return any(entry.name.endswith(".py") or entry.is_package for entry in self.inside)


def _e(name: str, says: str, *inside: Entry, **flags: bool) -> Entry:
    return Entry(name=name, says=says, inside=inside, **flags)


def _any(says: str = "") -> Entry:
    return Entry(name="**", says=says)


CORE: Final = _e(
    "core/",
    "the pure library: bytes in, value or error out",
    _e(
        "bundle/",
        "the evidence bundle and its offline verifier",
        _e("__main__.py", "the verifier's command line"),
        _e("sample.py", "a small bundle without a server"),
        _e("sample_log.py", "a log with receipts and verdicts, without a database"),
        _e("code_archive.py", "verify.pyz: the verifier's sources and nothing else"),
        _e("build.py", "a deterministic archive from the log and its rows, in bounded memory"),
        _e("verify.py", "re-hash, re-prove and re-judge a bundle"),
        _e("contents.py", "the files of an archive against manifest, digests and signature"),
        _e("replay.py", "every verdict made again as the log grew"),
        _e("standing.py", "the newest verdicts, and what stands for a scope"),
        _e("population.py", "receipts found by their keys, without a database"),
        _e("log.py", "entries without a gap, their rows, the roots that come out"),
        _e("report.py", "REPORT.html"),
        _e("guide.py", "VERIFY.md"),
        _e("manifest.py", "MANIFEST.json"),
        _e("derive.py", "from the log to tables, statements and counts"),
        _e("restores.py", "the restore log as tables"),
        _e("coverage.py", "the newest verdict of every scope; images without evidence"),
        _e("statements.py", "in-toto statements of verdicts"),
        _e("tables.py", "which columns stand in which table"),
        _e("csv_text.py", "CSV that no spreadsheet misreads"),
        _e("archive.py", "the tar in its one spelling"),
        _e("records.py", "entries and rows as lines"),
        _e("layout.py", "names and order of the files in a bundle"),
        layered=True,
    ),
    _e(
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
    ),
    _e(
        "qualify/",
        "from evidence documents to a verdict",
        _e("drafts.py", "verdicts as they are kept: document and index"),
        _e("composed_document.py", "the verdict over a scope as a JSON object, with its gates"),
        _e("composition.py", "many receipts of one scope to one verdict"),
        _e("verdict_document.py", "a verdict as a JSON object"),
        _e("own_receipt.py", "a finished restore as a receipt: sparkgate-restore-receipt/v1"),
        _e("verdict.py", "run every rule on a case; outcome, deployable, findings"),
        _e("ruleset.py", "all rules in order, the gates a capability needs, the version of it all"),
        _e("deployable.py", "the first thing against deployment"),
        _e("established.py", "what was shown and what was not, in words"),
        _e("rules/", "one file per gate", _e("*.py", "one gate")),
        _e("around.py", "which stored documents are looked at to judge one"),
        _e("keys.py", "the words under which a receipt is found"),
        _e("neighbours.py", "from a list of stored documents to the surroundings of one"),
        _e("surroundings.py", "what other documents, operators and questions say, as a value"),
        _e("codes.py", "every code of a finding: row, gate, sentence"),
        _e("scope.py", "the scope key: what exactly a qualification is about"),
        _e("findings.py", "outcomes, rows, gates, findings"),
        _e("extract.py", "a document to its facts: the family its schema names, or kept as unknown"),
        _e("families/", "extractors: document to facts", _e("*.py", "one family of documents")),
        _e("schemas.json", "schema name to family, pointers and ceiling"),
        _e("phrases.json", "the fixed phrases of the evidence model: schema, pointer, sentence, meaning"),
        _e("words.json", "status words and their class"),
        _e("schema_table.py", "schemas.json, phrases.json and words.json, read once"),
        _e("reading.py", "mapped pointers of one document to facts of one form"),
        _e("facts.py", "DocumentFacts: all that a rule may read of a document"),
        _e("gates.py", "what one case says per gate: ranks, oracle, control, rollback, fault"),
        _e("subject.py", "image, source, model, topology and workload a receipt is about"),
        _e("serialise.py", "facts as canonical JSON, for golden tables and the parsed view"),
        _e("values.py", "a value with pointer and basis, or the reason why there is none"),
        _e("claim.py", "a claim about a stored document: sparkgate-claim/v1"),
        _e("document.py", "bytes to a strictly decoded document with exact numbers"),
        _e("offence.py", "where in a JSON text the first offence stands"),
        _e("pointer.py", "JSON pointers, and patterns over them"),
        layered=True,
    ),
    _e(
        "oracle/",
        "the semantic oracle",
        _e("judgement.py", "all ranks' parts added up to one answer; one name for what happened"),
        _e("asking.py", "what one rank's placed pages say: partial logits, control, page check"),
        _e("synthesis.py", "a store whose pages are attention state, and its question"),
        _e("faults.py", "a device that puts authentic bytes into the wrong pages"),
        _e("page_writer.py", "chosen pages written through a device's own placement"),
        _e("diagnosis.py", "wrong pages found and named"),
        _e("reference_decoder.py", "partial logits over any array module; the answer, also the slow way"),
        _e("partials.py", "one rank's part of the answer as a document; names of faults"),
        _e("pages.py", "the pages a rank must hold"),
        _e("attention.py", "the model behind a question: prompt, weights, keys and values"),
        _e("question.py", "sparkgate-oracle/v1: the question document"),
        _e("agreement.py", "exact and suffix agreement of an answer with the expected one"),
        layered=True,
    ),
    _e(
        "restore/",
        "one rank of one restore",
        _e("execute.py", "restore_rank: read, verify, fence, place, report"),
        _e("host_device.py", "Device over NumPy: slow, obvious, the bit-exact oracle"),
        _e("host_placement.py", "one placement in host memory: two arenas, copies in order"),
        _e("host_pool.py", "page pools in host memory"),
        _e("coverage.py", "whether copies follow each other and are complete, for every device"),
        _e("page_sets.py", "page sets handed out and how far each has come, for every device"),
        _e("page_slots.py", "the page slots of one layout, for every device"),
        _e("kernels.py", "array code over any array module; each CUDA kernel's NumPy twin"),
        _e("lookup.py", "the ordered entry, found and planned"),
        _e("feed.py", "objects in the order they are wanted, read ahead, authentic"),
        _e("outcome.py", "from the error that ended a restore to its outcome"),
        _e("stream.py", "the digests over whole streams, in their order, on their own thread"),
        _e("reader.py", "bounded concurrent authenticated reads into pooled buffers"),
        _e("page_plan.py", "page entries of every kind to sources, headers and a schedule"),
        _e("row_plan.py", "row entries to sources and a schedule"),
        _e("levels.py", "base and delta streams side by side, cut into a layer's pieces"),
        _e("heads.py", "headers that must be known before a schedule can be made"),
        _e("schedule.py", "which object is read when, and how long it is kept"),
        _e("page_cache.py", "objects put into or out of the page cache, residency measured"),
        _e("report.py", "RankReport, its document, all ranks combined"),
        _e("conditions.py", "page cache and cores a restore was measured with"),
        _e("device.py", "the Device and Arena protocols"),
        _e("buffers.py", "a fixed stock of page-aligned buffers, touched once"),
        _e("plan.py", "pieces of sources to submissions, batches and spans; no I/O"),
        _e("content.py", "what of an authentic object is used"),
        _e("timeline.py", "disjoint phases and the unattributed remainder"),
        layered=True,
    ),
    _e(
        "store/",
        "the rank-local store: documents, streams, files",
        _e("damage/", "one named fault at a time, for drills and tests", _e("*.py", "one family of faults")),
        _e("diff.py", "two entries or two roots: what is equal, what differs"),
        _e(
            "check/",
            "a whole root: every problem, and what can be restored",
            _e("walk.py", "RootCheck: folders, keys, documents, leftovers, totals"),
            _e("entries.py", "one document, its segments, objects and streams"),
            _e("segments.py", "the segments of one storage key and who needs them"),
            _e("objects.py", "the objects of a root and who needs them"),
            _e("findings.py", "problems, standings, totals"),
            layered=True,
        ),
        _e("digest_table.py", "many digests in little memory"),
        _e("folders.py", "names, kinds and sizes in a folder, nothing followed"),
        _e(
            "synth/",
            "valid stores made from nothing",
            _e("kinds.py", "small stores of every kind"),
            _e("flat.py", "a flat snapshot of any size"),
            _e("inputs.py", "identities and prompts of synthetic entries"),
            _e("design.py", "page layouts that look real and meet a size exactly"),
            _e("pages.py", "page streams, made as fast as they are written"),
            layered=True,
        ),
        _e(
            "writer/",
            "publish: objects first, manifest last",
            _e("page_delta.py", "extensions of a page entry"),
            _e("page_tail.py", "what a longer span's pages add: the delta stream"),
            _e("aliases.py", "shorter prefixes of a row entry"),
            _e("row_tail.py", "extensions of a row entry"),
            _e("legacy.py", "legacy entries, rows or pages"),
            _e("flat.py", "flat snapshots"),
            _e("documents.py", "root documents, judged before they are published"),
            _e("segments.py", "descriptor segments: a chunk list in content-named files"),
            _e("chunks.py", "chunk files in batches of eight"),
            _e("extents.py", "streams as raw extents, in batches of two"),
            _e("publication.py", "the files of one publication: written, named, adopted, repaired, synced"),
            _e("calls.py", "the system calls, as values a test may replace"),
            layered=True,
        ),
        _e("verify.py", "an entry to its last byte: lookup, header, stream, decoding"),
        _e("rows.py", "row entries to records, chunk after chunk"),
        _e("decode.py", "page entries of every kind to layers, in bounded memory"),
        _e("authenticate.py", "a page entry's streams made sure of without a layout"),
        _e("page_streams.py", "the streams of a page entry, opened: base and delta stages"),
        _e("stored_stream.py", "a stream over stored files, hashed as it is read"),
        _e("lookup.py", "hit, absent, incompatible or corrupt, at three depths"),
        _e("objects.py", "objects and chunks made sure of: size, bytes, inside"),
        _e("entry.py", "an entry from its documents: root document or alias, chunk list"),
        _e("delta_stream.py", "the encoded delta stream: header and layer tails"),
        _e("chunk.py", "the legacy chunk file: header and records"),
        _e(
            "manifest/",
            "root documents, aliases, segments: one file per kind",
            _e("delta.py", "page deltas v1, v2, v3 on their embedded base"),
            _e("stage.py", "one step of a page delta"),
            _e("tail.py", "row tails"),
            _e("alias.py", "prefix aliases"),
            _e("legacy.py", "legacy chunk manifests"),
            _e("flat.py", "flat page snapshots"),
            _e("segment.py", "descriptor segments and their chain"),
            _e("descriptors.py", "object and chunk descriptors"),
            _e("document.py", "named fields of a document and the refusals that name them"),
            layered=True,
        ),
        _e("snapshot.py", "the encoded page stream: header, groups, layers, spans"),
        _e("framing.py", "how headers of streams and chunks are judged"),
        _e("files.py", "files of a root, opened safely and read exactly"),
        _e("layout.py", "file names and the framing of objects"),
        _e("context.py", "token prefix to context digest"),
        _e("identity.py", "CacheIdentity and the storage key"),
        layered=True,
    ),
    _e("source_tree.py", "the files of a source tree on disk, read and digested"),
    _e("source_identity.py", "repository, commit, tree, source SHA-256"),
    _e("runtime.py", "what a rank worker measured of the code it is: sparkgate-runtime/v1"),
    _e("image.py", "an image and its three digests as three types"),
    _e(
        "ledger/",
        "the Merkle log's arithmetic",
        _e("proof.py", "inclusion and consistency proof texts"),
        _e("checkpoint.py", "signed tree heads"),
        _e("leaf.py", "what a leaf says: rows of views and their digests"),
        _e("merkle.py", "leaf and node hashes, roots, paths (RFC 6962)"),
        layered=True,
    ),
    _e("dsse.py", "the signed envelope"),
    _e("signature.py", "Ed25519 sign and verify"),
    _e("base64_text.py", "base64 in one spelling"),
    _e("canonical_json.py", "decode strictly, encode canonically; the only user of json"),
    _e("digest.py", "Digest; hashes of bytes and buffers; the only user of hashlib"),
    _e("errors.py", "CoreError and its tree"),
    layered=True,
)

NOUN_FILES: Final = (
    _e("api.py", "URLs, status codes", grows=True),
    _e("schemas.py", "JSON shapes (the noun's only Pydantic)", grows=True),
    _e("service.py", "may this be done now, and what follows", grows=True),
    _e("dispatch.py", "sends the noun's Celery messages", grows=True),
    _e("repository.py", "the noun's SQL", grows=True),
)

BOOTSTRAP: Final = _e("bootstrap.py", "the first account and key of a new installation")


def _noun(name: str, says: str, *more: Entry) -> Entry:
    inside = (NOUN_FILES[0], *more, *NOUN_FILES[1:])
    return Entry(name=f"{name}/", says=says, inside=inside)


NOUNS: Final = (
    _noun("evidence", "periods and selections exported as bundles"),
    _noun("drills", "repeated and fault-injected restores"),
    _noun("restores", "one order over all ranks, its attempts and decision"),
    _noun("profiles", "contracts, templates and images a deployment is made of; activations judged"),
    _noun("verdicts", "what the rules say about an image, newest row current"),
    _noun("receipts", "submitted evidence documents, byte for byte"),
    _noun("oracles", "questions that restores of a snapshot are asked"),
    _noun("manifests", "snapshots and their ranks' root documents"),
    _noun("images", "container images by their three digests"),
    _noun("sources", "source identities"),
    _noun("nodes", "machines, their devices and store roots"),
    _noun("layouts", "cache layouts under their digest"),
    _noun("accounts", "people, keys, scopes, sessions", BOOTSTRAP),
    _noun("ledger", "the append-only Merkle log"),
)

APP: Final = _e(
    "app/",
    "the control plane",
    _e("cli/", "the command line", _e("*.py", "one file per group of commands")),
    _e("main.py", "create_app(): the only place that wires routers, pages and error answers"),
    _e(
        "dashboard/",
        "HTML over all nouns",
        _e("queries.py", "SQL for a page"),
        _e("queries_evidence.py", "SQL for the pages of evidence"),
        _e("queries_answers.py", "SQL for what restores were asked and answered"),
        _e("htmx.py", "fragments and the local htmx files"),
        _e("templating.py", "the template environment"),
        _e("*.py", "one file per page"),
        _e("templates/", "Jinja2", _any()),
    ),
    *NOUNS,
    _e("web/", "what every route shares: auth, problems, paging, ETags", _e("*.py", "one concern")),
    _e("models/", "tables", _e("*.py", "one family of tables")),
    _e("embedded/", "start and stop the embedded PostgreSQL and Valkey", _e("*.py", "one server or concern")),
    _e("db/", "engine, sessions, transactions, migrating", _e("*.py", "one concern")),
    _e("queue.py", "the Celery object, queue and task names; no task body"),
    _e("processes.py", "child processes: start, recognise, stop"),
    _e("config.py", "Settings: every environment variable, once"),
    _e("errors.py", "NotFound, Conflict, Refused: app errors with status and code"),
    CORE,
    layered=True,
)

WORKERS: Final = _e(
    "workers/",
    "processes beside the control plane",
    _e("gpu_node.py", "Celery entry of one device on a GPU node", on_gpu_node=True),
    _e("control_node.py", "Celery entry beside PostgreSQL; runs the timetable", beside=True),
    _e("agent.py", "the node agent: one rank worker per device", beside=True, on_gpu_node=True),
    _e("rank_restore.py", "the GPU task: claim, restore, heartbeat, ready, report", on_gpu_node=True),
    _e("housekeeping.py", "timetable tasks: send, expire, deliver", beside=True),
    _e("bundle_builder.py", "build the evidence bundles that wait, beside the timetable"),
    _e("deep_check.py", "check what a root document names; what passes is pinned", on_gpu_node=True),
    _e("heartbeat.py", "renew a lease beside the work", on_gpu_node=True),
    _e("decision_calls.py", "hear at once that something is decided", beside=True, on_gpu_node=True),
    _e("inventory.py", "scan store roots for root documents", beside=True, on_gpu_node=True),
    _e("rank_oracle.py", "a part of an answer; a fault on purpose", beside=True, on_gpu_node=True),
    _e("oracle_client.py", "ask an endpoint the oracle's question", beside=True),
    _e("control_client.py", "HTTP client of the control plane", on_gpu_node=True),
    _e("runtime.py", "what a rank worker measures of the code it is", on_gpu_node=True),
    _e("devices.py", "open_device(name): host here, CUDA by late import", beside=True, on_gpu_node=True),
    _e(
        "gpu/",
        "the only files that name CuPy",
        _e("cuda_device.py", "Device over a CUDA driver"),
        _e("cuda_readback.py", "what really lies in the pages: digests and arrays"),
        _e("cuda_placement.py", "one placement: two arenas on two streams, tables, error word"),
        _e("cuda_arenas.py", "staging memory of an arena and what is in flight from it"),
        _e("cuda_pool.py", "page pools in device memory, owners of pages"),
        _e("cupy_driver.py", "the driver over CuPy: memory, streams, events, launches"),
        _e("cuda_kernels.py", "CUDA forms of the array kernels"),
        _e("host_memory.py", "pinned, registered or plain host memory, whichever the machine gives"),
        _e("driver.py", "what the device logic asks of a driver"),
        layered=True,
        on_gpu_node=True,
    ),
    layered=True,
)

TESTS: Final = _e(
    "tests/",
    "",
    _e("__init__.py", ""),
    _e("conftest.py", "what all tests share"),
    _e("architecture/", "this table and its guards", _any()),
    _e("core/", "milliseconds, no service", _any()),
    _e("gpu/", "the CUDA device against the host device", _any()),
    _e("app/", "real PostgreSQL, rolled back per test", _any()),
    _e("workers/", "tasks and clients", _any()),
    _e("e2e/", "real processes, one test per trip", _any()),
    _e("bench/", "measurements", _any()),
    _e("data/", "golden files and their generator", _any()),
)

REPOSITORY: Final = (
    APP,
    WORKERS,
    _e(
        "migrations/",
        "Alembic, configured in pyproject.toml",
        _e("env.py", "roles, lock, connection"),
        _e("script.py.mako", "form of a new revision"),
        _e("versions/", "one head", _e("*.py", "one revision")),
    ),
    _e("static/", "app.css and pictures of our own", _any()),
    TESTS,
    _e(
        "docs/",
        "",
        _e("ARCHITECTURE.md", "this page"),
        _e("FORMAT.md", "bytes on disk and in documents"),
        _e("RULES.md", "every rule of judgement with its source"),
        _e("GLOSSARY.md", "the words"),
        _e("OPERATIONS.md", "install, run, back up, repair"),
        _e("PERFORMANCE.md", "what a restore costs, measured"),
        _e("API.md", "REST by example"),
        _e("decisions/", "NNNN-title.md, one decision each", _e("[0-9][0-9][0-9][0-9]-*.md", "")),
        _e("screenshots/", "screenshots", _e("*.png", "")),
    ),
    _e("requirements/", "hash-pinned locks", _e("*.in", "wanted"), _e("*.txt", "locked")),
    _e(".ci/", "", _e("run", "what CI runs")),
    _e("pyproject.toml", "project and tools"),
    _e("compose.yaml", "the services in containers"),
    _e("Dockerfile", "the image of all services"),
    _e("Makefile", "install, up, test"),
    _e("README.md", "first page"),
    _e("CONTRIBUTING.md", "how to change this"),
    _e("LICENSE", "Apache-2.0"),
    _e(".importlinter", "import contracts, generated"),
    _e(".*", "dot files of tools"),
)
