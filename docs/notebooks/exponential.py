import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="exponential")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Times to an event: `family="exponential"`

    For times with right censoring: some people leave the study before anything happens. The response is
    written `surv(time, event)`. `exp` of a coefficient is a hazard ratio; the hazard does not change
    with time.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(8)
    n = 20_000
    dose = random.uniform(0, 10, n)
    days = random.exponential(300 / np.exp(-0.1 * dose))
    followed = random.uniform(100, 1000, n)
    rows = {
        "dose": dose,
        "days": np.minimum(days, followed),
        "died": np.where(days <= followed, "yes", "no"),
    }
    # a time is above 0: the shortest one that there can be is declared
    schema = Schema.from_frame(
        rows, bounds={"dose": (0, 10), "days": (0.1, 1000), "died": ("no", "yes")}
    )
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("surv(days, died) ~ dose", rows, schema, epsilon=1, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The rows were made with a hazard ratio of exp(-0.1) = 0.90 for one more of the dose.
    """)
    return


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Where the hazard rises or falls with time, see `weibull`.
    """)
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
