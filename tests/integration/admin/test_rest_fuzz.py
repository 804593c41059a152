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

if TYPE_CHECKING:
    from .conftest import Rest

pytestmark = pytest.mark.integration

_NO_HTTP = "Invalid HTTP request received."  # said by the web server, of headers that are none


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_is_answered_with_500(rest: Rest, mode: GenerationMode, soaking: bool) -> None:
    """Errors are problems; what is answered otherwise has the shape that the description promises."""
    rest.client.post("/api/v1/topics", json={"topic": "fuzzed", "queues": 1})
    rest.client.post("/api/v1/topics/fuzzed/messages", json={"body": "x"})
    schema = schemathesis.openapi.from_url(f"{rest.url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) > 30

    for operation in operations:
        if mode == GenerationMode.NEGATIVE and not list(operation.iter_parameters()) and not operation.body:
            continue  # nothing about it can be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=200 if soaking else 2, suppress_health_check=list(HealthCheck))
        def asked(case: Any) -> None:
            answer = case.call()
            assert answer.status_code != 500, answer.text
            if answer.text == _NO_HTTP:
                return
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == ["application/problem+json"], answer.text
                assert answer.json()["detail"]
            else:
                case.validate_response(answer, checks=[response_schema_conformance])

        asked()
