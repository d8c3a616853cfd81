# Run code against answers that are written here. answer: from a request to a response.
answering <- function(answer, code) {
  old <- options(httr2_mock = answer)
  on.exit(options(old))
  dp_connect("http://127.0.0.1:1", "dpm_secret")
  force(code)
}

json <- function(text, status = 200L, type = "application/json", headers = character()) {
  httr2::response(status_code = status, body = charToRaw(text),
                  headers = c(paste0("Content-Type: ", type), headers))
}

# The fields of a caught error.
caught <- function(code) tryCatch(code, error = identity)

# A connection to the service that the tests were given; they cost budget, so they ask for its own
# variables and not for the user's.
live <- function() {
  url <- Sys.getenv("DPMCMC_TEST_URL")
  testthat::skip_if(!nzchar(url), "no service in DPMCMC_TEST_URL")
  dp_connect(url, Sys.getenv("DPMCMC_TEST_KEY"))
}
