clinic <- paste0(
  '{"id": "53c40a79-125f-46c4-bef4-ebdc7fc607ce", "name": "clinic",',
  '"privacy": {"epsilon": 2, "delta": 1e-6}, "columns": [',
  '{"name": "cured", "type": "binary", "categories": ["no", "yes"]},',
  '{"name": "dose", "type": "number", "lower": 0, "upper": 10}]}'
)
id <- "53c40a79-125f-46c4-bef4-ebdc7fc607ce"

# Bodies of what is posted.
posted <- function(code) {
  bodies <- list()
  answering(function(request) {
    if (request$method == "POST") {
      bodies[[length(bodies) + 1L]] <<- list(body = request$body$data, headers = request$headers)
      return(json("{}"))
    }
    json(if (grepl("/v1/datasets$", request$url)) {
      paste0('{"items": [', clinic, '], "next_cursor": null}')
    } else {
      clinic
    })
  }, code)
  bodies
}

test_that("formula, data and epsilon have no default, and rows are not sent", {
  sent <- posted({
    expect_error(dp_fit(cured ~ dose, data = id), "epsilon is missing", class = "dpmcmcR_argument")
    expect_error(dp_fit(data = id, epsilon = 1), "formula is missing", class = "dpmcmcR_argument")
    expect_error(dp_fit(cured ~ dose, epsilon = 1), "data is missing", class = "dpmcmcR_argument")
    expect_error(dp_fit(cured ~ dose, id, Inf), "above 0", class = "dpmcmcR_argument")
    expect_error(dp_fit(cured ~ dose, id, 1, "logistic"), "by its name", class = "dpmcmcR_argument")
    expect_error(dp_fit(cured ~ dose, data.frame(dose = 1), 1), "stay", class = "dpmcmcR_argument")
    expect_error(dp_fit(cured ~ dose, "clinik", 1), "mean clinic", class = "dpmcmcR_argument")
  })
  expect_length(sent, 0L)
})

test_that("a job has the data set's id and delta, and the family of its response", {
  sent <- posted({
    expect_message(dp_plan(cured ~ dose, data = "clinic", epsilon = 1), "logistic")
    expect_message(dp_plan(dose ~ cured, data = "clinic", epsilon = 1), "linear")
  })
  expect_identical(sent[[1]]$body, list(
    dataset = id, model = list(formula = "cured ~ dose", family = "logistic"),
    privacy = list(epsilon = 1, delta = 1e-6)
  ))
})

test_that("the service reads the family off a response of two columns", {
  sent <- posted({
    dp_plan(Surv(dose, cured) ~ 1, id, 1)
    dp_plan(cbind(dose, dose) ~ 1, id, 1)
    dp_plan(dose | trials(10) ~ 1, id, 1)
  })
  expect_identical(lapply(sent, function(one) one$body$model), list(
    list(formula = "Surv(dose, cured) ~ 1"), list(formula = "cbind(dose, dose) ~ 1"),
    list(formula = "dose | trials(10) ~ 1")
  ))
})

test_that("options become members of the body", {
  sent <- posted(dp_fit(
    cured ~ dose, id, 4, family = binomial, delta = 1e-7, until = "reliable", spend = "all",
    max_rows = 2, prior = list(dose = dp_prior(scale = 1)), weights = "copies",
    options = list(variances = c(1, 2)), sampler = "dp_penalty", accept_low_quality = TRUE,
    idempotency_key = "mine"
  ))
  expect_identical(sent[[1]]$headers[["Idempotency-Key"]], "mine")
  expect_identical(sent[[1]]$body, list(
    dataset = id,
    model = list(formula = "cured ~ dose", family = "binomial",
                 prior = list(dose = list(kind = "normal", scale = 1)), weights = "copies",
                 options = list(variances = list(1, 2))),
    privacy = list(epsilon = list(up_to = 4, until = "reliable"), delta = 1e-7, max_rows = 2),
    sampler = list(algorithm = "dp_penalty"), spend = "all", accept_low_quality = TRUE
  ))
})

test_that("each job has a key of its own, and random numbers stay as they were", {
  set.seed(1)
  before <- .Random.seed
  sent <- posted(for (k in 1:2) dp_fit(cured ~ dose, id, 1, family = "logistic"))
  expect_identical(.Random.seed, before)
  keys <- vapply(sent, function(one) one$headers[["Idempotency-Key"]], "")
  expect_true(all(is_id(keys)) && keys[1] != keys[2])
})

test_that("a job that may have arrived can be submitted again", {
  answering(function(request) {
    if (request$method == "POST") stop("Timeout was reached")
    json(clinic)
  }, error <- caught(dp_fit(cured ~ dose, id, 1, family = "logistic", idempotency_key = "mine")))
  expect_s3_class(error, "dpmcmcR_unreached")
  expect_identical(error$idempotency_key, "mine")
  expect_match(conditionMessage(error), "idempotency_key = \"mine\"")
})

test_that("families of R are taken where the link is the service's", {
  text <- function(family) family_text(family, "y ~ x", NULL)
  expect_identical(text(stats::poisson()), "poisson")
  expect_identical(text(stats::gaussian), "gaussian")
  expect_identical(text(stats::Gamma("log")), "gamma")
  expect_error(text(stats::Gamma()), "link inverse", class = "dpmcmcR_argument")
  expect_error(text(stats::binomial("probit")), "link probit", class = "dpmcmcR_argument")
  expect_error(text(3), "must be a name", class = "dpmcmcR_argument")
})

test_that("a job holds no key, and is asked for at its own service", {
  answering(function(request) json(sprintf('{"id": "%s", "status": "queued"}', id)), {
    job <- dp_job(id)
    written <- rawToChar(serialize(list(job), NULL, ascii = TRUE))
    expect_match(written, "127.0.0.1")
    expect_no_match(written, "dpm_secret")
    other <- dp_connect("http://127.0.0.1:2", "dpm_other")
    expect_identical(connection_of(job, NULL)$key(), "dpm_secret")
    expect_error(dp_wait(job, con = other), "http://127.0.0.1:1", class = "dpmcmcR_argument")
  })
})

test_that("a job that failed is an error with its reason", {
  failed <- sprintf('{"id": "%s", "status": "failed", "error": {"code": "bad", "detail": "why"}}', id)
  answering(function(request) json(failed), {
    expect_error(dp_wait(id), "the job failed: bad why", class = "dpmcmcR_job_failed")
  })
  queued <- sprintf('{"id": "%s", "status": "queued", "progress": {"step": 0, "of": 0}}', id)
  answering(function(request) json(queued), {
    expect_error(dp_wait(id, timeout = 0.3), "still queued", class = "dpmcmcR_timeout")
  })
})

test_that("settings of covariates are rows of a data frame", {
  rows <- data.frame(dose = 1:2, group = factor(c("a", "b")), day = as.Date("2020-01-31"))
  expect_identical(settings(rows)[[2]], list(dose = 2, group = "b", day = "2020-01-31"))
  expect_error(settings(data.frame(dose = NA)), "dose .* missing", class = "dpmcmcR_argument")
  fit <- list(job = list(spec = list(model = list(formula = "y ~ log(dose) + `body mass`:C(g)"))))
  newdata <- data.frame(y = 1, g = "a", `body mass` = 2, dose = 3, other = 4, check.names = FALSE)
  expect_setequal(covariates_of(fit, newdata), c("g", "body mass", "dose"))
})

test_that("numbers are told by as many digits as their sd has", {
  expect_identical(rounded(c(1.23456, 0.0421), 0.0421), c("1.235", "0.042"))
  expect_identical(rounded_down(0.037577), "0.03757")
  expect_identical(rounded_down(0), "0")
})

test_that("priors may be written, by parameter or one of all coefficients", {
  expect_identical(prior_body("R2D2(0.5, 2)"), "R2D2(0.5, 2)")
  expect_identical(prior_body(c(dose = "normal(0, 0.02)")), list(dose = "normal(0, 0.02)"))
  both <- list(dose = dp_prior(scale = 1), age = "horseshoe()")
  expect_identical(prior_body(both), list(dose = list(kind = "normal", scale = 1),
                                          age = "horseshoe()"))
  expect_error(prior_body(list("horseshoe()")), "by parameter", class = "dpmcmcR_argument")
})
