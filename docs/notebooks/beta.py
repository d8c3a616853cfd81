import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="beta")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Shares: `family="beta"`

    For a number between 0 and 1, such as the part of an income that goes to rent. `exp` of a
    coefficient multiplies the odds of the mean share. The larger `log_dispersion`, the less shares
    vary.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(12)
    n = 20_000
    income = random.uniform(1, 9, n)
    mean = 1 / (1 + np.exp(0.3 * (income - 3)))
    rows = {"income": income, "rent": random.beta(mean * 8, (1 - mean) * 8)}
    schema = Schema.from_frame(rows, bounds={"income": (1, 9), "rent": (0.001, 0.999)})
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("rent ~ income", rows, schema, family="beta", epsilon=1, delta=1e-6)
    print(fit)
    print(fit.explain())
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Shares of a small and a large income**, free:
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"income": 2}, {"income": 8}]))
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
