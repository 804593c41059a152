"""Headers of requests about users and what they may do (RocketMQ's ACL 2.0)."""

from __future__ import annotations

from rmqspark.protocol.headers.types import Header


class UserRequestHeader(Header):
    """AUTH_CREATE_USER, AUTH_UPDATE_USER, AUTH_DELETE_USER and AUTH_GET_USER."""

    username: str | None = None


class ListUsersRequestHeader(Header):
    """AUTH_LIST_USER: the users whose name has `filter` in it."""

    filter: str | None = None


class AclRequestHeader(Header):
    """AUTH_CREATE_ACL, AUTH_UPDATE_ACL and AUTH_GET_ACL. `subject` is `User:name`."""

    subject: str | None = None


class DeleteAclRequestHeader(Header):
    """AUTH_DELETE_ACL: what the subject may of this resource; without one, all that it may."""

    subject: str | None = None
    policyType: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(Header):
    """AUTH_LIST_ACL: by what is in their subject and in their resources."""

    subjectFilter: str | None = None
    resourceFilter: str | None = None


class AccountsRequestHeader(Header):
    """RMQ_ACCOUNTS; first with the slave's random bytes as `nonce`, then with its `proof`, both in hexadecimal."""

    nonce: str | None = None
    proof: str | None = None


class AccountsResponseHeader(Header):
    """Answers RMQ_ACCOUNTS: first the master's `nonce`, then its `proof` with an AccountTable."""

    nonce: str | None = None
    proof: str | None = None
