# Every error is a condition of class dpmcmcR_error and of a class of its own kind. None has a call
# or a parent: both could show the key.

fail <- function(message, class, ...) {
  stop(errorCondition(message, ..., class = c(class, "dpmcmcR_error"), call = NULL))
}

#' Errors of dpmcmcR
#'
#' Every error is a condition of class `dpmcmcR_error`, for [tryCatch()], and of one of these:
#'
#' * `dpmcmcR_refused`: the service refused. Its fields: `status` (of HTTP), `code` (a word of the
#'   service), `detail` (its sentence), `errors` (a data frame of `pointer`, the place in the
#'   request, and `message`), `request_id` (for the operator's log) and `problem` (the whole
#'   answer). The code makes a class as well, such as `dpmcmcR_budget_exhausted` or
#'   `dpmcmcR_low_quality_plan`.
#' * `dpmcmcR_unreached`: no service answers. Of [dp_fit()] the field `idempotency_key` submits the
#'   same job again, and never twice.
#' * `dpmcmcR_job_failed`: the job failed or was cancelled, with the fields `job`, `code`, `detail`.
#' * `dpmcmcR_timeout`: [dp_wait()] waited long enough; the job goes on.
#' * `dpmcmcR_formula`, `dpmcmcR_argument`: nothing was sent.
#'
#' The warning `dpmcmcR_unreliable` says that a result is not to be believed, and why.
#'
#' @name dpmcmcR_errors
#' @examples
#' tryCatch(
#'   dp_plan(y ~ I(x > 3), data = "clinic", epsilon = 1),
#'   dpmcmcR_formula = function(refused) conditionMessage(refused)
#' )
NULL

wrong <- function(...) fail(paste0(...), "dpmcmcR_argument")

# The error for an answer with a status of 400 or more. problem: its JSON, or a title alone.
refused <- function(response, problem, status = httr2::resp_status(response)) {
  code <- problem$code %||% ""
  detail <- problem$detail %||% problem$title %||% httr2::resp_status_desc(response)
  errors <- data.frame(
    pointer = vapply(problem$errors, function(one) one$pointer %||% "", ""),
    message = vapply(problem$errors, function(one) one$message %||% "", "")
  )
  request_id <- httr2::resp_header(response, "x-request-id") %||% NA_character_
  lines <- c(
    paste0(status, " ", code, ": ", detail, amounts(problem)),
    if (nrow(errors)) paste0("  ", errors$pointer, ": ", errors$message),
    if (!is.na(request_id)) paste("  request", request_id)
  )
  fail(
    paste(lines, collapse = "\n"),
    c(if (nzchar(code)) paste0("dpmcmcR_", code), "dpmcmcR_refused"),
    status = status, code = code, detail = detail, errors = errors, request_id = request_id,
    problem = problem
  )
}

# What a refused job costs, and what is left: rounded down, so that a job of that much fits.
amounts <- function(problem) {
  cost <- problem$requested$epsilon
  left <- problem$remaining$epsilon
  if (is.null(cost) || is.null(left)) {
    return("")
  }
  sprintf(" It costs epsilon %.4g, and %s is left.", cost, rounded_down(left))
}

rounded_down <- function(value) {
  if (value <= 0) {
    return("0")
  }
  place <- 10^(floor(log10(value)) - 3)
  sprintf("%.4g", floor(value * (1 + 1e-12) / place) * place)
}
