# Against a running service, with the data sets visits and clinic and with what the Python client
# got of it: ./dev r starts one.

python <- function() {
  jsonlite::fromJSON(Sys.getenv("DPMCMC_TEST_PYTHON"), simplifyVector = FALSE)
}

test_that("a posterior is the Python client's, to the last digit", {
  live()
  expected <- python()
  fit <- dp_wait(expected$job)
  parameters <- expected$summary$parameters
  for (field in c("mean", "sd", "q05", "q25", "q50", "q75", "q95", "ess_bulk", "ess_tail")) {
    expect_identical(summary(fit)[[field]], vapply(parameters, function(one) one[[field]], 0))
  }
  expect_identical(summary(fit)$rhat, vapply(parameters, function(one) one$r_hat, 0))
  names <- vapply(parameters, function(one) one$name, "")
  expect_identical(names(coef(fit)), names)
  expect_gt(length(expected$draws), 3L)
  for (name in names(expected$draws)) { # (chain, draw) of the Python client's netCDF
    chains <- posterior::extract_variable_matrix(fit$draws, name)
    for (k in seq_along(expected$draws[[name]])) {
      expect_identical(as.numeric(chains[, k]), as.numeric(unlist(expected$draws[[name]][[k]])))
    }
  }
  expect_identical(fit$verdict$sentence, expected$summary$verdict$sentence)
  expect_equal(unname(confint(fit)), unname(as.matrix(summary(fit)[c("q05", "q95")])))
  expect_equal(unname(sqrt(diag(vcov(fit)))), summary(fit)$sd, tolerance = 1e-3)
})

test_that("a check is the Python client's, to the last digit, and the next one costs", {
  live()
  expected <- python()$check
  check <- dp_wait(expected$job)
  for (field in c("p_value", "statistic", "detectable", "misfit", "family", "formula", "by")) {
    expect_identical(check[[field]], expected$result[[field]])
  }
  expect_identical(check$sentences, unlist(expected$result$sentences))
  for (field in c("low", "high", "expected", "share", "noise_sd", "rows")) {
    found <- vapply(expected$result$bins, function(one) as.numeric(one[[field]] %||% NA), 0)
    expect_identical(as.data.frame(check)[[field]], found)
  }
  before <- dp_budget("visits")
  fit <- dp_wait(python()$job)
  plan <- dp_plan_check(fit, epsilon = 0.1, bins = 8)
  expect_true(plan$usable)
  expect_output(print(plan), "a misfit of .* would show")
  expect_identical(dp_budget("visits"), before)
  job <- dp_check_fit(fit, epsilon = 0.1, bins = 8)
  expect_output(print(job), "a check of logistic: any_visit")
  again <- dp_wait(job)
  expect_identical(nrow(again$bins), 8L)
  expect_output(print(again), "noise sd")
  expect_gt(dp_budget("visits")$spent, before$spent)
  expect_true(fit$job$spec$model$formula %in% dp_jobs(1)$formula)
  expect_error(dp_check_fit(check$job, epsilon = 0.1), "no regression",
               class = "dpmcmcR_invalid_request")
})

test_that("a plan is the Python client's, to the last digit", {
  live()
  expected <- python()
  plan <- suppressMessages(dp_plan(stats::as.formula(expected$formula), "visits", epsilon = 1))
  numbers <- Filter(is.numeric, expected$plan)
  expect_gt(length(numbers), 5L)
  for (name in names(numbers)) {
    expect_equal(plan[[name]], numbers[[name]], tolerance = 0)
  }
})

test_that("free answers agree with the Python client's, under another prior and without a cost", {
  live()
  expected <- python()
  before <- dp_budget("visits")
  fit <- dp_wait(expected$job)
  free <- dp_posterior(fit, prior = list(chronic = dp_prior("laplace", scale = 0.5)),
                       num_draws = 4000)
  at <- stats::setNames(free$parameters$variable, NULL)
  for (one in expected$free$summary) {
    row <- free$parameters[at == one$name, ]
    expect_lt(abs(row$mean - one$mean), 6 * one$sd * sqrt(2 / 4000))
    expect_lt(abs(row$sd / one$sd - 1), 0.1)
  }
  expect_identical(free$priors$kind[free$priors$variable == "chronic"], "laplace")
  expect_identical(dim(posterior::as_draws_matrix(as_draws_df(free))), c(4000L, length(at)))
  rows <- data.frame(chronic = c(1, 5, 20), sex = factor("male"), income = 5000, any_visit = "no")
  expect_lt(max(abs(predict(fit, rows)$mean - unlist(expected$predictions))), 0.02)
  many <- predict(fit, rows[rep(1:3, 60), ])
  expect_identical(nrow(many), 180L)
  expect_identical(many$chronic, rep(c(1, 5, 20), 60))
  link <- predict(fit, rows, type = "link")
  expect_equal(stats::plogis(link$q50), predict(fit, rows)$q50, tolerance = 0.05)
  expect_error(predict(fit, rows, type = "new"), "two categories", class = "dpmcmcR_argument")
  expect_error(predict(fit, transform(rows, chronic = 26)), "/given/0/chronic",
               class = "dpmcmcR_invalid_request")
  asked <- dp_posterior(
    fit, contrasts = c(chronic = 2), null = c(chronic = 0), given = rows[1, c(1:3)],
    comparisons = list(given = rows[2, 1:3], against = rows[1, 1:3]),
    effects = list(covariate = "sex", given = rows[1:2, 1:3])
  )
  expect_gt(asked$bayes_factors$log_bayes_factor, 5)
  expect_identical(asked$comparisons$ratio_of, "odds")
  expect_identical(asked$effects$against, "female")
  expect_output(print(asked), "bayes factors")
  expect_identical(dp_budget("visits"), before)
})

test_that("a job is submitted once, waited for, and costs what its plan says", {
  live()
  before <- dp_budget("clinic")
  submit <- function(formula) {
    dp_fit(formula, "clinic", 1, family = gaussian(), idempotency_key = key)
  }
  key <- new_uuid()
  job <- submit(mass ~ age)
  expect_output(print(job), job$id)
  expect_identical(submit(mass ~ age)$id, job$id)
  expect_error(submit(mass ~ dose), class = "dpmcmcR_idempotency_key_reused")
  fit <- dp_wait(job)
  after <- dp_budget("clinic")
  expect_identical(after$jobs - before$jobs, 1)
  expect_equal(fit$job$cost$epsilon, 1, tolerance = 1e-6)
  expect_identical(fit$job$id, job$id)
  expect_lt(abs(coef(fit)[["age"]] - 0.5), 5 * sqrt(vcov(fit)["age", "age"]))
  expect_output(print(fit), "mean +sd")
  expect_output(dp_explain(fit), "age")
  new <- predict(fit, data.frame(age = 40), type = "new")
  expect_gt(new$sd, 2 * predict(fit, data.frame(age = 40))$sd)
  expect_true(job$id %in% dp_jobs()$id)
  written <- rawToChar(serialize(fit, NULL, ascii = TRUE))
  expect_no_match(written, Sys.getenv("DPMCMC_TEST_KEY"), fixed = TRUE)
})

test_that("a response of several categories has a probability for each", {
  live()
  fit <- suppressMessages(dp_wait(dp_fit(kind ~ age, "clinic", 2)))
  found <- predict(fit, data.frame(age = c(30, 60)))
  expect_identical(found$category, rep(c("a", "b", "c"), 2))
  expect_equal(tapply(found$mean, found$age, sum), c("30" = 1, "60" = 1), ignore_attr = TRUE)
  rows <- data.frame(age = c(30, 60))
  asked <- suppressWarnings(dp_posterior(
    fit, comparisons = list(given = rows[2, , drop = FALSE], against = rows[1, , drop = FALSE]),
    effects = list(list(covariate = "age", given = rows))
  ))
  for (part in c("comparisons", "effects")) {
    expect_identical(asked[[part]]$category, c("a", "b", "c"))
    expect_lt(abs(sum(asked[[part]]$mean)), 1e-9)
  }
  difference <- found$mean[4:6] - found$mean[1:3]
  expect_lt(max(abs(asked$comparisons$mean - difference)), 0.05)
})

test_that("a formula without covariates predicts the mean", {
  live()
  fit <- suppressMessages(dp_wait(dp_fit(mass ~ 1, "clinic", 0.5)))
  found <- predict(fit, data.frame(row = 1:2))
  expect_equal(found$mean, rep(coef(fit)[["Intercept"]], 2), tolerance = 0.01)
})

test_that("an unreliable result warns with its verdict", {
  live()
  expect_warning(
    fit <- dp_wait(dp_fit(mass ~ age + dose + kind, "clinic", 0.02, family = "linear",
                          spend = "all", accept_low_quality = TRUE)),
    class = "dpmcmcR_unreliable"
  )
  expect_identical(fit$verdict$status, "unreliable")
  expect_error(dp_fit(mass ~ age + dose + kind, "clinic", 0.02, family = "linear"),
               class = "dpmcmcR_low_quality_plan")
})

test_that("formulas arrive as they are meant", {
  live()
  large <- stats::as.formula(call("~", quote(cured), as.symbol("gr\u00f6\u00dfe")))
  wanted <- list(
    list(cured ~ `body mass` + T, c("Intercept", "`body mass`|body mass", "T")),
    list(large, c("Intercept", "gr\u00f6\u00dfe")),
    list(cured ~ 1, "Intercept"),
    list(cured ~ poly(age, 2), NULL), list(cured ~ bs(age, knots = c(30, 50)), NULL),
    list(cured ~ bs(age, knots = c(40)), NULL), list(cured ~ ns(age, df = 3), NULL),
    list(cured ~ log(age) + I(dose^2) + I(age^-1), NULL), list(cured ~ age * kind - age:kind, NULL),
    list(cured ~ (age + dose + kind)^2, NULL), list(cured ~ relevel(kind, ref = "b"), NULL),
    list(cured ~ factor(kind) + age:kind, NULL), list(cured ~ -1 + age, "age"),
    list(cured ~ 0 + kind, NULL), list(cured ~ . - age, NULL), list(cured ~ day, NULL),
    list(cured ~ age + offset(log(age)), NULL), list(cured ~ age + (1 | kind), NULL)
  )
  for (one in wanted) {
    plan <- dp_plan(one[[1]], "clinic", epsilon = 1, family = "logistic")
    expect_gt(length(plan$parameters), 0L)
    if (!is.null(one[[2]])) {
      expect_match(unlist(plan$parameters), paste0("^(", paste(one[[2]], collapse = "|"), ")$"))
    }
  }
  hazard <- dp_plan(Surv(age, cured) ~ dose, "clinic", epsilon = 1)
  expect_identical(unlist(hazard$parameters), c("Intercept", "dose"))
  crossed <- dp_plan(cured ~ age:dose, "clinic", epsilon = 1, family = "logistic")
  expect_length(crossed$parameters, 2L)
})

test_that("public facts of data sets are data frames", {
  live()
  expect_setequal(dp_datasets()$name, c("visits", "clinic"))
  rows <- dp_dummy("clinic", rows = 20, seed = 3)
  expect_identical(dim(rows), c(20L, 9L))
  expect_s3_class(rows$day, "Date")
  expect_identical(levels(rows$kind), c("a", "b", "c"))
  expect_identical(rows, dp_dummy("clinic", rows = 20, seed = 3))
  expect_output(print(dp_dataset("clinic")), "a, b, c")
  expect_setequal(dp_budget()$dataset, c("visits", "clinic"))
})

test_that("a wrong key and a wrong column are refused in the service's words", {
  con <- live()
  expect_error(dp_datasets(dp_connect(con$url, "dpm_wrong")), "^401 ", class = "dpmcmcR_refused")
  live()
  error <- caught(dp_plan(cured ~ agee, "clinic", epsilon = 1, family = "logistic"))
  expect_match(conditionMessage(error), "/model/formula: .*did you mean 'age'")
  expect_false(is.na(error$request_id))
})
