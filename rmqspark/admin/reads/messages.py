"""Messages: by id, by key, and page by page through a topic, from either end."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rmqspark.admin.paging import Page, is_place, make_cursor, of_another_list, read_cursor
from rmqspark.admin.reads.body_search import searched
from rmqspark.admin.schemas.journeys import JourneyView
from rmqspark.admin.schemas.messages import MessageView
from rmqspark.client.administration.admin_messages import in_order, message_by_id
from rmqspark.client.administration.key_walk import KeySearch, key_page
from rmqspark.client.browsing.in_time_order import InTimeOrder
from rmqspark.client.browsing.spans import Span, spans
from rmqspark.client.moments import EARLIEST, LATEST, backwards, begin_and_end, parse_offsets, time_span
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.tracing.journeys import journey_of
from rmqspark.errors import InvalidArgument, InvalidQueue, RequestTimeout
from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.moments import Position
    from rmqspark.model import ReceivedMessage

MOST_BYTES: Final = 8 << 20  # of bodies in one page, or one body
LONGEST_MS: Final = 3_000  # that one page looks for what a filter lets through


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages of a topic: of one queue (`broker-a/3`, or `3` of all brokers), by offset or time, by tags or
    SQL92, by a text in the body, as it is written; the newest first or the oldest. Times and offsets as `rmq consume`
    takes them."""

    topic: str
    queue: str | None = None
    offset: str | None = None
    from_: str | None = None
    to: str | None = None
    tags: str | None = None
    sql: str | None = None
    newest_first: bool = False
    body: str | None = None


def message(client: ClusterClient, msg_id: str, topic: str | None) -> MessageView:
    """By either id. MessageNotFound."""
    return MessageView.of(message_by_id(client, msg_id, topic))


def journey(client: ClusterClient, msg_id: str, topic: str | None) -> JourneyView:
    """The way of a message, by either id. MessageNotFound."""
    return JourneyView.of(journey_of(client, msg_id, topic))


def with_key(
    client: ClusterClient,
    topic: str,
    key: str,
    from_: str | None,
    to: str | None,
    limit: int,
    cursor: str | None = None,
) -> Page[MessageView]:
    """The newest `limit` with this key, oldest first, and page by page those before them, of the time that the first
    page was about. TopicNotFound."""
    span = time_span(from_, to, client.clock.now_ms(), prefix="")
    begin_ms, end_ms, below = _gone_back(cursor) if cursor else (span.start, span.stop - 1, None)
    found = key_page(client, KeySearch(topic, key, begin_ms, end_ms), limit, below, MOST_BYTES)
    more = make_cursor([begin_ms, end_ms, found.older]) if found.older else None
    return Page(items=[MessageView.of(each) for each in in_order(found.messages)], next=more)


def _gone_back(cursor: str) -> tuple[int, int, dict[str, int]]:
    match read_cursor(cursor, list):
        case [begin_ms, end_ms, dict() as below] if all(map(is_place, (begin_ms, end_ms, *below.values()))):
            return begin_ms, end_ms, below
    raise of_another_list()


def page(client: ClusterClient, wanted: Wanted, limit: int, cursor: str | None) -> Page[MessageView]:
    """One page by store time. It may be short, even empty, and yet have a next one: where a filter lets little
    through, or bodies are large."""
    if not wanted.body:
        return _filtered_by_brokers(client, wanted, limit, cursor)
    until_ms = client.clock.monotonic_ms() + LONGEST_MS
    return searched(
        lambda most, at: _filtered_by_brokers(client, wanted, most, at),
        wanted.body.encode("utf-8", "surrogatepass"),
        limit,
        cursor,
        lambda: client.clock.monotonic_ms() < until_ms,
    )


def _filtered_by_brokers(client: ClusterClient, wanted: Wanted, limit: int, cursor: str | None) -> Page[MessageView]:
    tags, sql = wanted.tags or "*", wanted.sql or None
    with PullConsumer(client.namesrv, tags=tags, sql=sql, clock=client.clock, access=client.access) as consumer:
        begin, end = _asked(client, wanted)
        if cursor:  # which says both: what is relative is elsewhere by now
            begin, end = EARLIEST, LATEST
        there = _of_queue(spans(consumer, wanted.topic, begin, end), wanted.queue)
        if cursor:
            there = _gone_on(there, read_cursor(cursor, dict))
        turn = _newest if wanted.newest_first else _oldest
        found, rest = turn(consumer, client, there, limit)
    left = {f"{s.queue.broker_name}/{s.queue.queue_id}": [s.start, s.end] for s in rest if s.start < s.end}
    return Page(items=[MessageView.of(each) for each in found], next=make_cursor(left) if left else None)


def _asked(client: ClusterClient, wanted: Wanted) -> tuple[Position, Position]:
    """Where to begin and to end. InvalidArgument."""
    if wanted.offset and (wanted.from_ or wanted.to):
        raise InvalidArgument("offset says where to begin and end; it excludes from and to.")
    now_ms = client.clock.now_ms()
    if wanted.offset:
        begin, last = parse_offsets(wanted.offset, now_ms=now_ms, option="offset")
        end = last or LATEST
        if end.is_before(begin):
            raise backwards(f"offset {wanted.offset}")
        return begin, end
    return begin_and_end(wanted.from_, wanted.to, now_ms, prefix="")


def _of_queue(there: list[Span], queue: str | None) -> list[Span]:
    if queue is None:
        return there
    broker_name, _, number = queue.rpartition("/")
    chosen = [
        span for span in there if str(span.queue.queue_id) == number and broker_name in ("", span.queue.broker_name)
    ]
    if not chosen:
        names = ", ".join(f"{span.queue.broker_name}/{span.queue.queue_id}" for span in there[:16])
        raise InvalidQueue(f"There is no queue {queue!r}.", hint=f"There are: {names}.")
    return chosen


def _gone_on(there: list[Span], left: dict[str, Any]) -> list[Span]:
    """What a page before has left: its beginning and its end stay where they were, whatever has come since."""
    gone_on = []
    for span in there:
        match left.get(f"{span.queue.broker_name}/{span.queue.queue_id}", [0, 0]):
            case [start, end] if is_place(start) and is_place(end):
                gone_on.append(Span(span.queue, max(span.start, start), min(span.end, end)))
            case _:
                raise of_another_list()
    return gone_on


def _oldest(
    consumer: PullConsumer, client: ClusterClient, there: list[Span], limit: int
) -> tuple[list[ReceivedMessage], list[Span]]:
    """The first messages, and what lies behind them."""
    order = InTimeOrder(consumer, there, until_ms=client.clock.monotonic_ms() + LONGEST_MS, clock=client.clock)
    found: list[ReceivedMessage] = []
    size_bytes = 0
    for each in order:
        found.append(each)
        size_bytes += len(each.body)
        if len(found) >= limit or size_bytes >= MOST_BYTES:
            break
    positions = order.positions()
    return found, [Span(span.queue, positions[span.queue], span.end) for span in there]


def _newest(
    consumer: PullConsumer, client: ClusterClient, there: list[Span], limit: int
) -> tuple[list[ReceivedMessage], list[Span]]:
    """The last messages, the newest first, and what lies before them. Of each queue as many are looked at as are to
    be shown: those of them that are not go to the next page."""
    tails = [Span(span.queue, max(span.start, span.end - limit), span.end) for span in there]
    order = InTimeOrder(consumer, tails, until_ms=client.clock.monotonic_ms() + LONGEST_MS, clock=client.clock)
    looked_at: Counter[MessageQueue] = Counter()
    found: deque[ReceivedMessage] = deque()
    size_bytes = 0
    for each in order:
        looked_at[each.queue] += 1
        found.append(each)
        size_bytes += len(each.body)
        while len(found) > limit or (size_bytes > MOST_BYTES and len(found) > 1):
            size_bytes -= len(found.popleft().body)
    if order.is_broken_off:
        raise RequestTimeout(
            "The newest messages are too large, or too many, to be looked through in a moment.",
            hint="Ask for fewer with limit, for one queue, or for a shorter time with from.",
        )
    return list(reversed(found)), _before(there, tails, looked_at, found)


def _before(
    there: list[Span], tails: list[Span], looked_at: Counter[MessageQueue], shown: Iterable[ReceivedMessage]
) -> list[Span]:
    """What the next page is about: of each queue what lies before the first that was shown, or looked at."""
    firsts = {each.queue: each.queue_offset for each in reversed(list(shown))}
    unshown = looked_at - Counter(each.queue for each in shown)
    return [
        Span(span.queue, span.start, firsts.get(span.queue, span.end) if unshown[span.queue] else tail.start)
        for span, tail in zip(there, tails, strict=True)
    ]
