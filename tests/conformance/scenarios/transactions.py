"""The transaction coordinator: InitProducerId with a transactional id, AddPartitionsToTxn, AddOffsetsToTxn,
EndTxn, Describe- and ListTransactions, FindCoordinator, in both transaction protocols
(KIP-98, 360, 588, 664, 890).
"""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.producers import (
    ADD,
    ADD_OFFSETS,
    BATCHED_ADD,
    BUMPING_SINCE,
    CLASSIC_ADD,
    CLASSIC_END,
    CONCURRENT,
    END,
    FENCED,
    INIT,
    LIST_TRANSACTIONS,
    RESUMING,
    UNMAPPED,
    WRONG_STATE,
    Producer,
    fenced,
)
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run

INVALID: Final = ErrorCode.INVALID_REQUEST
STATES: Final = ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
OUTCOMES: Final = tuple(f"{state}/{word}" for state in STATES for word in ("commit", "abort"))
LONGEST_TIMEOUT_MS: Final = 900_000


async def ask(run: Run, request: Any, version: int, note: str = "") -> Any:
    return await run.answer(await run.send("admin", request, version, note))


# InitProducerId


@scenario("transactions InitProducerId: first, again", versions=INIT)
async def a_producer_begins_and_begins_again(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init(version)
    run.expect(producer.producer_epoch == 0, "the first epoch is 0")
    await producer.described("Empty")
    await producer.init(version, note="again")
    run.expect(producer.producer_epoch == 1, "the second is 1")
    await producer.init(version, note="another timeout", transaction_timeout_ms=1_000)
    await producer.described("Empty")


@scenario("transactions InitProducerId: refused", versions=INIT)
async def init_that_is_refused(run: Run, version: int) -> None:
    producer, wrong = Producer(run), ErrorCode.INVALID_TRANSACTION_TIMEOUT
    await producer.init(version, INVALID, "empty id", transactional_id="")
    for timeout_ms in (0, -1, LONGEST_TIMEOUT_MS + 1, 2**31 - 1):
        await producer.init(version, wrong, f"timeout {timeout_ms}", transaction_timeout_ms=timeout_ms)
    await producer.init(version, note="longest timeout", transaction_timeout_ms=LONGEST_TIMEOUT_MS)
    if version in RESUMING:
        await producer.init(version, INVALID, "id without epoch", producer_id=producer.producer_id)
        await producer.init(version, INVALID, "epoch without id", producer_epoch=0)
        await producer.init(
            version, INVALID, "empty id, wrong pair", transactional_id="", producer_id=producer.producer_id
        )
    await producer.described("Empty")


@scenario("transactions InitProducerId: resumed", versions=RESUMING)
async def a_producer_resumes(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init(version)
    before = producer.twin()
    await producer.resume(version, note="current epoch")
    run.expect(producer.producer_epoch == 1, "raised by one")
    await before.resume(version, note="repeated")
    run.expect(before.producer_epoch == 1, "a repeated request is answered the same")
    await producer.resume(version)
    await producer.resume(version, fenced(version, 4), "old epoch", producer_epoch=0)
    await producer.resume(version, fenced(version, 4), "future epoch", producer_epoch=77)
    await producer.resume(version, fenced(version, 4), "another's id", producer_id=10**12)
    await producer.resume(version, fenced(version, 4), "last epoch of another", producer_epoch=32766)
    await producer.init(version, note="another client")
    await producer.resume(version, fenced(version, 4), "epoch before another client", producer_epoch=2)


@scenario("transactions InitProducerId: resumed", versions=RESUMING)
async def resuming_what_is_not_known_is_beginning(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init(version, producer_id=10**12, producer_epoch=7)
    run.expect(producer.producer_epoch == 0, "the first epoch is 0")


@scenario("transactions InitProducerId: a transaction is under way", versions=INIT)
async def an_init_ends_what_was_under_way(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.bring_to("Ongoing")
    old = producer.twin()
    await producer.init(version, CONCURRENT)
    await producer.described("CompleteAbort")
    await producer.init(version, note="again")
    run.expect(producer.producer_epoch == old.producer_epoch + 2, "raised to fence, and raised to begin")
    await old.add(3, FENCED)
    await old.add(1, ErrorCode.INVALID_PRODUCER_EPOCH)
    await old.end(True, 4, FENCED)
    await old.end(True, 5, FENCED)


@scenario("transactions InitProducerId: a transaction is under way", versions=RESUMING)
async def a_producer_resumes_in_the_middle(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.bring_to("Ongoing", BUMPING_SINCE)
    await producer.resume(version, CONCURRENT)
    await producer.described("CompleteAbort")
    await producer.resume(version, note="after the abort")
    await producer.described("Empty")


@scenario("transactions InitProducerId: after a transaction", versions=INIT, choices=("4", "5"))
async def a_producer_begins_after_a_transaction(run: Run, version: int, end: str) -> None:
    producer = Producer(run)
    await producer.bring_to("CompleteCommit", int(end))
    if version in RESUMING:
        await producer.resume(version)
        await producer.resume(version, note="last epoch", producer_epoch=producer.producer_epoch - 1)
    await producer.init(version)
    await producer.described("Empty")


# AddPartitionsToTxn


@scenario("transactions AddPartitionsToTxn: begins, goes on", versions=ADD)
async def partitions_are_added(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init()
    await producer.add(version)
    await producer.described("Ongoing")
    await producer.add(version, note="the same")
    await producer.add(version, topics={TOPIC: [2], OTHER_TOPIC: [0, 1]})
    await producer.add(version, note="none", topics={})
    await producer.add(version, note="a topic without partitions", topics={TOPIC: []})
    await producer.described("Ongoing")
    await producer.end(True)
    await producer.described("CompleteCommit")
    await producer.add(version, note="the next transaction")
    await producer.described("Ongoing")


@scenario("transactions AddPartitionsToTxn: begins, goes on", versions=ADD)
async def no_partitions_begin_a_transaction(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init()
    await producer.add(version, topics={})
    await producer.described("Ongoing")
    await producer.end(False)
    await producer.described("CompleteAbort")


@scenario("transactions AddPartitionsToTxn: refused", versions=ADD)
async def adding_that_is_refused(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.add(version, UNMAPPED, "an unknown producer", producer_id=10**12, producer_epoch=0)
    await producer.init()
    await producer.add(version, INVALID, "empty id", transactional_id="")
    await producer.add(version, UNMAPPED, "another's id", producer_id=10**12)
    for epoch in (-1, 1):
        await producer.add(version, fenced(version, 2), f"epoch {epoch}", producer_epoch=epoch)
    await producer.described("Empty")


@scenario("transactions AddPartitionsToTxn: unknown partitions", versions=ADD)
async def one_that_cannot_be_added_keeps_all_from_it(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init()
    for note, topics in {
        "no such topic": {TOPIC: [0], "nowhere": [0, 1]},
        "no such partition": {TOPIC: [0, 99], OTHER_TOPIC: [1]},
        "negative": {TOPIC: [-1]},
    }.items():
        one = producer.transaction(topics)
        request = AddPartitionsToTxnRequest(transactions=[one])
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=one.transactional_id,
                v3_and_below_producer_id=one.producer_id,
                v3_and_below_producer_epoch=one.producer_epoch,
                v3_and_below_topics=one.topics,
            )
        await ask(run, request, version, note)
    await producer.described("Empty")


@scenario("transactions AddPartitionsToTxn: internal topics", versions=CLASSIC_ADD)
async def clients_do_not_add_internal_topics(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init()
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic in ("__consumer_offsets", "__transaction_state"):
        await producer.add(version, refused, topic, topics={topic: [0]})
    await producer.described("Empty")


@scenario("transactions AddPartitionsToTxn: internal topics", versions=BATCHED_ADD)
async def brokers_add_the_offsets_topic(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init()
    await producer.add(version, topics={"__consumer_offsets": [0]})
    await producer.described("Ongoing")


@scenario("transactions AddPartitionsToTxn: several, and verification", versions=BATCHED_ADD)
async def several_transactions_at_once(run: Run, version: int) -> None:
    one, two, three = (Producer(run, name) for name in ("one", "two", "three"))
    for producer in (one, two, three):
        await producer.init()
    await one.add(version)
    transactions = [
        one.transaction({TOPIC: [0, 2]}, verify_only=True),
        two.transaction({TOPIC: [0], OTHER_TOPIC: [2]}),
        three.transaction({TOPIC: [0]}, producer_epoch=5),
        Producer(run, "four").transaction({TOPIC: [1]}, producer_id=10**12, producer_epoch=0),
    ]
    await ask(run, AddPartitionsToTxnRequest(transactions=transactions), version)
    for producer, state in ((one, "Ongoing"), (two, "Ongoing"), (three, "Empty")):
        await producer.described(state)


@scenario("transactions AddPartitionsToTxn: several, and verification", versions=BATCHED_ADD)
async def verification_changes_nothing(run: Run, version: int) -> None:
    producer = Producer(run)
    unverified = ErrorCode.TRANSACTION_ABORTABLE
    await producer.init()
    await producer.add(version, unverified, "none is under way", verify_only=True)
    await producer.described("Empty")
    await producer.add(version)
    await producer.add(version, 0, "part of it", verify_only=True)
    await producer.add(version, unverified, "another", verify_only=True, topics={OTHER_TOPIC: [0]})
    await producer.add(version, INVALID, "empty id", verify_only=True, transactional_id="")
    await producer.add(version, UNMAPPED, "another's id", verify_only=True, producer_id=10**12)
    await producer.add(version, FENCED, "another epoch", verify_only=True, producer_epoch=9)
    await producer.end(True)
    await producer.described("CompleteCommit")
    await producer.add(version, unverified, "it has ended", verify_only=True)


# AddOffsetsToTxn


@scenario("transactions AddOffsetsToTxn: added, refused", versions=ADD_OFFSETS)
async def offsets_are_added(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.add_offsets(version, UNMAPPED, "an unknown producer", producer_id=10**12, producer_epoch=0)
    await producer.init()
    await producer.add_offsets(version, INVALID, "empty id", transactional_id="")
    await producer.add_offsets(version, UNMAPPED, "another's id", producer_id=10**12)
    await producer.add_offsets(version, fenced(version, 2), "another epoch", producer_epoch=3)
    await producer.described("Empty")
    await producer.add_offsets(version)
    await producer.add_offsets(version, note="the same")
    await producer.add_offsets(version, note="empty group", group_id="")
    await producer.described("Ongoing")


# EndTxn


@scenario("transactions EndTxn: every state", versions=CLASSIC_END, choices=OUTCOMES)
async def a_classic_producer_ends_its_transaction(run: Run, version: int, outcome: str) -> None:
    state, _, word = outcome.partition("/")
    producer, commits = Producer(run), word == "commit"
    await producer.bring_to(state, version)
    after = f"Complete{word.title()}"
    right = state == "Ongoing" or state == after
    await producer.end(commits, version, 0 if right else WRONG_STATE)
    await producer.described(after if right else state)
    await producer.end(commits, version, 0 if right else WRONG_STATE, "repeated")
    run.expect(producer.producer_epoch == 0, "a classic producer keeps its epoch")


@scenario("transactions EndTxn: every state", versions=range(5, 6), choices=OUTCOMES)
async def a_producer_of_v2_ends_its_transaction(run: Run, version: int, outcome: str) -> None:
    """EndTxn has the present epoch, which is of the next transaction, and again the one before."""
    state, _, word = outcome.partition("/")
    producer, commits = Producer(run), word == "commit"
    await producer.bring_to(state, version)
    old = producer.twin()
    right = state == "Ongoing" or not commits
    await producer.end(commits, version, 0 if right else WRONG_STATE)
    await producer.described(f"Complete{word.title()}" if right else state)
    if right:
        run.expect(producer.producer_epoch == old.producer_epoch + 1, "raised by one")
        await old.end(commits, version, note="repeated")
        run.expect(old == producer, "a repeated request is answered the same")


@scenario("transactions EndTxn: repeated", versions=range(5, 6), choices=OUTCOMES)
async def a_producer_of_v2_repeats_itself(run: Run, version: int, outcome: str) -> None:
    """EndTxn has the epoch before the present one, from every state."""
    state, _, word = outcome.partition("/")
    producer, commits = Producer(run), word == "commit"
    await producer.bring_to(state, version)
    epoch = producer.producer_epoch - 1
    is_known = state == f"Complete{word.title()}"
    is_over = state.startswith("Complete")
    error = 0 if is_known else WRONG_STATE if is_over else FENCED
    await producer.end(commits, version, error, producer_epoch=epoch)
    await producer.described(state)


@scenario("transactions EndTxn: refused", versions=END)
async def ending_that_is_refused(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.end(True, version, UNMAPPED, "an unknown producer", producer_id=10**12, producer_epoch=0)
    await producer.bring_to("Ongoing")
    await producer.end(True, version, INVALID, "empty id", transactional_id="")
    await producer.end(True, version, UNMAPPED, "another's id", producer_id=10**12)
    for epoch in (-1, 1, 2, 32766):
        await producer.end(True, version, fenced(version, 2), f"epoch {epoch}", producer_epoch=epoch)
    await producer.described("Ongoing")


@scenario("transactions EndTxn: every state", versions=END, choices=("3", "5"))
async def protocols_may_change_from_request_to_request(run: Run, version: int, add: str) -> None:
    producer = Producer(run)
    await producer.init()
    for commits in (True, False, True):
        await producer.add(int(add))
        await producer.add_offsets()
        await producer.end(commits, version)
        await producer.described("CompleteCommit" if commits else "CompleteAbort")


# Describe, list, find


@scenario("transactions DescribeTransactions")
async def transactions_are_described(run: Run) -> None:
    producers = [Producer(run, state) for state in STATES]
    for producer in producers:
        await producer.bring_to(producer.name)
    names = [producer.transactional_id for producer in producers]
    await ask(run, DescribeTransactionsRequest(transactional_ids=[*names, "unknown", "", names[0]]), 0)
    await ask(run, DescribeTransactionsRequest(transactional_ids=[]), 0, "none")


async def listed(run: Run, version: int, note: str, **filters: Any) -> list[str]:
    """The states of this run's transactional ids as ListTransactions shows them; the broker has many others."""
    asked = await run.send("admin", ListTransactionsRequest(**filters), version, note)
    reply: ListTransactionsResponse = await asked.reply
    own = [each for each in reply.transaction_states if each.transactional_id.startswith(f"{run.name}/")]
    reply.transaction_states = own
    run.saw(asked.what, reply)
    return sorted(each.transaction_state for each in own)


@scenario("transactions ListTransactions: filters", versions=LIST_TRANSACTIONS)
async def transactions_are_listed(run: Run, version: int) -> None:
    producers = {state: Producer(run, state) for state in STATES}
    for state, producer in producers.items():
        await producer.bring_to(state)
    run.expect(await listed(run, version, "all") == sorted(STATES), "all of them")
    ongoing = producers["Ongoing"].producer_id
    for note, states in {
        "one state": ["Ongoing"],
        "two": ["Empty", "CompleteAbort"],
        "unknown": ["ongoing", "", "Nonsense", "Nonsense"],
        "unknown and right": ["Empty", "Nonsense"],
        "never seen": ["Dead", "PrepareEpochFence", "PrepareCommit", "PrepareAbort"],
    }.items():
        await listed(run, version, note, state_filters=states)
    await listed(run, version, "a producer", producer_id_filters=[ongoing])
    await listed(run, version, "an unknown producer", producer_id_filters=[10**12, -1])
    await listed(run, version, "both", producer_id_filters=[ongoing], state_filters=["Empty"])
    for duration_ms in (-5, 0, 3_600_000) if version >= 1 else ():
        states = await listed(run, version, f"longer than {duration_ms}", duration_filter=duration_ms)
        run.expect(bool(states), f"those without a start have lasted for ever: {states}")


PATTERNS: Final = (
    *(".*", ".*/Ongoing", ".*/(Ongoing|Empty)", "Ongoing", "", ".*/[A-E].*", ".*/[^C].*", "(?i).*/ONGOING"),
    *(r".*/\w+", r".*/\W+", r".*\d.*", r".*/Complete.{5,6}", ".*/O?ngoing", ".*?/Empty", "^.*/Empty$"),
    *(r"\A.*y\z", ".*/E(?:mp)ty", "(?P<run>.*)/Empty", ".*/Em{1}pty", ".*/Empty{0}", "(|x).*/Empty", ".*{"),
)
WRONG_PATTERNS: Final = (
    "(",
    "[",
    "*",
    "a**",
    "a{3,2}",
    "a{1001}",
    ")",
    "\\",
    "[b-a]",
    "(?<",
    "a{2}{3}",
    "x++",
)


@scenario("transactions ListTransactions: patterns", versions=range(2, 3), choices=PATTERNS)
async def transactions_are_listed_by_pattern(run: Run, version: int, pattern: str) -> None:
    for state in ("Empty", "Ongoing", "CompleteCommit"):
        await Producer(run, state).bring_to(state)
    await listed(run, version, pattern, transactional_id_pattern=pattern)


@scenario("transactions ListTransactions: patterns", versions=range(2, 3), choices=WRONG_PATTERNS)
async def a_wrong_pattern_is_refused(run: Run, version: int, pattern: str) -> None:
    reply = await ask(run, ListTransactionsRequest(transactional_id_pattern=pattern), version, pattern)
    wrong = ErrorCode.INVALID_REGULAR_EXPRESSION
    run.expect(reply.error_code == wrong, f"{pattern}: {reply.error_code}")


@scenario("transactions FindCoordinator", versions=range(1, 7))
async def the_coordinator_is_found(run: Run, version: int) -> None:
    for note, name in {"any": run.name, "empty": "", "odd": "\u00e9\u4e16/\U0001f600 "}.items():
        keys: dict[str, Any] = {"coordinator_keys": [name]} if version >= 4 else {"key": name}
        request = FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, **keys)
        await ask(run, request, version, note)


@scenario("transactions ApiVersions: the feature", versions=(3, 4))
async def the_feature_is_announced(run: Run, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    reply = await (await run.send("admin", request, version)).reply
    for features in (reply.supported_features, reply.finalized_features):
        run.saw("the feature", [each for each in features if each.name == "transaction.version"])
    run.expect(reply.finalized_features_epoch >= 0, "finalized features are known")


# Time, and a restart


@scenario("transactions time: a timeout aborts", versions=END)
async def a_producer_that_takes_too_long_is_fenced(run: Run, version: int) -> None:
    producer = Producer(run)
    await producer.init(transaction_timeout_ms=100)
    await producer.add(5 if version >= BUMPING_SINCE else 3)
    old = producer.twin()
    await producer.described("CompleteAbort")
    await old.add(3, FENCED)
    error = fenced(version, 2)
    await old.end(True, version, WRONG_STATE if version >= BUMPING_SINCE else error)
    await old.end(False, version, 0 if version >= BUMPING_SINCE else error)
    await producer.init()
    await producer.described("Empty")


@scenario("transactions time: an id expires", on="small", choices=STATES)
async def a_transactional_id_expires(run: Run, state: str) -> None:
    producer = Producer(run)
    await producer.bring_to(state)
    if state == "Ongoing":
        await producer.end(True)
    await producer.described("")
    await producer.add(3, UNMAPPED)
    await producer.end(False, 5, UNMAPPED)
    await producer.resume(5, note="is beginning again")
    run.expect(producer.producer_epoch == 0, "the first epoch is 0")


@scenario("transactions restart: every state", choices=STATES, on="restarted", restarts=BOTH)
async def transactions_survive_a_restart(run: Run, state: str) -> None:
    producer = Producer(run)
    await producer.bring_to(state, BUMPING_SINCE)
    await run.restarted()
    await producer.described(state)
    if state == "Ongoing":
        await producer.add(5, topics={OTHER_TOPIC: [0]})
        await producer.end(True, 5)
        await producer.described("CompleteCommit")
    elif state == "CompleteCommit":
        epoch = producer.producer_epoch
        await producer.end(True, 5, 0, "repeated", producer_epoch=epoch - 1)
    elif state == "Empty":
        await producer.resume(5)
    await producer.init(5)
