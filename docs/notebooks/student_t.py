import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="student_t")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Student-t regression: `family="student_t"`

    For a number with outliers that should not decide: typing errors, a few very long stays. Residuals
    have Student's t distribution with four degrees of freedom, unless you say how many.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(5)
    n = 20_000
    dose = random.uniform(0, 10, n)
    days = 20 - 1.0 * dose + 2.0 * random.standard_t(4, n)
    wrong = random.random(n) < 0.01
    days[wrong] = random.uniform(60, 90, wrong.sum())  # typed with a digit too many
    rows = {"dose": dose, "days": days.clip(0, 90)}
    schema = Schema.from_frame(rows, bounds={"dose": (0, 10), "days": (0, 90)})
    return rows, sample, schema


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The slope that made the rows is -1. One in a hundred responses is wrong.
    """)
    return


@app.cell
def _(rows, sample, schema):
    fit = sample("days ~ dose", rows, schema, family="student_t", epsilon=2, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell
def _(rows, sample, schema):
    plain = sample("days ~ dose", rows, schema, family="linear", epsilon=2, delta=1e-6)
    print(plain)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A linear model has to follow the wrong responses: its intercept is higher, and its `log_sigma` far
    larger. Neither is wrong; they answer different questions.
    """)
    return


@app.cell
def _(fit):
    fit.plot("density")
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
