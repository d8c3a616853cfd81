"""Steps of the private samplers in NumPy, decided as the compiled ones are."""

import numpy as np

from dpmcmc.kernels.arithmetic import rules
from dpmcmc.kernels.arithmetic.rounding import noised
from dpmcmc.kernels.compiled.hmc_steps import LARGEST_POSITION
from dpmcmc.privacy.discrete import noisy_sums


def decided(sums, sensitivities, known, scale, noise, uniforms):
    """Return whether moves are accepted, by rules.accepts on arrays."""
    grid = scale.unit * np.asarray(sensitivities)
    return rules.accepts(noised(sums, grid, noise), scale.sd * grid, known, uniforms)


def batch_decided(rule, sums, squares, lo, hi, priors, noise, others):
    """Return whether moves are accepted by a rule, from sums of ratios of a batch and squares."""
    statistic, accepts = RULES[rule.kind]
    middle, b = 0.5 * (lo + hi), rule.batch
    centred = sums - b * middle, squares - 2.0 * middle * sums + b * middle * middle
    found, cells = statistic(rule, *centred, hi - lo, others)
    known = priors + rule.scale * b * middle
    return accepts(rule, noised(found, cells, noise), cells, hi - lo, known, others)


def penalty_accepts(rule, seen, cells, _, known, others):
    """Return whether moves are accepted by the penalty rule on batches."""
    return rules.accepts(seen, rule.sd * cells, known, others[0])


def barker_accepts(rule, seen, _, widths, known, others):
    """Return whether moves are accepted by Barker's rule."""
    return rules.barker_accepts(rule, seen, widths, known, others)


# kind: what is noised, and how it is decided on
RULES = {
    rules.PENALTY: (rules.penalty, penalty_accepts),
    rules.BARKER: (rules.barker, barker_accepts),
}


class Stepped:
    """Steps in NumPy, of a target that brings sums for one step.

    vector_ratios(deltas) -> (sums, sensitivities, log prior ratios), vector_commit(deltas,
    accepted), batch_ratios, log_prior_ratio and move.
    """

    def penalty_walk(self, steps, signs):
        draws = []
        for t, k in enumerate(steps.chosen):
            deltas = steps.deltas[t] * (1 if signs is None else signs[:, k, None])
            ratios = self.vector_ratios(deltas)
            accepted = decided(*ratios, steps.scale, steps.noise[t], steps.uniforms[t])
            self.vector_commit(deltas, accepted)
            if signs is not None:
                signs[~accepted, k] *= -1
            draws.append(self.position.copy())
        return np.stack(draws, axis=1)

    def batch_walk(self, rule, deltas, noise, others, batches):
        draws = []
        for step, drawn, told, batch in zip(deltas, noise, others, batches, strict=True):
            sums = self.batch_ratios(step, batch)
            self.move(step, batch_decided(rule, *sums, self.log_prior_ratio(step), drawn, told))
            draws.append(self.position.copy())
        return np.stack(draws, axis=1)

    def hamiltonian_walk(self, path, steps, gradients):
        self.refresh()
        draws = []
        for t, momenta in enumerate(steps.momenta):
            ends, after, fresh, lost = Stepped._leapfrog(
                self, path, momenta, gradients, steps.noise[t]
            )
            deltas = np.where(lost[:, None], 0.0, ends - self.position)
            sums, sensitivities, priors = self.vector_ratios(deltas)
            known = priors + 0.5 * (momenta**2 - after**2).sum(axis=1)
            drawn = steps.decisions[t], steps.uniforms[t]
            accepted = decided(sums, sensitivities, known, steps.scale, *drawn) & ~lost
            self.vector_commit(deltas, accepted)
            gradients[accepted] = fresh[accepted]
            draws.append(self.position.copy())
        return np.stack(draws, axis=1)

    def _leapfrog(self, path, momenta, gradients, noise):
        positions, lost = self.position.copy(), np.zeros(len(momenta), np.bool_)
        for fresh in noise:
            momenta = momenta + 0.5 * path.step_size * gradients @ path.root
            moved = positions + path.step_size * momenta @ path.root.T
            lost |= ~(np.abs(moved) < LARGEST_POSITION).all(axis=1)
            positions = np.where(lost[:, None], self.position, moved)
            sums, sensitivity = self.gradient(positions, path.clip)
            released = noisy_sums(sums, sensitivity, path.noise_multiplier, fresh) @ path.back
            known = self.log_prior_gradient(positions) + (positions - path.centre) @ path.pull
            gradients = released + known + path.offset
            momenta = momenta + 0.5 * path.step_size * gradients @ path.root
        return positions, momenta, gradients, lost
