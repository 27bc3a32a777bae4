"""The APIs of the SCRAM users (KIP-554): DescribeUserScramCredentials (key 50), AlterUserScramCredentials (51).

They work as Kafka's do whether anyone logs in by SCRAM or not. Which rights they ask for is not looked at here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from coordinator.data.broker import Broker, ClientRequest
from coordinator.security.scram_credentials import (
    BY_NUMBER,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramMechanism,
)
from coordinator.security.scram_users import (
    MOST_CREDENTIALS,
    MOST_NAME_BYTES,
    MOST_SALT_BYTES,
    Change,
    Deletion,
    ScramUsers,
    Upsertion,
)
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

Asked: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def describe(broker: Broker, request: DescribeUserScramCredentialsRequest, pending: ClientRequest) -> None:
    """DescribeUserScramCredentials (key 50): mechanisms and iterations; never a salt or a key (S41).

    Errors per user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE (named twice).
    """
    users = broker.scram_users
    named = Counter(user.name for user in request.users or ()) or dict.fromkeys(users.users, 1)
    results = [_description(users, name, times) for name, times in named.items()]
    pending.reply(DescribeUserScramCredentialsResponse(error_message="", results=results))


def _description(users: ScramUsers, name: str, times_named: int) -> DescribeUserScramCredentialsResult:
    if times_named > 1:
        words = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return _undescribed(name, ErrorCode.DUPLICATE_RESOURCE, words)
    infos = [
        CredentialInfo(mechanism=mechanism.number, iterations=credential.iterations)
        for mechanism, credential in users.credentials(name).items()
    ]
    if not infos:
        words = f"Attempt to describe a user credential that does not exist: {name}"
        return _undescribed(name, ErrorCode.RESOURCE_NOT_FOUND, words)
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


def _undescribed(name: str, error: ErrorCode, words: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=words)


def alter(broker: Broker, request: AlterUserScramCredentialsRequest, pending: ClientRequest) -> None:
    """AlterUserScramCredentials (key 51): what is good of a request is done at once, the rest refused (S42).

    Errors per user: DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND,
    UNKNOWN_SERVER_ERROR (an empty salted password), KAFKA_STORAGE_ERROR; POLICY_VIOLATION: a bound of Muster's.
    """
    alteration = _Alteration(broker.scram_users, request)
    broker.scram_users.alter(alteration.plan, lambda error: pending.reply(alteration.response(error)))


class _Alteration:
    """One request: first what of it can be done, then the answer."""

    def __init__(self, users: ScramUsers, request: AlterUserScramCredentialsRequest) -> None:
        self._users = users
        self._request = request
        self._accepted: dict[str, Change] = {}
        self._refused: dict[str, Refused] = {}

    def plan(self) -> list[Change]:
        """Check the request against the users as they are, in Kafka's order; return what can be done."""
        request, self._request = self._request, AlterUserScramCredentialsRequest()
        all_asked: list[Asked] = [*request.deletions, *request.upsertions]
        for asked in all_asked:
            if asked.name not in self._refused:
                self._consider(asked)
        self._keep_what_has_room()
        return list(self._accepted.values())

    def _consider(self, asked: Asked) -> None:
        """Take one change in, or refuse it, and with it another one of the same user."""
        try:
            if self._accepted.pop(asked.name, None) is not None:
                words = "A user credential cannot be altered twice in the same request"
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, words)
            self._accepted[asked.name] = _change(self._users, asked)
        except Refused as refused:
            self._refused[asked.name] = refused

    def _keep_what_has_room(self) -> None:
        """Refuse the credentials that would be more than are kept."""
        count = self._users.credential_count
        for name, change in tuple(self._accepted.items()):
            is_there = change.mechanism in self._users.credentials(name)
            if isinstance(change, Deletion):
                count -= 1
            elif is_there:
                continue
            elif count < MOST_CREDENTIALS:
                count += 1
            else:
                del self._accepted[name]
                words = f"There are {MOST_CREDENTIALS} SCRAM credentials already, the most that are kept."
                self._refused[name] = Refused(ErrorCode.POLICY_VIOLATION, words)

    def response(self, error: ErrorCode) -> AlterUserScramCredentialsResponse:
        """Return the answer; `error` is that of the disk."""
        results = [
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=None)
            for name in self._accepted
        ]
        results += [
            AlterUserScramCredentialsResult(user=name, error_code=each.error, error_message=each.message)
            for name, each in self._refused.items()
        ]
        return AlterUserScramCredentialsResponse(results=results)


def _change(users: ScramUsers, asked: Asked) -> Change:
    """Return the change that is asked for. Raises Refused, by what Kafka looks at first."""
    if not asked.name:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = BY_NUMBER.get(asked.mechanism)
    if mechanism is None:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(asked, ScramCredentialUpsertion):
        return _upsertion(asked, mechanism)
    if mechanism not in users.credentials(asked.name):
        words = "Attempt to delete a user credential that does not exist"
        raise Refused(ErrorCode.RESOURCE_NOT_FOUND, words)
    return Deletion(asked.name, mechanism)


def _upsertion(asked: ScramCredentialUpsertion, mechanism: ScramMechanism) -> Upsertion:
    if asked.iterations < LEAST_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > MOST_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not asked.salted_password:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # Of which no key can be made, in Java.
    if len(asked.name.encode()) > MOST_NAME_BYTES:
        words = f"The name of a SCRAM user has at most {MOST_NAME_BYTES} bytes."
        raise Refused(ErrorCode.POLICY_VIOLATION, words)
    if len(asked.salt) > MOST_SALT_BYTES:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"A salt has at most {MOST_SALT_BYTES} bytes.")
    return Upsertion(asked.name, mechanism, asked.salted_password, asked.salt, asked.iterations)


HANDLERS: Final[dict[int, Callable[[Broker, Any, ClientRequest], None]]] = {50: describe, 51: alter}
"""The handlers of this module by API key."""
