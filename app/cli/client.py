"""The control plane's REST API as the command line speaks it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import httpx2
import typer
from rich.console import Console

from app.accounts.bootstrap import CREDENTIALS_FILE
from app.config import KeyFileError, Settings, read_key_file
from app.core.printable import printable_page

TIMEOUT_S: Final = 30.0


class ApiError(Exception):
    """The control plane refused or did not answer; the message is fit for a terminal."""


class ApiClient:
    """One API key's view of the control plane."""

    def __init__(self, base_url: str, *, api_key: str) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"}
        self._http = httpx2.Client(base_url=self.base_url, headers=headers, timeout=TIMEOUT_S)

    def get(self, path: str) -> dict[str, Any]:
        """A resource.

        Raises:
            ApiError: not there, not allowed, not reachable.
        """
        return self._answer("GET", path)

    def post(
        self, path: str, *, body: object = None, content: bytes | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """What a POST made or found.

        Raises:
            ApiError: refused or not reachable.
        """
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        sent = content if content is not None else (json.dumps(body).encode() if body is not None else None)
        return self._answer("POST", path, content=sent, headers=headers)

    def send(
        self, method: str, path: str, *, params: dict[str, str], content: bytes
    ) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Status, headers and body of an answer, whatever it is; may be called from several threads.

        Raises:
            ApiError: not reachable, or something else answered.
        """
        headers = {"Content-Type": "application/json"}
        response = self._response(method, path, params=params, content=content, headers=headers)
        try:
            body = response.json()
        except ValueError as error:
            raise ApiError(_problem_text(response)) from error
        return response.status_code, dict(response.headers), cast(dict[str, Any], body)

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a file, part after part.

        Raises:
            ApiError: not there, not allowed, not reachable, or cut off.
        """
        try:
            with self._http.stream("GET", path) as response:
                if not response.is_success:
                    response.read()
                    raise ApiError(_problem_text(response))
                yield from response.iter_bytes()
        except httpx2.TransportError as error:
            raise ApiError(
                f"{self.base_url}: expected the file, found {type(error).__name__}: {error}"
            ) from error

    def _answer(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        response = self._response(method, path, **arguments)
        if response.is_success:
            return cast(dict[str, Any], response.json())
        raise ApiError(_problem_text(response))

    def _response(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        try:
            return self._http.request(method, path, **arguments)
        except httpx2.TransportError as error:
            raise ApiError(
                f"{self.base_url}: expected an answer, found {type(error).__name__}: {error}"
            ) from error


def _problem_text(response: httpx2.Response) -> str:
    try:
        problem = response.json()
        parts = [f"  {part['pointer']}: {part['detail']}" for part in problem.get("errors", [])]
        # One or a few of them are the sentence already.
        parts = [part for part in parts if part.strip() not in problem["detail"]]
        return "\n".join([f"{problem['status']} {problem['code']}: {problem['detail']}", *parts])
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code}: {response.text[:200]}"


def open_api(settings: Settings, *, url: str | None, api_key_file: Path | None) -> ApiClient:
    """The API with the key that was named, or that of the local installation, which goes nowhere else.

    Raises:
        ApiError: there is no such key, or it does not belong to the address that was named.
    """
    try:
        if api_key_file is not None:
            return ApiClient(url or settings.control_url, api_key=read_key_file(api_key_file))
        key, address = _local_key(settings), _local_address(settings)
        named = url or (settings.control_url if "control_url" in settings.model_fields_set else address)
        if _origin(named) != _origin(address):
            raise ApiError(
                f"API key: expected --api-key-file with a key of {named}, found only that of the local "
                f"installation, which is for {address}"
            )
        return ApiClient(address, api_key=key)
    except httpx2.InvalidURL as error:
        raise ApiError(
            f"expected the address of a control plane, found {url or settings.control_url}"
        ) from error
    except KeyFileError as error:
        raise ApiError(str(error)) from error


def _local_key(settings: Settings) -> str:
    path = settings.home / CREDENTIALS_FILE
    try:
        return str(json.loads(path.read_text())["api_key"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ApiError(
            f"API key: expected --api-key-file or {path} of a local installation, found neither"
        ) from error


def _local_address(settings: Settings) -> str:
    """Where `sparkgate up` says it listens, if it runs here; else where its settings say, as in a container:
    they and the key are then of one installation."""
    try:
        return str(json.loads((settings.home / "up.json").read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError):
        is_said = "control_url" in settings.model_fields_set
        return settings.control_url if is_said else f"http://127.0.0.1:{settings.port}"


def _origin(address: str) -> tuple[str, str, int | None, str]:
    """What two spellings of one address have in common, read as the client that sends the key reads it."""
    url = httpx2.URL(address)
    host = "127.0.0.1" if url.host == "localhost" else url.host
    return url.scheme, host, url.port, url.path.rstrip("/")


def fail(error: Exception, *, as_json: bool = False, status: int = 1) -> NoReturn:
    """Leave with a sentence, or a JSON object, and no traceback."""
    if as_json:
        Console(highlight=False, markup=False, soft_wrap=True).print(json.dumps({"error": str(error)}))
    else:
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(printable_page(str(error)))
    raise typer.Exit(status)
