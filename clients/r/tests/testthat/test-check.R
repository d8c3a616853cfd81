fitted <- paste0(
  '{"id": "%1$s", "status": "succeeded", "kind": "chain", "dataset": "%1$s",',
  '"cost": {"epsilon": 1, "delta": 1e-6}}'
)
checked <- paste0(
  '{"id": "%1$s", "status": "succeeded", "kind": "task", "dataset": "%1$s",',
  '"spec": {"task": {"kind": "predictive_check", "model": {"family": "poisson",',
  '"formula": "visits ~ age"}}}, "cost": {"epsilon": 0.2, "delta": 1e-6},',
  '"protects": {"unit": "row", "max_rows": 1}, "algorithm": "predictive_check",',
  '"verdict": {"status": "%2$s", "sentence": "%2$s: as it is.", "notes": []}}'
)
result <- paste0(
  '{"kind": "predictive_check", "family": "poisson", "formula": "visits ~ age",',
  '"by": "distribution", "statistic": 30.5, "degrees": 2, "p_value": 0.001, "misfit": true,',
  '"detectable": 0.02, "sentences": ["The rows differ.", "Try negative_binomial."], "bins": [',
  '{"low": 0, "high": 0.5, "expected": 0.5, "share": 0.4, "noise_sd": 0.01, "sd": 0.02,',
  '"rows": 40, "differs": "fewer"},',
  '{"low": 0.5, "high": 0.75, "expected": 0.25, "share": null, "noise_sd": null, "sd": null,',
  '"rows": 0, "differs": ""},',
  '{"low": 0.75, "high": 1, "expected": 0.25, "share": 0.35, "noise_sd": 0.01, "sd": 0.02,',
  '"rows": 35, "differs": "more"}]}'
)
id <- "53c40a79-125f-46c4-bef4-ebdc7fc607ce"

# A check that was waited for. status: of its verdict.
check <- function(status = "reliable") {
  answering(function(request) {
    json(if (grepl("/result$", request$url)) result else sprintf(checked, id, status))
  }, dp_wait(id))
}

test_that("a check names its fit, and has the fit's delta and a key of its own", {
  sent <- list()
  answering(function(request) {
    if (request$method == "GET") {
      return(json(sprintf(fitted, id)))
    }
    sent[[length(sent) + 1L]] <<- list(url = request$url, body = request$body$data,
                                       key = request$headers[["Idempotency-Key"]])
    json("{}")
  }, {
    dp_check_fit(id, epsilon = 0.2)
    dp_plan_check(dp_job(id), epsilon = 0.2, bins = 8, delta = 1e-7)
    expect_error(dp_check_fit(id), "epsilon is missing", class = "dpmcmcR_argument")
    expect_error(dp_check_fit(id, 0), "above 0", class = "dpmcmcR_argument")
    expect_error(dp_check_fit(id, 1, 8), "by its name", class = "dpmcmcR_argument")
    expect_error(dp_check_fit(id, 1, bins = 4.5), "whole", class = "dpmcmcR_argument")
    expect_error(dp_check_fit(1, 1), "job must be", class = "dpmcmcR_argument")
  })
  expect_length(sent, 2L)
  expect_match(sent[[1]]$url, "/v1/jobs$")
  expect_true(is_id(sent[[1]]$key))
  expect_identical(sent[[1]]$body, list(
    dataset = id, task = list(kind = "predictive_check", job = id, bins = 10L),
    privacy = list(epsilon = 0.2, delta = 1e-6), accept_low_quality = FALSE
  ))
  expect_match(sent[[2]]$url, "/v1/plans$")
  expect_identical(sent[[2]]$body$task$bins, 8L)
  expect_identical(sent[[2]]$body$privacy$delta, 1e-7)
})

test_that("a check is printed in words and as bins", {
  found <- check()
  expect_true(found$misfit)
  expect_identical(found$bins$share, c(0.4, NA, 0.35))
  expect_identical(as.data.frame(found), found$bins)
  printed <- paste(capture.output(print(found)), collapse = "\n")
  for (said in c("check of poisson: visits ~ age", "epsilon 0.2", "protects a row",
                 "Try negative_binomial", "0 to 0.5", "40.0 %", "too few", "fewer")) {
    expect_match(printed, said, fixed = TRUE)
  }
  expect_warning(check("unreliable"), class = "dpmcmcR_unreliable")
})

test_that("a check is drawn, also with bins of too few rows, and with options of the caller", {
  found <- check()
  file <- tempfile(fileext = ".pdf")
  on.exit(unlink(file))
  grDevices::pdf(file)
  shown <- tryCatch({
    shown <- list(withVisible(plot(found)), plot(found, main = "mine", col = "grey"))
    few <- found
    few$bins$share[] <- NA
    plot(few)
    shown
  }, finally = grDevices::dev.off())
  expect_false(shown[[1]]$visible)
  expect_identical(shown[[1]]$value, found$bins)
  expect_identical(shown[[2]], found$bins)
  expect_gt(file.size(file), 0)
})
