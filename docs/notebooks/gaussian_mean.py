import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="gaussian_mean")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Means of known variance: `family="gaussian_mean"`

    For the means of one or several numbers whose variances are known, as of an instrument. The planner
    takes `noisy_mean`: sums of clamped rows with noise, and the exact posterior given them.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import ModelOptions, ModelSpec, Schema, sample

    random = np.random.default_rng(11)
    n = 5_000
    height = random.normal(172, 10, n)
    rows = {"height": height}
    schema = Schema.from_frame(rows, bounds={"height": (120, 220)})
    return ModelOptions, ModelSpec, height, n, np, rows, sample, schema


@app.cell
def _(ModelOptions, ModelSpec, rows, sample, schema):
    model = ModelSpec(
        family="gaussian_mean", formula="~ height", options=ModelOptions(variances=(100.0,))
    )
    fit = sample(rows, schema=schema, model=model, epsilon=0.5, delta=1e-6)
    print(fit)
    return


@app.cell
def _(height, n, np):
    print(f"without privacy: {height.clip(120, 220).mean():.2f} ({10 / np.sqrt(n):.2f})")
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
