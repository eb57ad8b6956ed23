"""What a simulated node reports of its store roots."""

import json
from collections.abc import Sequence
from pathlib import Path

from app.core.digest import sha256
from app.core.restore.reader import list_documents, read_document
from tests.bench.control_client import BareClient


def report_inventory(client: BareClient, *, node: str, roots: Sequence[Path]) -> None:
    """Report the root documents of these roots, and send those the control plane does not have."""
    sightings, documents = [], {}
    for root in roots:
        for name in list_documents(root):
            raw = read_document(root, name=name)
            digest = str(sha256(raw))
            documents[digest] = (str(name.context_digest), raw)
            sightings.append(
                {
                    "root_path": str(root),
                    "storage_key": str(name.storage_key),
                    "context_digest": str(name.context_digest),
                    "root_document_sha256": digest,
                }
            )
    path = f"/api/v1/nodes/{node}/inventory"
    body = json.dumps({"manifests": sightings, "problems": []}).encode()
    for digest in client.need("inventory", "PUT", path, body=body)["missing_documents"]:
        context, raw = documents[digest]
        target = f"/api/v1/nodes/{node}/documents/{digest}?context_digest={context}"
        client.need("document", "PUT", target, body=raw)
    client.need("inventory", "PUT", path, body=body)
