"""Analysts who submit and cancel through everything, and remember what was accepted."""

import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from dpmcmc.client import Client, UnreachedError
from dpmcmc.client.answers import ApiError

STEPS = (60, 400, 2_000, 10_000, 30_000)
WEIGHTS = (6, 4, 3, 2, 1)
REFUSED_SECONDS = 3.0


def job_of(dataset: str, steps: int) -> dict[str, Any]:
    """A job that a worker needs between a moment and a few seconds for."""
    return {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": "income ~ age + sex"},
        "sampler": {"algorithm": "dp_hmc", "num_steps": steps, "num_chains": 2},
        "privacy": {"epsilon": 0.2, "delta": 1e-6},
        "accept_low_quality": True,
    }


def until_of(dataset: str) -> dict[str, Any]:
    """A job that reserves more than it draws, and is given the rest back."""
    epsilon = {"up_to": 1.0, "until": "reliable"}
    sampler = {"algorithm": "noisy_quadratic"}
    privacy = {"epsilon": epsilon, "delta": 1e-6}
    return job_of(dataset, 0) | {"sampler": sampler, "privacy": privacy}


@dataclass(slots=True)
class Analyst:
    """One client in a thread of its own. accepted: idempotency key -> the job that it made."""

    urls: list[str]
    key: str
    datasets: list[str]
    choose: random.Random
    stopping: threading.Event
    accepted: dict[str, str] = field(default_factory=dict)
    asked_to_cancel: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Submit until told to stop; now and then twice with one key, or cancel."""
        while not self.stopping.wait(self.choose.uniform(0.3, 1.5)):
            key = str(uuid.UUID(int=self.choose.getrandbits(128), version=4))
            dataset = self.choose.choice(self.datasets)
            steps = self.choose.choices(STEPS, WEIGHTS)[0]
            body = until_of(dataset) if self.choose.random() < 0.2 else job_of(dataset, steps)
            for _ in range(1 + (self.choose.random() < 0.2)):
                self._submit(key, body)
            if key in self.accepted and self.choose.random() < 0.15:
                time.sleep(self.choose.uniform(0.0, 1.0))
                self._cancel(self.accepted[key])

    def _submit(self, key: str, body: dict[str, Any]) -> None:
        """Insist with the same key until there is an answer."""
        while not self.stopping.is_set():
            try:
                with Client(self.choose.choice(self.urls), self.key, timeout=20) as client:
                    job = str(client.submit(body, idempotency_key=key)["id"])
            except UnreachedError:
                self.stopping.wait(0.3)
            except ApiError as error:
                if error.status < 500:
                    self.refused += 1
                    self.stopping.wait(REFUSED_SECONDS)
                    return
                self.stopping.wait(0.3)
            else:
                if self.accepted.setdefault(key, job) != job:
                    self.wrong.append(f"one key made the jobs {self.accepted[key]} and {job}")
                return

    def _cancel(self, job: str) -> None:
        try:
            with Client(self.choose.choice(self.urls), self.key, timeout=20) as client:
                client.cancel(job)
                self.asked_to_cancel += 1
        except (UnreachedError, ApiError):
            return  # away, or ended before
