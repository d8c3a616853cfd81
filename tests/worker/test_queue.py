"""What Celery is told: late acknowledgement, and limits that fit into each other."""

from pathlib import Path

import pytest

from app.services.queue.messages import configuration
from app.settings import Settings

BROKERS = ("", "redis://localhost/0", "amqp://guest@localhost//")


@pytest.mark.parametrize("broker", BROKERS)
def test_a_job_is_stopped_softly_then_hard_and_never_started_again_before(
    broker: str, tmp_path: Path
) -> None:
    using = Settings(data_dir=tmp_path, BROKER_URL=broker, job_time_limit=600)  # type: ignore[call-arg]
    told = configuration(using)
    assert told["broker_url"].startswith(broker or "dpmcmcqueue")
    assert told["task_soft_time_limit"] == 600
    assert told["task_time_limit"] > told["task_soft_time_limit"] + 30
    visible = told["broker_transport_options"].get("visibility_timeout")
    assert (visible is not None) == broker.startswith("redis")
    assert visible is None or visible > told["task_time_limit"] + 600
    assert told["task_acks_late"]
    assert told["task_reject_on_worker_lost"]
    assert told["worker_prefetch_multiplier"] == 1
    assert told["accept_content"] == ["json"]
