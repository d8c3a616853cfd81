import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="gamma")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Gamma regression: `family="gamma"`

    For numbers above 0 that are skewed: costs, lengths of stay, incomes. `exp` of a coefficient is a
    ratio of means; `log_sigma` is the log of sd over mean, the same for all rows.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(6)
    n = 20_000
    age = random.uniform(20, 80, n)
    private = random.random(n) < 0.3
    mean = np.exp(1.5 + 0.015 * (age - 50) + 0.25 * private)
    cost = random.gamma(4.0, mean / 4.0)
    rows = {"age": age, "private": np.where(private, "yes", "no"), "cost": cost}
    # a response is above 0: the smallest one that there can be is declared
    bounds = {"age": (20, 80), "private": ("no", "yes"), "cost": (0.1, 40)}
    schema = Schema.from_frame(rows, bounds=bounds)
    return rows, sample, schema


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Long responses weigh much here, and noise has to hide them: gamma needs more rows or a larger epsilon
    than a linear model of the log.
    """)
    return


@app.cell
def _(rows, sample, schema):
    fit = sample("cost ~ age + private", rows, schema, family="gamma", epsilon=6, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Mean costs** at covariates of your choice are free.
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"age": 30, "private": "no"}, {"age": 70, "private": "yes"}]))
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
