"""Small problems whose exact posterior is known, and chains of many on them."""

import dataclasses

import numpy as np
from scipy.stats import chisquare

from dpmcmc.families import MODELS
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.samplers import SAMPLERS
from experiments.stepped import Stepped

BINS = 10


class Toy(Stepped):
    """What a target of rows says of itself, in the simplest way."""

    def information_scale(self, positions, _):
        return np.ones_like(positions), np.ones(len(positions))

    def widths(self, _, deltas):
        return np.abs(deltas).sum(axis=1)

    def narrow_clip(self, _):
        pass

    def spread(self, _):
        return np.eye(self.position.shape[1]), 1.0


class ToyTarget(Toy):
    """Logistic rows of one coefficient: count rows of each (x, y), prior N(0, 1).

    Implements dpmcmc.families.target.Target in plain NumPy for any number of chains.
    """

    def __init__(self, x, y, counts, chains, tempering=1.0):
        self.signed = np.asarray(x, float) * (2.0 * np.asarray(y, float) - 1.0)
        self.counts = np.asarray(counts)
        self.rows = int(self.counts.sum())
        self.tempering = tempering
        self.max_row_norm = float(np.abs(self.signed).max())
        self.position = np.zeros((chains, 1))

    def refresh(self):
        pass

    def likelihoods(self, positions):
        return -np.logaddexp(0.0, -positions * self.signed)

    def log_density(self, grid):
        likelihood = self.likelihoods(grid[:, None]) @ self.counts
        return self.tempering * likelihood - 0.5 * grid**2

    def ratios(self, deltas):
        return self.likelihoods(self.position + deltas) - self.likelihoods(self.position)

    def vector_ratios(self, deltas):
        sums = self.tempering * (self.ratios(deltas) @ self.counts)
        width = 2.0 * self.max_row_norm * np.abs(deltas[:, 0])
        return sums, self.tempering * width, self.log_prior_ratio(deltas)

    def move(self, deltas, accepted):
        self.position[accepted] += deltas[accepted]

    vector_commit = move

    def gradient(self, positions, clip):
        slopes = self.signed / (1.0 + np.exp(positions * self.signed))
        sums = np.clip(slopes, -clip, clip) @ self.counts
        return self.tempering * sums[:, None], 2.0 * clip * self.tempering

    def batch_ratios(self, deltas, counts):
        """counts: rows of each kind in the batch, in place of row numbers."""
        ratios, most = self.ratios(deltas), self.max_row_norm * np.abs(deltas[:, 0])
        return (counts * ratios).sum(axis=1), (counts * ratios**2).sum(axis=1), -most, most

    def log_prior_ratio(self, deltas):
        return -(deltas * (self.position + 0.5 * deltas)).sum(axis=1)

    def log_prior_gradient(self, positions):
        return -positions


def cold(sampler, **options):
    """Options of a sampler that starts where it is put."""
    known = {field.name for field in dataclasses.fields(sampler.options)}
    return sampler.options(**({"start": None} if "start" in known else {}), **options)


def uniformity(ranks):
    """p-value of the ranks of one coordinate being uniform."""
    return float(chisquare(np.histogram(ranks, BINS, (0, 1))[0]).pvalue)


def toy_p_value(toy, name, options, multiplier, chains, steps, random, block=10):
    """Start at exact draws, take `steps` steps, `block` at a time, and judge the ranks."""
    target = ToyTarget(**toy, chains=chains)
    grid = np.linspace(-8.0, 8.0, 40_001)
    log = target.log_density(grid)
    distribution = np.cumsum(np.exp(log - log.max()))
    distribution /= distribution[-1]
    target.position[:, 0] = np.interp(random.uniforms((chains,)), distribution, grid)
    sampler = SAMPLERS[name]
    given = cold(sampler, num_steps=steps, num_chains=chains, num_warmup=0, **options)
    state = sampler.init(target, given, multiplier, random)
    for done in range(0, steps, block):
        sampler.step(target, given, multiplier, min(block, steps - done), random, state)
    return uniformity(np.interp(target.position[:, 0], grid, distribution))


class Problem:
    """Rows of a family with one or two parameters, opened by its own model.

    log_density: released parameters (k, d) -> (k,). box: lowest and highest of each. theta: what
    the rows are simulated at.
    """

    def __init__(self, model, columns, data, log_density, box):
        self.schema = Schema(columns=columns, rows=len(next(iter(data.values()))))
        self.model, self.data, self.box = model, data, box
        self.log_density = log_density

    def grid(self):
        """Return the axes and the (normalised) mass on their product."""
        count = 4001 if len(self.box) == 1 else 501
        axes = [np.linspace(low, high, count) for low, high in self.box]
        points = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
        log = np.concatenate([self.log_density(part) for part in np.array_split(points, 50)])
        mass = np.exp(log - log.max())
        return axes, points, mass / mass.sum()

    def opened(self, options, multiplier, chains):
        """The target, and the map from positions to released parameters."""
        spec = JobSpec(
            model=self.model,
            sampler=options,
            privacy=PrivacySpec(delta=1e-6, noise_multiplier=multiplier),
        )
        design = make_design(self.schema, self.model.formula)
        model = MODELS[self.model.family]
        target = model.target(design, spec, table_of(self.schema, self.data), chains)
        return target, lambda positions: model.release(design, spec, positions)

    def p_value(self, name, options, multiplier, chains, steps, random, warmup=0, fitted=None):
        """The smallest p-value of all parameters' ranks after `steps` steps from exact draws.

        warmup: of them, at the end of which moves must be of the kind `fitted`.
        """
        axes, points, mass = self.grid()
        given = cold(
            SAMPLERS[name], num_steps=steps, num_chains=chains, num_warmup=warmup, **options
        )
        target, release = self.opened(given, multiplier, chains)
        picked = points[random.rng.choice(len(points), chains, p=mass)]
        cells = np.array([axis[1] - axis[0] for axis in axes])
        picked = picked + (random.uniforms(picked.shape) - 0.5) * cells
        origin = release(np.zeros((1, len(axes))))
        scales = release(np.ones((1, len(axes)))) - origin
        target.position[:] = (picked - origin) / scales
        sampler = SAMPLERS[name]
        state = sampler.init(target, given, multiplier, random)
        if warmup:
            sampler.step(target, given, multiplier, warmup, random, state)
            assert state.moves.kind == fitted
        left = steps - warmup
        ends = release(sampler.step(target, given, multiplier, left, random, state)[:, -1])
        moved = np.abs(ends - picked) > 1e-9 * cells
        assert moved.any(axis=1).mean() > 0.5  # it is a chain that is judged
        shape = tuple(len(axis) for axis in axes)
        found = []
        for k, axis in enumerate(axes):
            others = tuple(j for j in range(len(axes)) if j != k)
            marginal = mass.reshape(shape).sum(axis=others)
            found.append(uniformity(np.interp(ends[:, k], axis + cells[k] / 2, marginal.cumsum())))
        return min(found)


def odds(rng, rows, tempering, least=-1.0):
    """A binary response with a level and a slope, which are correlated where x has one sign."""
    x = rng.uniform(least, 1.0, rows)
    y = rng.random(rows) < 1 / (1 + np.exp(0.4 - x))
    sign = 2.0 * y - 1.0
    model = ModelSpec(
        family="logistic", formula="y ~ x", prior=NormalPrior(scale=1.0), tempering=tempering
    )
    columns = (
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        BinaryColumn(name="y", categories=("no", "yes")),
    )

    def log_density(theta):
        margins = sign * (theta[:, :1] + theta[:, 1:] * x)
        return tempering * -np.logaddexp(0, -margins).sum(axis=1) - 0.5 * (theta**2).sum(axis=1)

    data = {"x": x, "y": np.where(y, "yes", "no")}
    return Problem(model, columns, data, log_density, [(-5.0, 5.0), (-5.0, 5.0)])


def gaussian_means(rng, rows, tempering):
    """A mean of prior N(0.5, 1) in bounds that are off its centre."""
    x = np.clip(0.4 + rng.normal(size=rows), -2.0, 6.0)
    model = ModelSpec(
        family="gaussian_mean",
        formula="~ x",
        prior=NormalPrior(scale=1.0),
        tempering=tempering,
        options=ModelOptions(variances=(1.0,)),
    )
    columns = (NumberColumn(name="x", lower=-2.0, upper=6.0),)

    def log_density(theta):
        squares = ((x - theta) ** 2).sum(axis=1)
        return -0.5 * tempering * squares - 0.5 * theta[:, 0] ** 2

    return Problem(model, columns, {"x": x}, log_density, [(-3.0, 4.0)])


def counts(rng, rows, tempering):
    """Poisson counts with a slope, whose interval is never centred."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = np.minimum(rng.poisson(np.exp(0.5 * x)), 5).astype(float)
    model = ModelSpec(
        family="poisson", formula="y ~ 0 + x", prior=NormalPrior(scale=1.0), tempering=tempering
    )
    columns = tuple(
        NumberColumn(name=n, lower=a, upper=b) for n, a, b in (("x", -1, 1), ("y", 0, 5))
    )

    def log_density(theta):
        eta = theta * x
        return tempering * (y * eta - np.exp(eta)).sum(axis=1) - 0.5 * theta[:, 0] ** 2

    return Problem(model, columns, {"x": x, "y": y}, log_density, [(-5.0, 5.0)])


def lines(rng, rows, tempering):
    """A level and an unknown scale: intervals that change with the position."""
    y = np.clip(0.3 + 0.8 * rng.normal(size=rows), -4.0, 4.0)
    model = ModelSpec(
        family="linear", formula="y ~ 1", prior=NormalPrior(scale=1.0), tempering=tempering
    )
    columns = (NumberColumn(name="y", lower=-4.0, upper=4.0),)

    def log_density(theta):
        level, log_sigma = theta[:, :1], theta[:, 1:]
        rows_of = -0.5 * ((y - level) * np.exp(-log_sigma)) ** 2 - log_sigma
        prior = -0.5 * level[:, 0] ** 2 - 0.5 * (log_sigma[:, 0] / 1.5) ** 2
        return tempering * rows_of.sum(axis=1) + prior

    return Problem(model, columns, {"y": y}, log_density, [(-4.0, 4.0), (-2.5, 4.0)])


FAMILIES = {"logistic": odds, "gaussian_mean": gaussian_means, "poisson": counts, "linear": lines}
