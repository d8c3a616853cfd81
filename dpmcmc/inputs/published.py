"""Published names of algorithms, from theses and papers, and the names of the same here.

The library, the service and its client accept both. docs/guides/from_the_theses.md maps figures,
tables and symbols as well.
"""

from typing import Any

SUMS = "sufficient_statistics"
# published name -> algorithm and options
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
    """Return algorithm and options for a published name; an unknown name is returned unchanged.

    Case, hyphens and spaces do not matter.
    """
    return _BY_PLAIN_NAME.get(_plain(name), (name, {}))


def method_of(name: str) -> str:
    """Return the method of sufficient_statistics for a published name; else the name unchanged."""
    return algorithm_of(name)[1].get("method", name)


def with_known_names(sampler: Any) -> Any:
    """Return a job's `sampler`, as JSON holds it, with published names replaced by those here.

    A method that is given beside such a name is kept, so that two different methods are refused.
    """
    if not isinstance(sampler, dict):
        return sampler
    renamed = dict(sampler)
    if isinstance(renamed.get("method"), str):
        renamed["method"] = method_of(renamed["method"])
    if isinstance(renamed.get("algorithm"), str):
        renamed["algorithm"], options = algorithm_of(renamed["algorithm"])
        renamed = options | renamed
    return renamed
