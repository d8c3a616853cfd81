import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="linear")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Linear regression: `family="linear"`

    For a number that may be anything within its bounds: a blood pressure, a test score, the log of an
    income. A coefficient is the change of the mean response for one more unit of its column.

    Here 20,000 made-up patients are measured once each. The slopes that made them are known, so that
    the answer can be checked.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Budget, Schema, plan, sample

    random = np.random.default_rng(1)
    n = 20_000
    age = random.uniform(18, 90, n)
    salt = random.gamma(4.0, 2.0, n).clip(0, 30)
    pressure = 95 + 0.4 * age + 0.9 * salt + random.normal(0, 12, n)
    rows = {"age": age, "salt": salt, "pressure": pressure}
    return Budget, Schema, np, plan, rows, sample


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Say what is public.** Bounds come from what is known of the world, never from the rows. Narrow
    bounds need less noise; what lies outside is clamped.
    """)
    return


@app.cell
def _(Schema, rows):
    bounds = {"age": (18, 90), "salt": (0, 30), "pressure": (60, 220)}
    schema = Schema.from_frame(rows, bounds=bounds)
    return (schema,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Plan first.** A plan reads no row and costs nothing.
    """)
    return


@app.cell
def _(plan, schema):
    planned = plan("pressure ~ age + salt", schema, epsilon=1, delta=1e-6)
    print(f"intervals about {planned.expected_width:.2f} times as wide as without privacy")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Fit.** The budget pays once, before a row is read.
    """)
    return


@app.cell
def _(Budget, rows, sample, schema):
    budget = Budget(epsilon=2, delta=1e-6)
    fit = sample("pressure ~ age + salt", rows, schema, epsilon=1, budget=budget)
    print(fit)
    return (fit,)


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    `log_sigma` is the log of the residuals' standard deviation; exp of it should be near 12.
    """)
    return


@app.cell
def _(fit, np):
    draws = fit.to_frame()
    print(f"residual sd: {np.exp(draws['log_sigma']).mean():.1f}")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Ask more, free.** The mean response at covariates of your choice costs nothing.
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"age": 40, "salt": 5}, {"age": 70, "salt": 15}]))
    return


@app.cell
def _(fit):
    fit.plot("forest", scale="design")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Where a few responses lie far out, look at `student_t`; where responses are positive and skewed, at
    `gamma`.
    """)
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
