"""What a server is told of authentication: RocketMQ's broker.conf as it is, and what cannot be."""

from __future__ import annotations

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.errors import InvalidArgument, NotThereYet
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.access import OPEN, Access, Credentials
from rmqspark.settings import as_properties, load, parse_file

STOCK = """
authenticationEnabled = true
authenticationProvider = org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider = org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
initAuthenticationUser = {"username":"rocketmq","password":"12345678"}
innerClientAuthenticationCredentials = {"accessKey":"inner","secretKey":"abcd"}
authorizationEnabled = true
authorizationProvider = org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider = org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
authorizationStrategy = org.apache.rocketmq.auth.authorization.strategy.StatelessAuthorizationStrategy
"""
FIRST = '{"username":"root","password":"top-secret"}'


def test_rocketmqs_own_settings_are_taken() -> None:
    """A broker.conf that switches RocketMQ's access control on does so here."""
    config = load(BrokerConfig, file=parse_file(STOCK))
    assert config.authentication_enabled
    assert config.authorization_enabled
    assert [(user.username, user.password, user.is_super) for user in config.first_users] == [
        ("rocketmq", "12345678", True),
        ("inner", "abcd", True),
    ]
    assert config.access == Access(Credentials("inner", "abcd"))


def test_a_table_of_toml_is_taken_too() -> None:
    """As users of TOML write what is JSON in RocketMQ's files."""
    file = parse_file('authentication_enabled = true\ninit_authentication_user = {username = "a", password = "b"}\n')
    assert load(NamesrvConfig, file=file).first_users[0].username == "a"


def test_in_whose_name_servers_speak() -> None:
    """In that of their own credentials, else of the first user; where nobody has to sign, in nobody's."""
    assert BrokerConfig().access == OPEN
    config = BrokerConfig(authentication_enabled=True, init_authentication_user=FIRST)
    assert config.access == Access(Credentials("root", "top-secret"))


@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_secrets_are_shown_as_stars(kind) -> None:
    """To who asks for the settings, and in what is printed of them."""
    config = kind(
        authentication_enabled=True,
        init_authentication_user=FIRST,
        inner_client_authentication_credentials='{"accessKey":"ak","secretKey":"inner-secret"}',
    )
    shown = as_properties(config)
    assert "initAuthenticationUser=***\n" in shown
    assert "innerClientAuthenticationCredentials=***\n" in shown
    assert "initAuthenticationUser=\n" in as_properties(kind())
    for text in (shown, repr(config), repr(config.first_users), repr(config.inner_credentials)):
        assert "secret" not in text.replace("secretKey", "")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"authentication_enabled": True}, InvalidArgument, "without a user to begin with"),
        ({"authorization_enabled": True}, InvalidArgument, "authorizationEnabled without authenticationEnabled"),
        ({"migrate_auth_from_v1_enabled": True}, NotThereYet, "plain_acl.yml"),
        (
            {"authentication_provider": "org.acme.Provider"},
            NotThereYet,
            "authenticationProvider is 'org.acme.Provider'",
        ),
        (
            {"authorization_strategy": "org.apache.rocketmq.auth.authorization.strategy.StatefulAuthorizationStrategy"},
            NotThereYet,
            "authorizationStrategy",
        ),
        ({"authentication_whitelist": "105,PULL"}, InvalidArgument, "authenticationWhitelist is '105,PULL'"),
        ({"authentication_whitelist": "105,3001"}, InvalidArgument, "authenticationWhitelist has 3001"),
        ({"authorization_whitelist": "1-5"}, InvalidArgument, "authorizationWhitelist"),
        ({"authorization_whitelist": "9" * 5000}, InvalidArgument, "authorizationWhitelist"),
        ({"authorization_whitelist": "\u0661\u0660\u0665"}, InvalidArgument, "authorizationWhitelist"),
    ],
)
@pytest.mark.parametrize("kind", [BrokerConfig, NamesrvConfig])
def test_what_cannot_be_is_named(kind, settings, error, words) -> None:
    """With RocketMQ's name of the setting."""
    with pytest.raises(error, match=words):
        kind(**settings)


@pytest.mark.parametrize(
    "given",
    ["hush", '{"username":"a"}', '{"username":"a","password":""}', '["a","hush"]', '{"username":1,"password":"hush"}'],
)
def test_a_user_that_is_none_is_not_repeated(given) -> None:
    """The error says what must stand there, and not what stands there: it may be a password."""
    with pytest.raises(InvalidArgument, match='initAuthenticationUser is not what it must be: {"username":') as caught:
        BrokerConfig(authentication_enabled=True, init_authentication_user=given)
    assert "hush" not in str(caught.value)
