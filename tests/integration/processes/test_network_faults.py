"""A network that fails at any byte: what was acknowledged is there once, and every try at most once."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import RmqError
from rmqspark.remoting.address import parse_address
from rmqspark.testing.history import History, content_to_send, outcome_of
from rmqspark.testing.history_checker import Checker

from .load import QUEUES, TOPIC
from .messages import messages
from .proxy import Fault, Kind, Proxy
from .readers import scan
from .servers import BROKER, UpProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.model import Message, SendReceipt

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="the proxy needs a second loopback address"),
]
FAULTS, FAULTS_OF_A_SOAK = 25, 500
_BESIDE = "127.0.0.2"  # where clients believe the broker to be
_MOST_AFTER = 1_500  # bytes: some requests or answers, and a part of one
_MOST_AT_ONCE = 4
_MOST_TRIES = 3
_MOST_ROUNDS = 200  # a fault strikes within a few
_IMPATIENT = SendConfig(retry_times_when_send_failed=0, send_msg_timeout=300)


class Letter:
    """A message or a batch, and what became of the tries to send it."""

    def __init__(self, history: History, contents: list[Message]) -> None:
        self.contents = contents
        self.number = history.sending("writer", list(map(content_to_send, contents)))
        self.tries = self.unknown_tries = 0


class Writer:
    """Sends singles, side by side, and batches; what nobody heard of it tries again, as an application would."""

    def __init__(self, history: History, producer: Producer, rng: Random) -> None:
        self.receipts: list[SendReceipt] = []
        self.outcomes: Counter[str] = Counter()
        self._history = history
        self._producer = producer
        self._rng = rng
        self._source = messages(TOPIC, "letter", rng)
        self._open: list[Letter] = []

    def round(self) -> None:
        """Some new ones and those that are left, each with one try."""
        sizes = [1] * self._rng.randint(1, _MOST_AT_ONCE) + [self._rng.randint(2, 9)] * self._rng.randint(0, 1)
        new = [Letter(self._history, [next(self._source) for _ in range(size)]) for size in sizes]
        letters, self._open = [*self._open, *new], []
        under_way = [(letter, self._begin(letter)) for letter in letters]
        for letter, result in under_way:
            self._settle(letter, result)

    def finish(self) -> None:
        """To be called on a sound network."""
        while self._open:
            letters, self._open = self._open, []
            for letter in letters:
                self._settle(letter, self._begin(letter))

    def _begin(self, letter: Letter) -> Callable[[], SendReceipt]:
        """Singles are under way when this returns; a batch is, when its outcome is asked for."""
        queue, contents = self._rng.choice(QUEUES), letter.contents
        if len(contents) > 1:
            return lambda: self._producer.send_batch(contents, queue=queue)[0]
        return self._producer.send_async(contents[0], queue=queue).result

    def _settle(self, letter: Letter, result: Callable[[], SendReceipt]) -> None:
        letter.tries += 1
        try:
            receipt = result()
        except RmqError as error:
            self._failed(letter, error)
        else:
            self.outcomes["ok"] += 1
            self.receipts.append(receipt)
            self._history.sent(letter.number, receipt, durable=False, unknown_tries=letter.unknown_tries)

    def _failed(self, letter: Letter, error: RmqError) -> None:
        outcome = outcome_of(error)
        self.outcomes[outcome] += 1
        if letter.tries < _MOST_TRIES:
            letter.unknown_tries += outcome == "unknown"
            self._open.append(letter)
        else:
            self._history.not_sent(letter.number, error, unknown_tries=letter.unknown_tries)


@pytest.mark.timeout(3600)
def test_a_network_that_fails_at_any_byte(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """Cut, reset, half closed, silent, or late: a send is ok, failed or unknown, and unknown may be there once."""
    rng, checker, wanted = Random(seed), Checker(), amount(FAULTS, FAULTS_OF_A_SOAK, by=0.2)
    history, struck = History(checker.feed), Counter[str]()
    with UpProcess(tmp_path) as server:
        server.start("--advertise", _BESIDE, "--min-free-bytes", "1")
        with through_proxy(server.endpoints["brokers"][0]) as proxy, through_proxy(server.namesrv):
            server.create_topic(TOPIC, len(QUEUES))
            history.opened(BROKER, server.incarnation)
            with Producer(server.namesrv, config=_IMPATIENT) as producer:
                writer = Writer(history, producer, rng)
                for number in range(wanted):
                    kind = list(Kind)[number % len(Kind)]
                    proxy.arm(Fault(kind, rng.random() < 0.5, rng.randrange(_MOST_AFTER)))
                    for _ in range(_MOST_ROUNDS):
                        writer.round()
                        if proxy.struck.is_set():
                            break
                    else:
                        pytest.fail(f"fault {number} ({kind.name}) struck nobody")
                    struck[kind.name.lower()] += 1
                    proxy.heal()
                writer.finish()
            scan(history, "scan", server.namesrv, dict.fromkeys(QUEUES, 0))
            copies = tries_found(server.namesrv)
        assert server.is_alive
        assert server.errors.count("Traceback") == 0
    checker.finish()
    assert not checker.violations, "\n".join(map(str, checker.violations[:20]))
    assert max(copies.values()) == 1, "a try was stored twice"
    assert all(copies[receipt.msg_id] == 1 for receipt in writer.receipts)
    late = copies.total() - history.acknowledged
    tell(
        f"--randomly-seed={seed}: {wanted} faults ({', '.join(f'{count} {kind}' for kind, count in struck.items())}); "
        f"tries: {dict(writer.outcomes)}; {history.acknowledged} messages acknowledged, {late} copies more there"
    )
    assert writer.outcomes["unknown"] > 0
    assert late > 0


def through_proxy(address: str) -> Proxy:
    """What listens where clients are told that a server is, and leads to where it is."""
    host, port = parse_address(address)
    return Proxy((host, port), ("127.0.0.1", port))


def tries_found(namesrv: str) -> Counter[str]:
    """How often each unique id (UNIQ_KEY) is in the topic: every try has its own."""
    found: Counter[str] = Counter()
    with PullConsumer(namesrv) as consumer:
        ends = {queue: consumer.max_offset(queue) for queue in QUEUES}
        consumer.assign(QUEUES)
        consumer.seek_to_beginning()
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            found.update(message.msg_id for message in consumer.poll(60_000))
    return found
