stream <- function(...) {
  json(paste0(..., collapse = ""), type = "text/event-stream")
}

test_that("a snapshot is the data set that its stream ends with", {
  asked <- NULL
  answer <- function(request) {
    asked <<- request
    stream("event: progress\ndata: {\"rows\": 5}\n\n",
           "event: dataset\ndata: {\"id\": \"d\", \"name\": \"visits\", \"rows\": 9, ",
           "\"columns\": [], \"privacy\": {\"epsilon\": 3, \"delta\": 1e-6}}\n\n")
  }
  made <- answering(answer, dp_snapshot(list(name = "clinic", table = "visits"),
                                        list(name = "visits")))
  expect_s3_class(made, "dp_dataset")
  expect_identical(made$rows, 9L)
  expect_identical(asked$body$data$source$table, "visits")
  expect_match(asked$url, "/v1/datasets/snapshots$")
})

test_that("a problem at the end of a stream is an error with its code", {
  answer <- function(request) {
    stream("event: problem\ndata: {\"status\": 422, \"code\": \"invalid_request\", ",
           "\"detail\": \"The source offers no such table.\"}\n\n")
  }
  error <- caught(answering(answer, dp_snapshot(list(name = "clinic"), list(name = "visits"))))
  expect_s3_class(error, "dpmcmcR_invalid_request")
  expect_identical(error$status, 422L)
  broken <- function(request) stream("event: progress\ndata: {\"rows\": 5}\n\n")
  error <- caught(answering(broken, dp_snapshot(list(name = "clinic"), list(name = "visits"))))
  expect_s3_class(error, "dpmcmcR_no_json")
})

test_that("sources are a table, and an address for mail is changed", {
  listed <- function(request) {
    json(paste0("{\"items\": [{\"name\": \"clinic\", \"kind\": \"postgresql\", ",
                "\"tables\": [\"a\", \"b\"], \"queries\": []}], \"next_cursor\": null}"))
  }
  found <- answering(listed, dp_sources())
  expect_identical(found$tables, 2L)
  asked <- NULL
  me <- function(request) {
    asked <<- request
    json("{\"name\": \"ada\", \"email\": null}")
  }
  expect_null(answering(me, dp_email(NULL)))
  expect_identical(asked$method, "PATCH")
  expect_true("email" %in% names(asked$body$data))
  expect_error(dp_email(3), "address")
})
