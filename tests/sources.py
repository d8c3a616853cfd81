"""A source of randomness that a test can repeat. Never a default of anything that is shipped."""

import numpy as np


class Seeded:
    """A dpmcmc.privacy.noise.RandomSource of a fixed seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def normals(self, shape):
        return self.rng.standard_normal(shape)

    def uniforms(self, shape):
        return 1.0 - self.rng.random(shape)

    def integers(self, high, shape):
        return self.rng.integers(high, size=shape)

    def words(self, count):
        return self.rng.integers(2**64, size=count, dtype=np.uint64)
