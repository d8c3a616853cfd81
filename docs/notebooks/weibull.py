import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="weibull")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Times whose hazard changes: `family="weibull"`

    For times to an event whose hazard rises (wear) or falls (recovery). The shape is estimated beside
    the coefficients: above 1 the hazard rises.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(9)
    n = 20_000
    load = random.uniform(0, 10, n)
    years = 12 * np.exp(-0.08 * load) * random.weibull(1.6, n)
    followed = random.uniform(5, 20, n)
    rows = {
        "load": load,
        "years": np.minimum(years, followed),
        "failed": np.where(years <= followed, "yes", "no"),
    }
    schema = Schema.from_frame(
        rows, bounds={"load": (0, 10), "years": (0.01, 20), "failed": ("no", "yes")}
    )
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample(
        "surv(years, failed) ~ load", rows, schema, family="weibull", epsilon=2, delta=1e-6
    )
    print(fit)
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A coefficient is of the log time: `exp` of it is a ratio of times.
    """)
    return


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
