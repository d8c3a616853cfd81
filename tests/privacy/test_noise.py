import inspect
import os
import sys
import threading

import numpy as np
import pytest
from scipy import stats

from dpmcmc.privacy.noise import SystemRandom

DRAWS = 200_000

pytestmark = pytest.mark.system_noise


def test_nobody_can_seed_the_noise():
    assert list(inspect.signature(SystemRandom).parameters) == []
    assert not {name for name in dir(SystemRandom()) if "seed" in name or name == "key"}


def test_every_instance_has_a_stream_of_its_own():
    first, second = SystemRandom().uniforms((1000,)), SystemRandom().uniforms((1000,))
    assert not np.intersect1d(first, second).size


def test_a_stream_does_not_repeat():
    source = SystemRandom()
    assert not np.intersect1d(source.uniforms((1000,)), source.uniforms((1000,))).size


def test_a_forked_process_has_a_stream_of_its_own():
    source = SystemRandom()
    source.uniforms((1,))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.uniforms((8,)).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 64))
    os.close(reader)
    os.close(writer)
    assert not np.intersect1d(theirs, source.uniforms((8,))).size


def test_threads_that_share_a_source_never_read_the_same_stream():
    source, drawn, failed = SystemRandom(), [], []

    def draw():
        try:
            drawn.extend(source.words(2000) for _ in range(100))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=draw) for _ in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    words = np.concatenate(drawn)
    assert len(words) == len(np.unique(words)) == 8 * 100 * 2000


def test_normals_are_standard_normal():
    draws = SystemRandom().normals((DRAWS,))
    assert stats.kstest(draws, "norm").pvalue > 1e-4
    # a sd of 0.95 is 16 standard errors away
    assert abs(draws.std() - 1.0) < 4.5 / np.sqrt(2 * DRAWS)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4.5 / np.sqrt(DRAWS)
    pairs = draws.reshape(2, -1)  # the two halves of Box-Muller
    assert abs(np.corrcoef(pairs)[0, 1]) < 4.5 / np.sqrt(DRAWS / 2)
    assert abs(np.corrcoef(pairs**2)[0, 1]) < 4.5 / np.sqrt(DRAWS / 2)


def test_uniforms_are_uniform_and_open():
    draws = SystemRandom().uniforms((DRAWS,))
    assert stats.kstest(draws, "uniform").pvalue > 1e-4
    assert draws.min() > 0.0
    assert draws.max() < 1.0


class Words(SystemRandom):
    """The stream replaced by given words."""

    def __init__(self, *words):
        self.given = list(words)

    def words(self, count):
        taken, self.given = self.given[:count], self.given[count:]
        return np.array(taken, np.uint64)


def test_the_ends_of_the_stream_give_finite_numbers():
    ends = (0, 2**64 - 1)
    uniforms = Words(*ends).uniforms((2,))
    assert 0.0 < uniforms[0] < uniforms[1] < 1.0
    assert np.isfinite(Words(*ends, *ends).normals((4,))).all()
    assert np.abs(Words(0, 0).normals((2,))).max() > 9.4


def test_integers_are_uniform():
    counts = np.bincount(SystemRandom().integers(7, (DRAWS,)), minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-4


def test_integers_refuse_the_words_that_would_favour_small_ones():
    last = 2**64 - 1 - 2**64 % 3
    drawn = Words(last, last + 1, 5).integers(3, (2,))
    assert drawn.tolist() == [last % 3, 5 % 3]


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 5), (2, 3, 4)])
def test_shapes_are_kept(shape):
    source = SystemRandom()
    assert source.normals(shape).shape == shape
    assert source.uniforms(shape).shape == shape
    assert source.integers(3, shape).shape == shape
