"""Published names of algorithms, and other software's names of families.

The library, the service and its client accept both. docs/guides/from_the_theses.md maps figures,
tables and symbols as well.
"""

import re
from typing import Any

from dpmcmc.base.errors import SpecError

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


# other software's name of a family -> its name here
FAMILIES = {
    **dict.fromkeys(("gaussian", "normal", "ols", "lm"), "linear"),
    **dict.fromkeys(("bernoulli", "binomial", "logit"), "logistic"),
    **dict.fromkeys(("student", "t", "studentt"), "student_t"),
    **dict.fromkeys(
        ("negbinomial", "negativebinomial", "nbinom", "nb", "glmnb"), "negative_binomial"
    ),
    **dict.fromkeys(("categorical", "multinomiallogit"), "multinomial"),
    **dict.fromkeys(("hurdle", "hurdlepoisson", "zeroalteredpoisson", "zap"), "hurdle_poisson"),
    **dict.fromkeys(("cumulative", "polr", "proportionalodds", "orderedlogistic"), "ordinal"),
    **{
        name: name
        for name in (
            "linear",
            "logistic",
            "poisson",
            "gamma",
            "beta",
            "multinomial",
            "ordinal",
            "exponential",
            "weibull",
        )
    },
}


# other software's names of families that are none here -> what to write
REFUSED = {
    **dict.fromkeys(
        ("zeroinflatedpoisson", "zeroinfl", "zip", "zeroinflatednegbinomial", "zinb"),
        "mixes zeros of two kinds, which no row tells apart, so that its likelihood may have"
        " several modes: write family hurdle_poisson, which has a model of all zeros and one of"
        " counts above 0",
    ),
    **dict.fromkeys(
        ("hurdlenegbinomial", "hurdlenegativebinomial"),
        "is not available: write family hurdle_poisson, whose verdict says how much counts above 0"
        " vary more, or negative_binomial",
    ),
    **dict.fromkeys(
        ("lognormal", "loglinear"), "is not available: write log(y) ~ x, family linear"
    ),
    **dict.fromkeys(
        ("cox", "coxph", "phreg"),
        "leaves its hazard open, which takes an order of all times: write family exponential or"
        " weibull, whose coefficients are of hazards as well",
    ),
    "quasipoisson": "is no likelihood: write family poisson, whose intervals are wider by as much"
    " as counts vary more, or negative_binomial",
    "quasibinomial": "is no likelihood: write family binomial, whose intervals are wider by as much"
    " as cases vary more",
    "betabinomial": "is not available: write family binomial, whose intervals are wider by as much"
    " as cases vary more",
    **dict.fromkeys(
        ("zeroinflatedbeta", "zerooneinflatedbeta", "zoib"),
        "is not available: write family beta, with 0 and 1 as missing codes, and family logistic"
        " for whether a share is one of these",
    ),
    **dict.fromkeys(
        ("tweedie", "inversegaussian", "invgauss"),
        "is not available: write family gamma, of numbers above 0",
    ),
    **dict.fromkeys(
        ("skewnormal", "asymlaplace", "laplace", "rlm"),
        "is not available: write family student_t, whose residuals have long tails",
    ),
    **dict.fromkeys(
        ("sratio", "cratio", "acat"), "is not available: write family ordinal, proportional odds"
    ),
    "probit": "is not available: write family logistic, whose link is the logit",
}
# links of families, where they may be written: Gamma(link="log")
_LINKS = {
    **dict.fromkeys(("linear", "student_t"), "identity"),
    **dict.fromkeys(("logistic", "binomial", "multinomial", "ordinal", "beta"), "logit"),
    **dict.fromkeys(
        ("poisson", "negative_binomial", "hurdle_poisson", "gamma", "weibull", "exponential"), "log"
    ),
}
_CALLED = re.compile(r"\s*([\w. -]+?)\s*\(\s*(?:link\s*=\s*)?(['\"]?)(\w*)\2\s*\)\s*")
TRIALS = "binomial"
_GROUPED = re.compile(r"[^~]*\||\s*cbind\s*\([^~]*~")
_SURVIVAL = re.compile(r"\s*(?:survival::)?[sS]urv\s*\([^~]*~")


def _plain(name: str) -> str:
    """Return a name in lower case without separators."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_BY_PLAIN_NAME = {_plain(name): meant for name, meant in PUBLISHED.items()}


def algorithm_of(name: str) -> tuple[str, dict[str, str]]:
    """Return algorithm and options of a published name; an unknown name unchanged.

    Case, hyphens and spaces do not matter.
    """
    return _BY_PLAIN_NAME.get(_plain(name), (name, {}))


def method_of(name: str) -> str:
    """Return the method of sufficient_statistics with this published name, or the name."""
    return algorithm_of(name)[1].get("method", name)


def family_of(name: str, formula: object = "") -> str:
    """Return the family that R, brms, statsmodels or PyMC call so, or the name.

    Case, hyphens and spaces do not matter. A call such as Gamma(link="log") is its family. formula:
    whose left side tells counts of trials from rows of one trial each, which have the same name
    elsewhere. Raises SpecError where a family of this name, or one with this link, is none here,
    with what to write.
    """
    if called := _CALLED.fullmatch(name):
        family, link = family_of(called[1], formula), called[3].casefold()
        known = _LINKS.get(family)
        if link and known and link != known:
            message = f"{name}: {family} has the link {known!r} alone: write {family}"
            raise SpecError("/model/family", message)
        return family if known else name
    if _plain(name) in REFUSED:
        raise SpecError("/model/family", f"{name} {REFUSED[_plain(name)]}")
    if _plain(name) == TRIALS and isinstance(formula, str) and _GROUPED.match(formula):
        return TRIALS
    return FAMILIES.get(_plain(name), name)


def family_by(formula: str) -> str | None:
    """Return the family implied by a formula's left side, or None."""
    if _GROUPED.match(formula):
        return "binomial"
    return "exponential" if _SURVIVAL.match(formula) else None


def with_known_names(job: dict[str, Any]) -> dict[str, Any]:
    """Return a job as JSON with other software's names replaced by ours.

    A family that is left out is the one that the left side of the formula asks for, if any.
    Raises SpecError where one means something else than what stands beside it.
    """
    model = job.get("model")
    if isinstance(model, dict):
        family, formula = model.get("family"), model.get("formula")
        if isinstance(family, str):
            model = model | {"family": family_of(family, formula)}
        elif family is None and isinstance(formula, str) and (known_family := family_by(formula)):
            model = model | {"family": known_family}
    parts = {"model": model, "sampler": _with_known_algorithm(job.get("sampler"))}
    return job | {name: part for name, part in parts.items() if name in job}


def _with_known_algorithm(sampler: Any) -> Any:
    """Return `sampler` with published names of algorithms and methods replaced.

    Raises SpecError where another method stands beside such a name.
    """
    if not isinstance(sampler, dict):
        return sampler
    renamed = dict(sampler)
    if isinstance(renamed.get("method"), str):
        renamed["method"] = method_of(renamed["method"])
    if isinstance(renamed.get("algorithm"), str):
        renamed["algorithm"], options = algorithm_of(renamed["algorithm"])
        method = options.get("method")
        if method is not None and renamed.setdefault("method", method) != method:
            message = f"differs from {method}, which {sampler['algorithm']} means: give one of both"
            raise SpecError("/sampler/method", message)
    return renamed
