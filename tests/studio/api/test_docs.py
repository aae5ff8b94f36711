"""/docs and /openapi.json: every route is there, and nothing comes from elsewhere."""

import base64
import hashlib
import re


def test_the_page_needs_nothing_from_elsewhere(client):
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?(https?:)?//""", answer.text)
    assert "innerHTML" not in answer.text and "document.write" not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "'unsafe-inline'" not in policy.split("style-src")[0]


def test_its_one_script_is_the_one_that_the_policy_allows(client):
    answer = client.get("/docs")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["Content-Security-Policy"]


def test_every_route_is_described_with_its_errors(client):
    page = client.get("/openapi.json").json()
    paths = page["paths"]
    for path in ("/v1/audio/speech", "/openai/v1/audio/speech"):
        route = paths[path]["post"]
        assert set(route["requestBody"]["content"]) == {"application/json", "multipart/form-data"}
        assert {"400", "404", "409", "429", "503"} <= set(route["responses"])
    for path, operations in paths.items():
        for operation in operations.values():
            assert "422" not in operation["responses"] or path.startswith("/tts/")
            assert operation.get("description") or operation.get("summary"), path
    described = {"/v1/audio/queue", "/v1/audio/requests/{request_id}", "/metrics", "/v1/models"}
    assert described <= set(paths)
