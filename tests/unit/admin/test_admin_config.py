"""Settings of REST and console: nobody is let in by mistake."""

from __future__ import annotations

import pytest

from rmqspark.admin.access import Role, role_of
from rmqspark.admin.config import AdminConfig
from rmqspark.errors import InvalidArgument

ADMIN, READ = "a" * 16, "b" * 16


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_beyond_loopback_it_takes_a_token_or_a_word(address: str) -> None:
    with pytest.raises(InvalidArgument, match="everybody in"):
        AdminConfig(bind_address=address)
    assert AdminConfig(bind_address=address, insecure=True)
    assert AdminConfig(bind_address=address, admin_token=ADMIN)


@pytest.mark.parametrize(
    "settings",
    [
        {"read_token": READ},
        {"admin_token": ADMIN, "read_token": ADMIN},
        {"admin_token": "short"},
        {"admin_token": "x" * 15 + "\n"},
        {"admin_token": "é" * 16},
        {"base_path": "rmq"},
        {"base_path": "/rmq/"},
        {"base_path": "/a b"},
        {"admin_port": 65_536},
        {"admin_port": -1},
    ],
)
def test_what_makes_no_sense_is_refused_and_no_token_is_shown(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        AdminConfig(**settings)  # type: ignore[arg-type] # wrong on purpose
    for name in ("admin_token", "read_token"):
        assert name not in settings or settings[name] not in str(refused.value)


def test_roles() -> None:
    """Without tokens everybody is admin; with them who has none is nobody; one for all is an admin's."""
    both = AdminConfig(admin_token=ADMIN, read_token=READ)
    assert role_of(AdminConfig(), None) is Role.ADMIN
    assert [role_of(both, token) for token in (ADMIN, READ, "c" * 16, "", None)] == [
        Role.ADMIN,
        Role.READ,
        None,
        None,
        None,
    ]
    assert role_of(AdminConfig(admin_token=ADMIN), ADMIN) is Role.ADMIN
    assert role_of(AdminConfig(admin_token=ADMIN), "") is None


def test_no_token_is_in_what_is_printed() -> None:
    assert ADMIN not in repr(AdminConfig(admin_token=ADMIN, read_token=READ))
    assert READ not in repr(AdminConfig(admin_token=ADMIN, read_token=READ))


def test_hosts_are_names_without_ports() -> None:
    config = AdminConfig(bind_address="10.0.0.1", admin_token=ADMIN, admin_hosts="Queue.example, other ,")
    assert config.hosts == {"127.0.0.1", "localhost", "::1", "10.0.0.1", "queue.example", "other"}
    assert "0.0.0.0" not in AdminConfig(bind_address="0.0.0.0", insecure=True).hosts
