"""Whatever is asked, as the description allows it and as it does not, no request brings the server to a 500."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries, at import
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import response_schema_conformance

from .conftest import ADMIN_TOKEN, READ_TOKEN, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing import LocalCluster

    from .conftest import Rest

pytestmark = [pytest.mark.integration, pytest.mark.property]

_NO_HTTP = "Invalid HTTP request received."  # said by the web server, of headers that are none


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_answered_with_500(rest: Rest, mode: GenerationMode, amount: Callable[[int, int], int]) -> None:
    """Errors are problems; these and what is answered otherwise have the shapes that the description promises."""
    rest.client.post("/api/v1/topics", json={"topic": "fuzzed", "queues": 1})
    rest.client.post("/api/v1/topics/fuzzed/messages", json={"body": "x"})
    schema = schemathesis.openapi.from_url(f"{rest.url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) > 30

    for operation in operations:
        if mode == GenerationMode.NEGATIVE and not list(operation.iter_parameters()) and not operation.body:
            continue  # nothing about it can be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=amount(2, 200), suppress_health_check=list(HealthCheck))
        def asked(case: Any) -> None:
            answer = case.call()
            assert answer.status_code != 500, answer.text
            if answer.text == _NO_HTTP:
                return
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == ["application/problem+json"], answer.text
                assert answer.json()["detail"]
            case.validate_response(answer, checks=[response_schema_conformance])

        asked()


@pytest.mark.parametrize(("token", "refused"), [(READ_TOKEN, {403}), (READ_TOKEN[:-1], {401}), ("", {401})])
def test_nobody_does_what_the_token_does_not_allow(
    mq: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
    amount: Callable[[int, int], int],
    token: str,
    refused: set[int],
) -> None:
    """However a request to change something is put, right or wrong, it is refused before it is looked at (S16)."""
    tokens = {"admin_token": ADMIN_TOKEN, "read_token": READ_TOKEN}
    with served(mq.namesrv, tmp_path_factory.mktemp("roles"), **tokens) as rest:
        schema = schemathesis.openapi.from_url(f"{rest.url}/openapi.json")
        changing = [each for each in (found.ok() for found in schema.get_all_operations()) if each.method != "get"]
        assert len(changing) > 8
        for operation in changing:

            @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
            @settings(max_examples=amount(1, 100), suppress_health_check=list(HealthCheck))
            def asked(case: Any) -> None:
                answer = case.call(headers={"Authorization": f"Bearer {token}"})
                assert answer.status_code in refused, answer.text

            asked()
        done = rest.client.get("/api/v1/audit", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}).json()["items"]
        assert done == []
