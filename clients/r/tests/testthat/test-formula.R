carried_formulas <- list(
  list(y ~ x + C(g), "y ~ x + C(g)"),
  list(log(w) ~ poly(x, 2, raw = TRUE), "log(w) ~ poly(x, 2, raw=True)"),
  list(y ~ poly(x, 3, raw = T), "y ~ poly(x, 3, raw=True)"),
  list(y ~ bs(a, knots = c(30, 60)), "y ~ bs(a, knots=(30, 60))"),
  list(y ~ bs(a, knots = c(30)), "y ~ bs(a, knots=(30,))"),
  list(y ~ splines::ns(x, df = 4L), "y ~ ns(x, df=4)"),
  list(y ~ I((age - 50)^2 / mass) - 1, "y ~ I((age - 50)^2 / mass) - 1"),
  list(y ~ (a + b)^2 + offset(log(z)), "y ~ (a + b)^2 + offset(log(z))"),
  list(y ~ a * b + a:b + a / b, "y ~ a * b + a:b + a / b"),
  list(y ~ . - a, "y ~ . - a"),
  list(y ~ x + (1 | g), "y ~ x + (1 | g)"),
  list(y ~ x + (x || g), "y ~ x + (x || g)"),
  list(y ~ (1 | a / b), "y ~ (1 | a / b)"),
  list(cases | trials(a + b) ~ x, "cases | trials(a + b) ~ x"),
  list(stats::as.formula("survival::Surv(days / 7, died) ~ x"), "Surv(days / 7, died) ~ x"),
  list(~ a + b, "~ a + b"),
  list(y ~ relevel(g, ref = "b"), "y ~ relevel(g, ref=\"b\")"),
  list(y ~ C(g, ref = "it\"s"), "y ~ C(g, ref='it\"s')"),
  list(y ~ `body mass` + .x + T, "y ~ `body mass` + `.x` + `T`"),
  list(y ~ I(x^-1) + I(-x), "y ~ I(x^(-1)) + I(-x)"),
  list(y ~ I(0.1 * x + 1e-07), "y ~ I(0.1 * x + 1e-07)"),
  list(y ~ I(x^2^3 - (a - b)), "y ~ I(x^2^3 - (a - b))")
)

test_that("formulas are written as the service reads them", {
  for (one in carried_formulas) {
    expect_identical(formula_text(one[[1]]), one[[2]])
  }
  expect_identical(formula_text("y ~ a + C(b)"), "y ~ a + C(b)")
})

test_that("formulas that were built keep their meaning", {
  built <- stats::as.formula(call("~", quote(y), call("*", quote(a + b), quote(c))))
  expect_identical(formula_text(built), "y ~ (a + b) * c")
  less <- stats::as.formula(call("~", quote(y), call("I", call("-", quote(a), quote(b - c)))))
  expect_identical(formula_text(less), "y ~ I(a - (b - c))")
  power <- stats::as.formula(call("~", quote(y), call("I", call("^", quote(a^b), 2))))
  expect_identical(formula_text(power), "y ~ I((a^b)^2)")
})

test_that("names of all scripts and numbers of all digits arrive", {
  name <- "gr\u00f6\u00dfe"
  built <- stats::as.formula(call("~", quote(y), as.symbol(name)))
  expect_identical(formula_text(built), paste0("y ~ `", name, "`"))
  for (number in c(1 / 3, 1e-300, 123456789.123, 2^53, 0.1 + 0.2)) {
    expect_identical(as.numeric(number_text(number)), number)
  }
})

test_that("what cannot be carried is refused by name, before anything is sent", {
  refused <- list(
    list(y ~ a %in% b, "a:b"),
    list(y ~ d$x, "d\\$x .*table"), list(y ~ I(x > 3), "x > 3 .*categories"),
    list(y ~ x[1], "x\\[1\\]"), list(y ~ (function(u) u)(x), "names alone"), list(y ~ I(NA * x), "NA"),
    list(y ~ utils::head(x), "names alone")
  )
  sent <- 0L
  answering(function(request) {
    sent <<- sent + 1L
    json("{}")
  }, {
    for (one in refused) {
      expect_error(dp_plan(one[[1]], data = "clinic", epsilon = 1), one[[2]],
                   class = "dpmcmcR_formula")
    }
  })
  expect_identical(sent, 0L)
})
