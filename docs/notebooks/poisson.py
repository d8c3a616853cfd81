import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="poisson")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Poisson regression: `family="poisson"`

    For counts: visits, accidents, purchases. `exp` of a coefficient is a ratio of rates for one more
    unit of its column. The response is declared as a number whose lower bound is 0.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(3)
    n = 20_000
    age = random.uniform(20, 80, n)
    smoker = random.random(n) < 0.25
    visits = random.poisson(np.exp(-0.5 + 0.02 * (age - 50) + 0.4 * smoker))
    rows = {"age": age, "smoker": np.where(smoker, "yes", "no"), "visits": visits}
    bounds = {"age": (20, 80), "smoker": ("no", "yes"), "visits": (0, 20)}
    schema = Schema.from_frame(rows, bounds=bounds)
    return age, n, np, random, rows, sample, schema, smoker


@app.cell
def _(rows, sample, schema):
    fit = sample("visits ~ age + smoker", rows, schema, family="poisson", epsilon=1, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The rows were made with a rate ratio of exp(0.4) = 1.49 for smokers.
    """)
    return


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Counts that vary more than Poisson allows** do not make the intervals too short: these are of the
    fit to the rows as they are. The next counts have about twice the variance, and wider intervals.
    """)
    return


@app.cell
def _(age, n, np, random, rows, sample, schema, smoker):
    spread = random.gamma(1.0, 1.0, n) * np.exp(-0.5 + 0.02 * (age - 50) + 0.4 * smoker)
    wide = {**rows, "visits": random.poisson(spread)}
    other = sample("visits ~ age + smoker", wide, schema, family="poisson", epsilon=1, delta=1e-6)
    print(other)
    return


@app.cell
def _(fit):
    fit.plot("forest", scale="design")
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
