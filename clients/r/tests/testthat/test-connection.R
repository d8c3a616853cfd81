test_that("the key is printed nowhere, nor part of an error", {
  con <- dp_connect("http://127.0.0.1:1/", "dpm_secret")
  shown <- c(capture.output(print(con)), capture.output(str(con)), capture.output(dput(unclass(con))))
  expect_false(any(grepl("dpm_secret", shown)))
  expect_identical(con$url, "http://127.0.0.1:1")
  unreached <- caught(dp_datasets(con))
  expect_s3_class(unreached, "dpmcmcR_unreached")
  wrong_key <- caught(dp_connect("http://127.0.0.1:1", "dpm secret"))
  expect_match(conditionMessage(wrong_key), "white space")
  for (condition in list(unreached, wrong_key)) {
    expect_false(any(grepl("dpm.secret", capture.output(str(condition), print(condition)))))
    expect_null(conditionCall(condition))
  }
})

test_that("addresses that are none are refused, and do not show what may be a password", {
  for (url in c("127.0.0.1:8000", "ftp://x", "http://", "https://me:pass@host", "http://a b")) {
    wrong <- caught(dp_connect(url, "k"))
    expect_s3_class(wrong, "dpmcmcR_argument")
    expect_false(grepl("pass@", conditionMessage(wrong)))
  }
  expect_error(dp_connect("", "k"), "DPMCMC_URL", class = "dpmcmcR_argument")
  expect_error(dp_connect("http://127.0.0.1:1", ""), "DPMCMC_KEY", class = "dpmcmcR_argument")
})

refusal <- paste0(
  '{"title": "t", "status": 409, "code": "budget_exhausted", "detail": "too much {x}",',
  '"errors": [{"pointer": "/privacy/epsilon", "message": "at most 4"}],',
  '"requested": {"epsilon": 5}, "remaining": {"epsilon": 0.037577}}'
)

test_that("a refusal has its code, sentence, pointers and request id", {
  answering(function(request) json(refusal, 409L, "application/problem+json", "X-Request-Id: r1"), {
    error <- caught(dp_datasets())
  })
  expect_s3_class(error, c("dpmcmcR_budget_exhausted", "dpmcmcR_refused", "dpmcmcR_error", "error"),
                  exact = FALSE)
  expect_identical(error$status, 409L)
  expect_identical(error$code, "budget_exhausted")
  expect_identical(error$detail, "too much {x}")
  expect_identical(error$request_id, "r1")
  expect_identical(error$errors$pointer, "/privacy/epsilon")
  expect_match(conditionMessage(error), "too much \\{x\\} It costs epsilon 5, and 0.03757 is left")
  expect_match(conditionMessage(error), "/privacy/epsilon: at most 4")
})

test_that("answers of something else are no answers", {
  answering(function(request) json("<html>", 502L, "text/html"), {
    expect_identical(caught(dp_datasets())$status, 502L)
  })
  answering(function(request) json("<html>", 200L, "text/html"), {
    expect_error(dp_datasets(), class = "dpmcmcR_no_json")
  })
  answering(function(request) json("", 308L, headers = "Location: http://elsewhere"), {
    expect_error(dp_datasets(), class = "dpmcmcR_redirected")
  })
})

test_that("a rate limit is waited for, and other refusals are not", {
  asked <- 0L
  slow <- '{"code": "rate_limited"}'
  answering(function(request) {
    asked <<- asked + 1L
    if (asked < 3L) json(slow, 429L, headers = "Retry-After: 0") else
      json('{"items": [], "next_cursor": null}')
  }, expect_identical(nrow(dp_datasets()), 0L))
  expect_identical(asked, 3L)
  asked <- 0L
  answering(function(request) {
    asked <<- asked + 1L
    json(slow, 429L, headers = "Retry-After: 0")
  }, expect_error(dp_datasets(), class = "dpmcmcR_rate_limited"))
  expect_identical(asked, 6L)
})

test_that("lists are followed to their last page", {
  page <- '{"items": [{"id": "%s", "status": "queued"}], "next_cursor": %s}'
  answering(function(request) {
    if (grepl("cursor=c%261", request$url)) json(sprintf(page, "b", "null")) else
      json(sprintf(page, "a", '"c&1"'))
  }, expect_identical(ask_all(connection(NULL), "/v1/jobs"),
                      list(list(id = "a", status = "queued"), list(id = "b", status = "queued"))))
})
