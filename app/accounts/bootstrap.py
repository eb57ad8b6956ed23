"""First start of a local installation: one login, one API key, one key for the local node."""

import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from app.accounts import service
from app.db.session import Database
from app.ledger.service.signing import create_key_file
from app.processes import write_private
from app.web.auth import PRESETS
from app.web.paging import SHORTEST_PAGE_SECRET

LOGIN_NAME: Final = "admin"
CREDENTIALS_FILE: Final = "credentials.json"
LEDGER_KEY_FILE: Final = "ledger.key"
# A folder of its own: the only secrets a node may see (compose.yaml mounts it alone).
NODE_KEYS_FOLDER: Final = "node-keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCredentials:
    """What `make up` prints, and the file the local node reads its key from."""

    login_name: str
    password: str
    api_key: str
    node_key_file: str
    page_secret_file: str


def bootstrap_local(database: Database, *, home: Path, node: str) -> LocalCredentials:
    """Create the local credentials once, or read those of an earlier start.

    The file holds secrets, is written before the database commits and is readable by its owner only. If
    it is lost, new secrets replace the old ones; if the database is new, so are they. What an earlier version
    kept elsewhere is brought to its place.
    """
    path = home / CREDENTIALS_FILE
    known = _read(path)
    if known is None or not _still_good(database, credentials=known, node=node):
        return _create(database, home=home, node=node)
    _heal_page_secret(Path(known.page_secret_file))
    return _with_key_in_place(known, home=home, node=node)


def ensure_ledger_key(home: Path, *, origin: str | None) -> Path:
    """The ledger's key file below `home`; made once, and kept whatever else is renewed."""
    path = home / LEDGER_KEY_FILE
    create_key_file(path, origin=origin)
    return path


def _read(path: Path) -> LocalCredentials | None:
    try:
        return LocalCredentials(**json.loads(path.read_text(encoding="ascii")))
    except (OSError, ValueError, TypeError):
        return None


def _still_good(database: Database, *, credentials: LocalCredentials, node: str) -> bool:
    try:
        node_key = Path(credentials.node_key_file).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return False
    with database.reading() as session:
        of_node = service.authenticate_key(session, text=node_key)
        return (
            service.has_account(session, name=credentials.login_name)
            and service.authenticate_key(session, text=credentials.api_key) is not None
            and of_node is not None
            and of_node.node_name == node
        )


def _heal_page_secret(path: Path) -> None:
    """A lost one only ends the page tokens that are out; without one the web process would not start."""
    if not path.is_file() or len(path.read_bytes().strip()) < SHORTEST_PAGE_SECRET:
        write_private(path, text=secrets.token_hex(32))


def _with_key_in_place(known: LocalCredentials, *, home: Path, node: str) -> LocalCredentials:
    """Earlier versions kept the node's key beside the others, where its container does not look any more."""
    before, place = Path(known.node_key_file), home / NODE_KEYS_FOLDER / f"{node}.key"
    if before == place:
        return known
    moved = replace(known, node_key_file=str(place))
    write_private(place, text=before.read_text(encoding="ascii"))
    write_private(home / CREDENTIALS_FILE, text=json.dumps(asdict(moved)))
    before.unlink()
    return moved


def _create(database: Database, *, home: Path, node: str) -> LocalCredentials:
    password = secrets.token_urlsafe(15)
    node_key_file, page_secret_file = home / NODE_KEYS_FOLDER / f"{node}.key", home / "page.key"
    with database.transaction() as session:
        if not service.has_account(session, name=LOGIN_NAME):
            service.create_account(session, name=LOGIN_NAME, password=password, scopes=PRESETS["admin"])
        else:
            service.set_password(session, name=LOGIN_NAME, password=password)
        for label in ("local", f"node-{node}"):
            service.revoke_keys(session, label=label)
        api_key = service.create_key(
            session, account_name=LOGIN_NAME, label="local", scopes=PRESETS["admin"] - PRESETS["worker"]
        )
        node_key = service.create_key(
            session,
            account_name=LOGIN_NAME,
            label=f"node-{node}",
            scopes=PRESETS["worker"],
            node_name=node,
        )
        credentials = LocalCredentials(
            login_name=LOGIN_NAME,
            password=password,
            api_key=api_key,
            node_key_file=str(node_key_file),
            page_secret_file=str(page_secret_file),
        )
        write_private(node_key_file, text=node_key)
        write_private(page_secret_file, text=secrets.token_hex(32))
        write_private(home / CREDENTIALS_FILE, text=json.dumps(asdict(credentials)))
    return credentials
