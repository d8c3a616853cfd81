"""Real data sets as regressions: covariates within [-1, 1], responses, and declared bounds.

All of ../shared/data (its README says where they are from): `datasets`, `real`, and `panels` with
their rows as rows. Bounds are those that a codebook would declare, rounded from the data: public
here, never read off private data in the service.
"""

import csv
import gzip
from collections.abc import Callable
from functools import cache

import numpy as np

from experiments.calibration import DISPERSION, Case, designed, fitted, scaled, season
from experiments.posteriors import SHARED

MISSING = {"", "NA", "?", "N/A", "nan"}


@cache
def read(folder, name):
    """Columns of a file, as text."""
    with gzip.open(SHARED / "data" / folder / f"{name}.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def made(family, folder, name, response, columns, ends, when=None, dispersion=DISPERSION):
    """Return a Case. columns: name -> (low, high), or the word that is coded as 1.

    response: name of a column, or a function of the columns. Rows with missing values are left out.
    dispersion: as an analyst would type it, of negative binomial counts.
    """
    known = read(folder, name)
    keys = [key for key in columns if key in known]
    whole = ~np.any([np.isin(known[key], list(MISSING)) for key in keys], axis=0)
    if isinstance(response, str):
        whole &= ~np.isin(known[response], list(MISSING))
    if when is not None:
        whole &= when(known)
    told = {key: values[whole] for key, values in known.items()}
    x = [
        (told[key] == how) * 1.0 if isinstance(how, str) else scaled(told[key], *how)
        for key, how in columns.items()
    ]
    y = response(told) if isinstance(response, Callable) else told[response].astype(float)
    y = np.clip(y, *ends)
    theta, _, sd = fitted(family, designed(x), y, dispersion)
    return Case(family, designed(x), theta, sd, ends, y, dispersion)


def coded(name, *words):
    """Return what gives the codes of a column's words."""
    return lambda known: np.argmax(known[name] == np.array(words)[:, None], axis=0) * 1.0


WAGE = {"education": (0, 18), "experience": (-4, 63), "ethnicity": "afam", "smsa": "yes"}
ILL = {"lnhhexp": (0, 6), "age": (0, 5), "sex": "male", "married": "1", "educ": (0, 18)}
CRASH = {"airbag": "airbag", "seatbelt": "belted", "frontal": "1", "sex": "m"}
CRASH |= {"ageOFocc": (16, 97), "occRole": "driver"}
HOUSE = {"sex": "female", "age": (16, 100), "educyr": (0, 22), "farm": "yes", "urban": "yes"}
HOUSE |= {"hhsize": (1, 20)}
HEALTH = {"coins": (0, 100), "xage": (0, 65), "female": "1", "black": "1.0", "educdec": (0, 25)}
HEALTH |= {"disea": (0, 59), "hlthg": "1", "hlthf": "1"}
SMOKE = {"occupation": "bluecol", "nkids": (0, 5), "nadults": (1, 7), "lnx": (11, 16)}
SMOKE |= {"age": (0, 4)}
PUPIL = {"cltype": "small", "sx": "F", "eth": "W", "ses": "F", "exp": (0, 42)}
SCHOOL = {"year": (-2.5, 2.5), "female": "Female", "black": "1", "hispanic": "1", "size": (0, 1500)}
SCHOOL |= {"lowinc": (0, 100)}
WEATHER = {"PT08_S1_CO": (600, 2100), "NOx_GT": (0, 1500), "NO2_GT": (0, 350)}
RIDES = {"temp": (0, 1), "hum": (0, 1), "windspeed": (0, 1), "workingday": "1", "yr": "1"}
POWER = {"AT": (1, 38), "V": (25, 82), "AP": (990, 1035), "RH": (25, 101)}
CENSUS = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99), "sex": "Male"}
CENSUS |= {"marital_status": "Married-civ-spouse", "race": "White"}
CELLS = {
    "powerplant": lambda: made("linear", "datasets", "powerplant", "PE", POWER, (420.0, 496.0)),
    "wage": lambda: made("linear", "real", "cps1988", "wage", WAGE, (0.0, 5000.0)),
    "wage capped": lambda: made("linear", "real", "cps1988", "wage", WAGE, (0.0, 20000.0)),
    "tobacco": lambda: made("linear", "real", "tobacco", "stobacco", SMOKE, (0.0, 0.3)),
    "alcohol": lambda: made("linear", "real", "tobacco", "salcohol", SMOKE, (0.0, 0.4)),
    "expenditure": lambda: made("linear", "real", "vietnamh", "lntotal", HOUSE, (6.0, 13.0)),
    "medical": lambda: made("linear", "real", "vietnamh", "lnmed", HOUSE, (0.0, 13.0)),
    "outlays": lambda: made("linear", "real", "randhie", "outpdol", HEALTH, (0.0, 3000.0)),
    "mental health": lambda: made("linear", "real", "randhie", "mhi", HEALTH, (0.0, 100.0)),
    "air": lambda: made(
        "linear", "datasets", "airquality_thesis003", "CO_GT", WEATHER, (0.0, 12.0),
        lambda k: np.all([k[c].astype(float) > -200 for c in [*WEATHER, "CO_GT"]], axis=0),
    ),
    "star maths": lambda: made("linear", "panels", "star", "math", PUPIL, (300.0, 780.0)),
    "school maths": lambda: made("linear", "panels", "egsingle", "math", SCHOOL, (-6.0, 6.0)),
    "capital gain": lambda: made(
        "linear", "datasets", "adult", "capital_gain", CENSUS, (0.0, 1e5)
    ),
    "adult": lambda: made(
        "logistic", "datasets", "adult", lambda k: (k["income"] == ">50K") * 1.0, CENSUS,
        (0.0, 1.0),
    ),
    "crashes": lambda: made(
        "logistic", "real", "nasscds", lambda k: (k["dead"] == "dead") * 1.0, CRASH, (0.0, 1.0)
    ),
    "insured": lambda: made("logistic", "real", "vietnami", "insurance", ILL, (0.0, 1.0)),
    "obese": lambda: made(
        "logistic", "panels", "muscatine", lambda k: (k["obese"] == "yes") * 1.0,
        {"gender": "F", "age": (5, 19), "occasion": (1, 3)}, (0.0, 1.0),
        lambda k: ~np.isin(k["obese"], list(MISSING)),
    ),
    "bike": lambda: made("poisson", "datasets", "bike_hour", "cnt", RIDES, (0.0, 1000.0)),
    "pharmacy": lambda: made("poisson", "real", "vietnami", "pharvis", ILL, (0.0, 40.0)),
    "illness": lambda: made("poisson", "real", "vietnami", "illness", ILL, (0.0, 10.0)),
    "visits": lambda: made("poisson", "real", "randhie", "mdvis", HEALTH, (0.0, 80.0)),
    "household": lambda: made(
        "poisson", "real", "vietnamh", "hhsize",
        {k: v for k, v in HOUSE.items() if k != "hhsize"}, (0.0, 20.0),
    ),
    "bike, k 1.5": lambda: made(
        "negative_binomial", "datasets", "bike_hour", "cnt", RIDES, (0.0, 1000.0), None, 1.5
    ),
    "pharmacy, k 0.2": lambda: made(
        "negative_binomial", "real", "vietnami", "pharvis", ILL, (0.0, 40.0), None, 0.2
    ),
    "illness, k 2": lambda: made(
        "negative_binomial", "real", "vietnami", "illness", ILL, (0.0, 10.0), None, 2.0
    ),
    "visits, k 0.5": lambda: made(
        "negative_binomial", "real", "randhie", "mdvis", HEALTH, (0.0, 80.0), None, 0.5
    ),
    "season": season,
    "region": lambda: made(
        "multinomial", "real", "cps1988", coded("region", "south", "northeast", "midwest", "west"),
        WAGE, (0.0, 3.0),
    ),
    "speed": lambda: made(
        "multinomial", "real", "nasscds",
        coded("dvcat", "10-24", "1-9km/h", "25-39", "40-54", "55+"), CRASH, (0.0, 4.0),
    ),
    "occupation": lambda: made(
        "multinomial", "real", "tobacco", coded("occupation", "inactself", "bluecol", "whitecol"),
        {k: v for k, v in SMOKE.items() if k != "occupation"}, (0.0, 2.0),
    ),
}  # fmt: skip
