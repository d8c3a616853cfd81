import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="hurdle_poisson")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Counts with many zeros: `family="hurdle_poisson"`

    For counts such as visits to a doctor, where many have none. One part of the model says who has
    none: `exp` of `zero_age` multiplies the odds of that. The other says how many visits the others
    have: `exp` of `age` multiplies their rate.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(4)
    n = 20_000
    age = random.uniform(20, 80, n)
    visits = random.poisson(np.exp(0.7 + 0.01 * (age - 50)), n)
    visits[random.random(n) < 1 / (1 + np.exp(0.04 * (age - 50)))] = 0
    rows = {"age": age, "visits": visits}
    schema = Schema.from_frame(rows, bounds={"age": (20, 80), "visits": (0, 40)})
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("visits ~ age", rows, schema, family="hurdle_poisson", epsilon=2, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Two ages compared, free:** mean visits, the probability of none, and the ratios of mean visits
    and of the odds of having none.
    """)
    return


@app.cell
def _(fit):
    free = fit.release.posterior()
    print(free.predict([{"age": 70}, {"age": 30}]))
    difference = free.compare({"age": 70}, {"age": 30})
    print(f"times as many visits: {difference.ratio}")
    print(f"odds of none: {difference.odds}")
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
