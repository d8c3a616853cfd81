import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="binomial")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Cases among trials: `family="binomial"`

    For rows that count: so many of so many pupils passed, so many of so many visits were missed. The
    response is written `cases | trials(n)`. `exp` of a coefficient is an odds ratio.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(7)
    n = 20_000
    booked = random.integers(1, 9, n)
    distance = random.uniform(0, 50, n)
    missed = random.binomial(booked, 1 / (1 + np.exp(1.5 - 0.03 * distance)))
    rows = {"booked": booked, "missed": missed, "distance": distance}
    bounds = {"booked": (1, 8), "missed": (0, 8), "distance": (0, 50)}
    schema = Schema.from_frame(rows, bounds=bounds)
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("missed | trials(booked) ~ distance", rows, schema, epsilon=1, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **The share that is missed** near by and far away, free:
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"distance": 2}, {"distance": 45}]))
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
