"""An operator who submits receipts, and a viewer who asks what came of them, over the API."""

from typing import Any

from fastapi.testclient import TestClient

from tests.app.evidence_documents import raw


class Evidence:
    """The API with an operator's and a viewer's key."""

    def __init__(self, client: TestClient, keys: dict[str, str]) -> None:
        self.client = client
        self.keys = keys

    def headers(self, preset: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[preset]}"}

    def append(self, document: Any, *, status: int = 201, **place: str) -> dict[str, Any]:
        content = document if isinstance(document, bytes) else raw(document)
        answer = self.client.post(
            "/api/v1/receipts", params=place, content=content, headers=self.headers("operator")
        )
        assert answer.status_code == status, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/{path}", params=params, headers=self.headers("viewer"))
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    def outcome(self, sha: str, *, capability: str = "restore") -> tuple[str, str]:
        """Outcome and what stands against deployment of a receipt."""
        verdicts = self.get(f"receipts/{sha}")["verdicts"]
        one = next(v for v in verdicts if v["kind"] == "receipt" and v["capability"] == capability)
        return one["outcome"], one["deployable_reason"]

    def scopes(self, **params: Any) -> list[dict[str, Any]]:
        return self.get("verdicts", **params)["verdicts"]  # type: ignore[no-any-return]
