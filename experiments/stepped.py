"""Steps of the private samplers in NumPy, decided as the compiled ones are."""

import numpy as np

from dpmcmc.kernels.paths import FARTHEST
from dpmcmc.privacy.discrete import noisy_sums
from dpmcmc.samplers import rules


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
            accepted = rules.noisy(
                *ratios, steps.noise_multiplier, steps.normals[t], steps.uniforms[t]
            )
            self.vector_commit(deltas, accepted)
            if signs is not None:
                signs[~accepted, k] *= -1
            draws.append(self.position.copy())
        return np.stack(draws, axis=1)

    def batch_walk(self, rule, deltas, noises, batches):
        draws = []
        for step, noise, batch in zip(deltas, noises, batches, strict=True):
            sums, squares, lo, hi = self.batch_ratios(step, batch)
            priors = self.log_prior_ratio(step)
            decide = rules.RULES[rule.kind]
            self.move(step, decide(rule, sums, squares, hi - lo, priors, noise))
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
            kinetic = 0.5 * (momenta**2 - after**2).sum(axis=1)
            decided = rules.noisy(
                *(sums, sensitivities, priors + kinetic),
                *(steps.noise_multiplier, steps.normals[t], steps.uniforms[t]),
            )
            accepted = decided & ~lost
            self.vector_commit(deltas, accepted)
            gradients[accepted] = fresh[accepted]
            draws.append(self.position.copy())
        return np.stack(draws, axis=1)

    def _leapfrog(self, path, momenta, gradients, noise):
        positions, lost = self.position.copy(), np.zeros(len(momenta), np.bool_)
        for fresh in noise:
            momenta = momenta + 0.5 * path.step_size * gradients @ path.root
            moved = positions + path.step_size * momenta @ path.root.T
            lost |= ~(np.abs(moved) < FARTHEST).all(axis=1)
            positions = np.where(lost[:, None], self.position, moved)
            sums, sensitivity = self.gradient(positions, path.clip)
            released = noisy_sums(sums, sensitivity, path.noise_multiplier, fresh) @ path.back
            known = self.log_prior_gradient(positions) + (positions - path.centre) @ path.pull
            gradients = released + known + path.offset
            momenta = momenta + 0.5 * path.step_size * gradients @ path.root
        return positions, momenta, gradients, lost
