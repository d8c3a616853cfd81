import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="multinomial")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # More than two answers: `family="multinomial"`

    For a response of several categories. The first one declared is the reference: each other category
    has coefficients of its own, and `exp` of one is an odds ratio against the reference.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(10)
    n = 20_000
    income = random.uniform(0, 100, n)
    bus, train = 1.0 - 0.03 * income, -1.0 + 0.01 * income
    utility = np.column_stack([np.zeros(n), bus, train]) + random.gumbel(size=(n, 3))
    way = np.array(["car", "bus", "train"])[utility.argmax(axis=1)]
    rows = {"income": income, "way": way}
    schema = Schema.from_frame(rows, bounds={"income": (0, 100), "way": ("car", "bus", "train")})
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("way ~ income", rows, schema, epsilon=1, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Shares of each way** at two incomes, free:
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"income": 20}, {"income": 80}]))
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
