import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="ordinal")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Answers in an order: `family="ordinal"`

    For a response of several categories that have an order, declared from the lowest to the highest.
    Each column has one coefficient, and `exp` of it multiplies the odds of a higher category. Cuts
    between categories stand in the place of an intercept.
    """)
    return


@app.cell
def _():
    import numpy as np

    from dpmcmc import Schema, sample

    random = np.random.default_rng(11)
    n = 20_000
    wait = random.uniform(0, 60, n)
    mood = random.logistic(size=n) - 0.04 * wait
    answers = ("poor", "fair", "good", "excellent")
    answer = np.array(answers)[np.digitize(mood, [-3.0, -1.0, 1.0])]
    rows = {"wait": wait, "answer": answer}
    schema = Schema.from_frame(rows, bounds={"wait": (0, 60), "answer": answers})
    return rows, sample, schema


@app.cell
def _(rows, sample, schema):
    fit = sample("answer ~ wait", rows, schema, family="ordinal", epsilon=1, delta=1e-6)
    print(fit)
    print(fit.explain())
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Shares of each answer** after a short and a long wait, free:
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"wait": 5}, {"wait": 55}]))
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
