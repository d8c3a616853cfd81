"""Families of rows that released statistics are read with. One file and one line each."""

from dpmcmc.statistics.families.base import Family
from dpmcmc.statistics.families.bernoulli import Bernoulli
from dpmcmc.statistics.families.normal_mean import NormalMean
from dpmcmc.statistics.families.normal_variance import NormalVariance
from dpmcmc.statistics.families.uniform_width import UniformWidth

FAMILIES: dict[str, type[Family]] = {
    "bernoulli": Bernoulli,
    "normal_mean": NormalMean,
    "normal_variance": NormalVariance,
    "uniform_width": UniformWidth,
}
