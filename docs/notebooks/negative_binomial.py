import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="negative_binomial")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Negative binomial regression: `family="negative_binomial"`

    For counts that vary more than Poisson allows: few people have most of the visits. The variance is
    mean + mean² / k. The smaller k is, the more counts vary. Its log is a parameter of the model.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import ModelOptions, ModelSpec, Schema, plan, sample

    random = np.random.default_rng(4)
    n = 20_000
    age = random.uniform(20, 80, n)
    rate = random.gamma(2.0, 1 / 2.0, n) * np.exp(0.5 + 0.02 * (age - 50))
    rows = {"age": age, "visits": random.poisson(rate)}
    schema = Schema.from_frame(rows, bounds={"age": (20, 80), "visits": (0, 40)})
    return ModelOptions, ModelSpec, plan, rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("visits ~ age", rows, schema, family="negative_binomial", epsilon=2, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Another prior, free.** A sceptic believes that age hardly matters.
    """)
    return


@app.cell
def _(fit):
    sceptic = fit.release.posterior({"age": "normal(0, 0.005)"})
    slope = sceptic.summary()["age"]
    print(f"age: {slope.mean:.4f} ({slope.q05:.4f} to {slope.q95:.4f})")
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
