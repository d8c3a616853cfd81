"""In CI the noise of the test's own process is the same in each run, as hypothesis' examples are.

A change is then judged by what it changes, and not by the one release in a hundred that is rightly
called unreliable. Elsewhere noise is the system's, so that what hangs on it is met during work.
Processes that a test starts, and tests marked system_noise, have the system's in CI too.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dpmcmc.privacy.noise import SystemRandom


class RepeatableKeys:
    """Keys of SystemRandom that follow from which test or fixture draws, and how often it did."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.drawing = [""]  # the test, and the fixtures that are being made for it
        self.keys: Counter[str] = Counter()
        self.system_cipher = SystemRandom._new_cipher

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Draw for a test, unless it is about the system's own noise."""
        return (
            yield from self._drawing_for(
                "" if item.get_closest_marker("system_noise") else item.nodeid
            )
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Draw for a fixture: one that tests share is the same whichever test comes first."""
        shared = self.drawing[-1] and f"{request.node.nodeid} {fixturedef.argname}"
        return (yield from self._drawing_for(shared))

    def _drawing_for(self, name: str) -> Iterator[None]:
        self.keys.pop(name, None)
        self.drawing.append(name)
        try:
            return (yield)
        finally:
            self.drawing.pop()

    def new_cipher(self, source: SystemRandom) -> CipherContext:
        """What SystemRandom._new_cipher returns, under a key of ours."""
        name = self.drawing[-1]
        if not name or os.getpid() != self.process:
            return self.system_cipher(source)
        self.keys[name] += 1
        key = hashlib.sha512(f"{name} {self.keys[name]}".encode()).digest()
        return Cipher(AES256(key[:32]), CTR(key[32:48])).encryptor()


def begin(config: pytest.Config) -> None:
    """From here on."""
    keys = RepeatableKeys()
    config.pluginmanager.register(keys)
    SystemRandom._new_cipher = lambda source: keys.new_cipher(source)  # type: ignore[method-assign]
