"""AUTH_CREATE_USER to AUTH_LIST_ACL (3001 to 3010): who there is and what they may do.

RocketMQ's AdminBrokerProcessor, with its codes and remarks. Our name servers answer them, too: each has users of its
own. One thing differs on purpose: no answer has a password in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmqspark.auth.forms import acl_info, acl_of, user_info
from rmqspark.auth.resources import PolicyType, Resource, word_in
from rmqspark.auth.users import UserType
from rmqspark.errors import InvalidArgument, NoPermission, ServerFault
from rmqspark.protocol.bodies.access_control import AclInfo, UserInfo, encode_list
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.access_control import (
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserRequestHeader,
)
from rmqspark.protocol.signature import ACCESS_KEY
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.auth.accounts import Accounts
    from rmqspark.auth.policies import Acl
    from rmqspark.remoting.request import Request


CODES: Final = tuple(code for code in RequestCode if RequestCode.AUTH_CREATE_USER <= code <= RequestCode.AUTH_LIST_ACL)


class WithoutUsers:
    """Answers all of them where nobody has to sign."""

    def routes(self) -> Routes:
        return dict.fromkeys((*CODES, RequestCode.RMQ_ACCOUNTS), Route(None, self.refuse))

    def refuse(self, request: Request[Any]) -> Reply:
        del request
        raise NoPermission(
            "This broker has no users, for nobody has to sign.", hint="Start it with authenticationEnabled=true."
        )


class UserHandlers:
    """Only super users make, change and delete super users."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def routes(self) -> Routes:
        return {
            RequestCode.AUTH_CREATE_USER: Route(UserRequestHeader, self.create),
            RequestCode.AUTH_UPDATE_USER: Route(UserRequestHeader, self.update),
            RequestCode.AUTH_DELETE_USER: Route(UserRequestHeader, self.delete),
            RequestCode.AUTH_GET_USER: Route(UserRequestHeader, self.get),
            RequestCode.AUTH_LIST_USER: Route(ListUsersRequestHeader, self.list),
        }

    async def create(self, request: Request[UserRequestHeader]) -> Reply:
        info = self._wanted(request, "create")
        await self._accounts.create_user(info)
        return Reply()

    async def update(self, request: Request[UserRequestHeader]) -> Reply:
        info = self._wanted(request, "update")
        await self._accounts.update_user(info, by_super=self._by_super(request))
        return Reply()

    async def delete(self, request: Request[UserRequestHeader]) -> Reply:
        """One that there is not is gone already."""
        username = request.header.username or ""
        if not username.strip():
            raise NoPermission("username can not be blank")
        await self._accounts.delete_user(username, by_super=self._by_super(request))
        return Reply()

    def get(self, request: Request[UserRequestHeader]) -> Reply:
        user = self._accounts.user(_named(request.header))
        return Reply() if user is None else Reply(body=user_info(user).encode())

    def list(self, request: Request[ListUsersRequestHeader]) -> Reply:
        wanted = request.header.filter or ""
        return Reply(body=encode_list([user_info(user) for user in self._accounts.users() if wanted in user.username]))

    def _wanted(self, request: Request[UserRequestHeader], deed: str) -> UserInfo:
        username = _named(request.header)
        info = UserInfo.decode_request(request.body)
        info.username = username
        if word_in(UserType, info.userType) is UserType.SUPER and not self._by_super(request):
            raise ServerFault(f"The super user can only be {deed} by super user")
        return info

    def _by_super(self, request: Request[Any]) -> bool:
        user = self._accounts.user(request.fields.get(ACCESS_KEY, ""))
        return user is not None and user.is_super


def _named(header: UserRequestHeader) -> str:
    if not (header.username or "").strip():
        raise InvalidArgument("The username is blank")
    return header.username or ""


class AclHandlers:
    """To create and to update are the same, as in RocketMQ: what is said of a resource takes the place of what was."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def routes(self) -> Routes:
        return {
            RequestCode.AUTH_CREATE_ACL: Route(AclRequestHeader, self.put),
            RequestCode.AUTH_UPDATE_ACL: Route(AclRequestHeader, self.put),
            RequestCode.AUTH_DELETE_ACL: Route(DeleteAclRequestHeader, self.delete),
            RequestCode.AUTH_GET_ACL: Route(AclRequestHeader, self.get),
            RequestCode.AUTH_LIST_ACL: Route(ListAclsRequestHeader, self.list),
        }

    async def put(self, request: Request[AclRequestHeader]) -> Reply:
        subject, acl = _said(request)
        await self._accounts.put_acl(subject, acl)
        return Reply()

    async def delete(self, request: Request[DeleteAclRequestHeader]) -> Reply:
        """A resource that is none means all of them, as in RocketMQ; so what is written must be one."""
        header = request.header
        resource = Resource.parse(header.resource)
        if resource is None and (header.resource or "").strip():
            raise InvalidArgument(f"{header.resource!r} is no resource.", hint="It is written Topic:orders or Group:*.")
        kind = word_in(PolicyType, header.policyType) or PolicyType.CUSTOM
        await self._accounts.delete_acl(header.subject, kind, resource)
        return Reply()

    def get(self, request: Request[AclRequestHeader]) -> Reply:
        username = self._accounts.existing(request.header.subject)
        info = acl_info(username, self._accounts.rights_of(username))
        return Reply() if info is None else Reply(body=info.encode())

    def list(self, request: Request[ListAclsRequestHeader]) -> Reply:
        subject, resource = request.header.subjectFilter or "", request.header.resourceFilter or ""
        infos = [acl_info(username, acl, resource) for username, acl in self._accounts.acls()]
        return Reply(body=encode_list([info for info in infos if info is not None and subject in (info.subject or "")]))


def _said(request: Request[AclRequestHeader]) -> tuple[str | None, Acl]:
    """Whom it is about, in the body or else in the header, and what is said."""
    info = AclInfo.decode_request(request.body)
    if not info.policies:
        raise NoPermission("The body of acl is null")
    return info.subject or request.header.subject, acl_of(info)
