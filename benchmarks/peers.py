"""Chains without privacy on the same rows and model, by BlackJAX and NumPyro, on request.

Runs in an environment of its own (requirements-bench.txt), where JAX is. Started by
benchmarks/kernels.py: peers.py ROWS.npz BITS; reads names of PEERS from standard input, one a line,
and answers each with the seconds of one step.
"""

import sys
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import HMC

LEAPFROG, SCALE = 10, 1e-3
STEPS = {"blackjax.rmh": 100, "blackjax.hmc": 10, "numpyro.hmc": 10}


def chains(rows, bits):
    """Name -> a compiled function that takes STEPS[name] steps, and how it starts."""
    real = jnp.float64 if bits == 64 else jnp.float32
    x, y = jnp.asarray(rows["x"], real), jnp.asarray(rows["y"], real)
    start = jnp.zeros(x.shape[1], real)

    def log_density(theta):
        eta = x @ theta
        return jnp.sum(y * eta - jnp.logaddexp(0.0, eta)) - 0.5 * jnp.sum(theta**2)

    walk = blackjax.additive_step_random_walk(
        log_density, blackjax.mcmc.random_walk.normal(jnp.full(len(start), SCALE, real))
    )
    trajectory = blackjax.hmc(
        log_density,
        step_size=SCALE,
        inverse_mass_matrix=jnp.ones(len(start), real),
        num_integration_steps=LEAPFROG,
    )
    other = HMC(
        potential_fn=lambda theta: -log_density(theta),
        step_size=SCALE,
        num_steps=LEAPFROG,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    return {
        "blackjax.rmh": (lambda s, key: walk.step(key, s)[0], walk.init(start)),
        "blackjax.hmc": (lambda s, key: trajectory.step(key, s)[0], trajectory.init(start)),
        "numpyro.hmc": (
            lambda s, _: other.sample(s, (), {}),
            other.init(jax.random.key(1), 0, start, (), {}),
        ),
    }


def compiled(step, steps):
    """A function of (state, key) that takes so many steps."""
    return jax.jit(
        lambda state, key: jax.lax.scan(
            lambda s, k: (step(s, k), None), state, jax.random.split(key, steps)
        )[0]
    )


def main():
    jax.config.update("jax_enable_x64", sys.argv[2] == "64")
    with np.load(sys.argv[1]) as rows:
        known = chains(rows, int(sys.argv[2]))
    ready = {name: (compiled(step, STEPS[name]), start) for name, (step, start) in known.items()}
    warm = set()
    for line in sys.stdin:
        run, start = ready[line.strip()]
        if line not in warm:
            jax.block_until_ready(run(start, jax.random.key(0)))
            warm.add(line)
        began = time.perf_counter()
        jax.block_until_ready(run(start, jax.random.key(0)))
        print((time.perf_counter() - began) / STEPS[line.strip()], flush=True)


if __name__ == "__main__":
    main()
