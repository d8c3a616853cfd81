"""Names that the theses and papers give to algorithms, as names for them here.

They are taken wherever an algorithm is named: by the library, by the service and by its client.
docs/guides/from_the_theses.md maps figures, tables and symbols as well.
"""

from typing import Any

SUMS = "sufficient_statistics"
# as published -> the algorithm, and the options that make it that one
PUBLISHED: dict[str, tuple[str, dict[str, str]]] = {
    "DP penalty": ("dp_penalty", {}),
    "penalty algorithm": ("dp_penalty", {}),
    "one component": ("dp_penalty_component", {}),
    "GWMH": ("dp_penalty_guided", {}),
    "guided walk": ("dp_penalty_guided", {}),
    "minibatch penalty": ("dp_penalty_subsampled", {}),
    "DP Barker": ("dp_barker", {}),
    "DP HMC": ("dp_hmc", {}),
    "DP MALA": ("dp_mala", {}),
    "DPVI": ("dp_vi", {}),
    "MCMC-normalX": (SUMS, {"method": "mcmc_normalx"}),
    "MCMC-fixedS": (SUMS, {"method": "mcmc_fixeds"}),
    "MCMC-fixed-S": (SUMS, {"method": "mcmc_fixeds"}),
    "Bayes-fixedS-fast": (SUMS, {"method": "bayes_fixeds_fast"}),
    "Bayes-fixed-S-fast": (SUMS, {"method": "bayes_fixeds_fast"}),
    "Bayes-fixed-S": (SUMS, {"method": "bayes_fixeds_fast"}),
    "MCMC-B&S": (SUMS, {"method": "mcmc_bs"}),
    "MCMC B&S": (SUMS, {"method": "mcmc_bs"}),
    "adaSSP": (SUMS, {"method": "adassp"}),
}


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_BY_PLAIN_NAME = {_plain(name): meant for name, meant in PUBLISHED.items()}


def algorithm_of(name: str) -> tuple[str, dict[str, str]]:
    """Return the algorithm of a published name and its options; the name itself where it is none.

    In any case, with or without hyphens and spaces.
    """
    return _BY_PLAIN_NAME.get(_plain(name), (name, {}))


def method_of(name: str) -> str:
    """Return the method of sufficient_statistics that a published name means, or the name."""
    return algorithm_of(name)[1].get("method", name)


def with_known_names(sampler: Any) -> Any:
    """Return a job's `sampler`, as JSON holds it, with published names replaced by those here.

    What is given beside a name that means a method stays, so that two methods are refused.
    """
    if not isinstance(sampler, dict):
        return sampler
    made = dict(sampler)
    if isinstance(made.get("method"), str):
        made["method"] = method_of(made["method"])
    if isinstance(made.get("algorithm"), str):
        made["algorithm"], options = algorithm_of(made["algorithm"])
        made = options | made
    return made
