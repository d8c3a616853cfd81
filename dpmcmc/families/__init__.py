"""The regressions that `noisy_quadratic` releases. A line here makes one live for a model."""

from dpmcmc.families.base import Family
from dpmcmc.families.linear import Linear
from dpmcmc.families.logistic import Logistic
from dpmcmc.families.multinomial import Multinomial
from dpmcmc.families.poisson import Poisson

FAMILIES: dict[str, Family] = {
    "logistic": Logistic(),
    "linear": Linear(),
    "poisson": Poisson(),
    "multinomial": Multinomial(),
}

__all__ = ["FAMILIES", "Family"]
