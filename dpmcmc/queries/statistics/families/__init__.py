"""Families: distributions of rows for inference from released statistics. One file each."""

from dpmcmc.queries.statistics.families.base import Family
from dpmcmc.queries.statistics.families.bernoulli import Bernoulli
from dpmcmc.queries.statistics.families.normal_mean import NormalMean
from dpmcmc.queries.statistics.families.normal_variance import NormalVariance
from dpmcmc.queries.statistics.families.uniform_width import UniformWidth

FAMILIES: dict[str, type[Family]] = {
    "bernoulli": Bernoulli,
    "normal_mean": NormalMean,
    "normal_variance": NormalVariance,
    "uniform_width": UniformWidth,
}
