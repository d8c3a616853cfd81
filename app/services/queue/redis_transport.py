"""kombu's Redis transport, fixed so that a worker survives a lost connection.

A message that cannot be acknowledged, since Redis is away when its job ends, keeps its place among
those that a worker may hold. A worker all of whose places are taken so asks for no message any
more; it does not even notice that its connection is gone. Here the place is given back in any case.
Redis keeps the message until the visibility timeout, and a hint that comes twice does no harm.
"""

from typing import Any

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    """The count of unacknowledged messages of a worker."""

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message, freeing its slot even where Redis fails."""
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        """Reject a message, freeing its slot even where Redis fails."""
        try:
            super().reject(delivery_tag, requeue)  # type: ignore[no-untyped-call]
        except BaseException:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]
            raise


class Channel(redis.Channel):
    """A channel that uses the fixed QoS."""

    QoS = QoS


class Transport(redis.Transport):
    """A transport that uses the fixed channel."""

    Channel = Channel
