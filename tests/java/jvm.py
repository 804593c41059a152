"""RocketMQ's Java classes called from Python, in one JVM for all tests: through Py4J, which PySpark brings along.

A JVM takes seconds to start, so mqadmin's verbs run one after the other in this one, as its shell script would run
them. Where the JVM loses its parent it ends by itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rocketmq import PACKAGE, RocketMQ, java, pyspark_jar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaGateway

SEND_TIMEOUT_MS = 60_000
_FINISHING_MS = 10_000  # what a consumer that is closed has for the messages that its listener has been given


class Jvm:
    """A running JVM with RocketMQ's classes."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self.java = gateway.jvm.java
        self.rocketmq = getattr(gateway.jvm, PACKAGE)

    def strings(self, *items: str) -> Any:
        """A Java String[]."""
        array = self._gateway.new_array(self.java.lang.String, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def main(self, main: str, *arguments: str, namesrv: str) -> str:
        """Runs a main class that returns, and gives back what it printed."""
        self.java.lang.System.setProperty("rocketmq.namesrv.addr", namesrv)
        entry = self._class(main).main
        return self._printed(lambda: entry(self.strings(*arguments)))

    def mqadmin(self, verb: str, *arguments: str, hook: Any = None) -> str:
        """Runs a verb of mqadmin, whose requests a hook may sign, and gives back what it printed."""
        entry = self.rocketmq.tools.command.MQAdminStartup.main0
        return self._printed(lambda: entry(self.strings(verb, *arguments), hook))

    @contextmanager
    def admin(self, namesrv: str) -> Iterator[Any]:
        """A DefaultMQAdminExt, what mqadmin itself calls."""
        admin = self.rocketmq.tools.admin.DefaultMQAdminExt()
        with self.started(admin, namesrv):
            yield admin

    @contextmanager
    def producer(self, namesrv: str, group: str = "java-producer") -> Iterator[Any]:
        """A DefaultMQProducer. What takes a busy machine more than the usual three seconds it does not send again:
        the message would be there twice."""
        producer = self.rocketmq.client.producer.DefaultMQProducer(group)
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS)
        with self.started(producer, namesrv):
            yield producer

    @contextmanager
    def push_consumer(
        self,
        namesrv: str,
        group: str,
        topic: str,
        expression: str = "*",
        *,
        sql: str | None = None,
        orderly: bool = False,
        failures: int = 0,
        max_reconsume_times: int = -1,
    ) -> Iterator[list[Any]]:
        """A DefaultMQPushConsumer from the first message on; gives the list that its MessageExts are added to.

        With `sql` it subscribes by MessageSelector.bySql. The first `failures` deliveries it asks for again, later,
        each message at most `max_reconsume_times`, -1 for RocketMQ's 16.
        """
        consumer = self.rocketmq.client.consumer.DefaultMQPushConsumer(group)
        messages: list[Any] = []
        consumer.setConsumeFromWhere(self.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.setConsumeMessageBatchMaxSize(32)
        consumer.setMaxReconsumeTimes(max_reconsume_times)
        consumer.setAwaitTerminationMillisWhenShutdown(_FINISHING_MS)  # else it sends its offsets, and may consume on
        selector = self.rocketmq.client.consumer.MessageSelector
        consumer.subscribe(topic, expression if sql is None else selector.bySql(sql))
        consumer.registerMessageListener(self._listener(messages, orderly, failures))
        with self.started(consumer, namesrv):
            yield messages

    @contextmanager
    def subscribed(self, consumer: Any, namesrv: str, topic: str) -> Iterator[list[Any]]:
        """A consumer made elsewhere, reading a topic; gives the list that its MessageExts are added to."""
        messages: list[Any] = []
        consumer.subscribe(topic, "*")
        consumer.registerMessageListener(self._listener(messages, False, 0))
        with self.started(consumer, namesrv):
            yield messages

    @contextmanager
    def started(self, client: Any, namesrv: str) -> Iterator[None]:
        client.setNamesrvAddr(namesrv)
        # A consumer that loses the race for its first heartbeat reads nothing before the next, by default for 30 s.
        client.setHeartbeatBrokerInterval(1000)
        client.setInstanceName(f"{self.java.lang.System.nanoTime()}")
        client.start()
        try:
            yield
        finally:
            client.shutdown()

    def _listener(self, messages: list[Any], orderly: bool, failures: int) -> object:
        """A Python object that Java takes for a message listener."""
        package = self.rocketmq.client.consumer.listener
        if orderly:
            interface, later = "MessageListenerOrderly", package.ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            success = package.ConsumeOrderlyStatus.SUCCESS
        else:
            interface, later = "MessageListenerConcurrently", package.ConsumeConcurrentlyStatus.RECONSUME_LATER
            success = package.ConsumeConcurrentlyStatus.CONSUME_SUCCESS

        class Listener:
            def consumeMessage(self, received: Any, context: Any) -> Any:
                del context
                messages.extend(received)
                return later if len(messages) <= failures else success

            def toString(self) -> str:
                """Asked for where a consumer tells its settings."""
                return "a listener of Python"

            class Java:
                implements = (f"{PACKAGE}.client.consumer.listener.{interface}",)

        return Listener()

    def _class(self, name: str) -> Any:
        found = self.rocketmq
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _printed(self, run: Callable[[], None]) -> str:
        system = self.java.lang.System
        buffer = self.java.io.ByteArrayOutputStream()
        stream = self.java.io.PrintStream(buffer, True)
        out, err = system.out, system.err
        system.setOut(stream)
        system.setErr(stream)
        try:
            run()
        finally:
            system.setOut(out)
            system.setErr(err)
        return str(buffer.toString())


@contextmanager
def started_jvm(rocketmq: RocketMQ) -> Iterator[Jvm]:
    """Starts the JVM and ends it afterwards."""
    from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

    with (rocketmq.home / "jvm.log").open("w") as log:
        port, token, process = launch_gateway(
            jarpath=str(pyspark_jar("py4j")),
            classpath=rocketmq.class_path,
            javaopts=rocketmq.options("512m"),
            java_path=java(),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True),
        callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
    )
    try:
        server = gateway.java_gateway_server
        callbacks = gateway.get_callback_server()
        server.resetCallbackClient(server.getCallbackClient().getAddress(), callbacks.get_listening_port())
        yield Jvm(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(30)
