import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="logistic")


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Logistic regression: `family="logistic"`

    For an answer of yes or no. `exp` of a coefficient is an odds ratio for one more unit of its column.

    The rows are those of the RAND health insurance experiment, several years of each person: did
    somebody see a doctor in the year? So the promise is for persons and not for rows.
    """)
    return


@app.cell
def _():
    import pandas

    from dpmcmc import Schema, sample

    rand = pandas.read_csv("experiments/data/randhie.csv.gz")
    print(rand[["person", "any_visit", "chronic", "family_size"]].head(3).to_string(index=False))
    return Schema, rand, sample


@app.cell
def _(Schema, rand):
    schema = Schema.from_frame(
        rand,
        bounds={"any_visit": ("no", "yes"), "chronic": (0, 25), "family_size": (1, 8)},
        privacy_unit="person",
        max_rows=5,
    )
    return (schema,)


@app.cell
def _(rand, sample, schema):
    fit = sample("any_visit ~ chronic + family_size", rand, schema, epsilon=2, delta=1e-6)
    print(fit)
    return (fit,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    In sentences, with odds ratios:
    """)
    return


@app.cell
def _(fit):
    print(fit.explain())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Probabilities** at covariates of your choice are free.
    """)
    return


@app.cell
def _(fit):
    print(fit.predict([{"chronic": 0, "family_size": 2}, {"chronic": 20, "family_size": 2}]))
    return


@app.cell
def _(fit):
    fit.plot("forest", scale="design")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    For more than two answers see `multinomial`; for cases among several trials, `binomial`.
    """)
    return


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


if __name__ == "__main__":
    app.run()
