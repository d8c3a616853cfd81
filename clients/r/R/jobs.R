#' Plan and submit a regression
#'
#' `dp_plan()` says what a fit would cost and how wide its intervals would be, from public facts
#' alone; it spends nothing. `dp_fit()` reserves the cost and queues the job. It and [dp_check_fit()]
#' are the only functions of this package that cost anything, and take neither a formula nor an
#' epsilon from anywhere but the call.
#'
#' @section Formulas:
#' R's: `y ~ a + b`, `a:b`, `a*b`, `I((age - 50)^2)`, `poly(x, 2)`, `log(x)`, `factor(g)`,
#' `relevel(g, "b")`, `bs(x, df = 5)`, `ns(x, df = 4)`, `offset(log(years))`, `y ~ .`, and names in
#' backticks; `(1 | ward)`, `(x | ward)` and `(1 | region/ward)` for effects of groups; `cases | trials(n)`, `cbind(cases, others)`
#' and `Surv(time, event)` as responses. No part is evaluated here: `poly` is orthogonal, and knots lie, on the *declared*
#' bounds, so that the design says nothing about the rows. What cannot be carried is refused before
#' anything is sent.
#'
#' @param formula A formula, or its text as the service has it.
#' @param data Name or id of a data set of the service; no data frame, as the rows stay there.
#' @param epsilon What the job may cost. It has no default.
#' @param ... Must be empty: what follows is given by its name.
#' @param family Such as `"logistic"`, `"linear"`, `"poisson"`, `"negative_binomial"`,
#'   `"hurdle_poisson"`, `"student_t"`, `"gamma"`, `"beta"`, `"multinomial"`, `"ordinal"`, `"weibull"` for
#'   `Surv(time, event)` (which is exponential where none is named), or a family of R with the
#'   same link: `binomial()`, `gaussian()`, `poisson()`, `Gamma("log")`. By default that of the response's
#'   type: logistic for two categories, multinomial for more, linear for a number; a message says
#'   which. The service reads it off responses of two columns.
#' @param delta By default the data set's.
#' @param prior One [dp_prior()] for all coefficients, or a list of them by parameter. By default
#'   the service's.
#' @param sampler By default the planner's choice. A name, such as `"dp_penalty"`, or a list with
#'   `algorithm` and its options.
#' @param weights Name of a number column with a weight for each row.
#' @param options A list with the options of a family, such as `list(dispersion = 2)`.
#' @param max_rows Most rows of one person, where the data set protects persons.
#' @param until `"reliable"`: epsilon is the most that the job may cost; it begins small and goes on
#'   until its result is reliable.
#' @param spend `"all"`: go on where the job's own released numbers show that it is hopeless, which
#'   otherwise ends it and returns the rest.
#' @param accept_low_quality Take a job that the plan calls of no use, which is refused otherwise.
#' @param idempotency_key A text; the same one never makes a second job. By default a new one.
#' @param con Connection; by default the last one of [dp_connect()].
#' @return `dp_plan()`: a list of class `dp_plan`, the service's answer with its `warnings` and
#'   `reasons`. `dp_fit()`: a `dp_job`, to be given to [dp_wait()].
#' @examples
#' \dontrun{
#' dp_plan(cured ~ dose + factor(group), data = "clinic", epsilon = 1)
#' job <- dp_fit(cured ~ dose + factor(group), data = "clinic", epsilon = 1)
#' fit <- dp_wait(job)
#' }
#' @export
dp_plan <- function(formula, data, epsilon, ..., family = NULL, delta = NULL, prior = NULL,
                    sampler = NULL, weights = NULL, options = NULL, max_rows = NULL, until = NULL,
                    spend = NULL, con = NULL) {
  nothing_else(...)
  body <- job_body(formula, data, epsilon, family, delta, prior, sampler, weights, options,
                   max_rows, until, spend, con)
  answer <- ask(connection(con), "POST", "/v1/plans", body = body)
  structure(answer, class = "dp_plan", job = body)
}

#' @rdname dp_plan
#' @export
dp_fit <- function(formula, data, epsilon, ..., family = NULL, delta = NULL, prior = NULL,
                   sampler = NULL, weights = NULL, options = NULL, max_rows = NULL, until = NULL,
                   spend = NULL, accept_low_quality = FALSE, idempotency_key = NULL, con = NULL) {
  nothing_else(...)
  key <- checked_idempotency(idempotency_key)
  body <- job_body(formula, data, epsilon, family, delta, prior, sampler, weights, options,
                   max_rows, until, spend, con)
  body$accept_low_quality <- accept_low_quality
  con <- connection(con)
  as_job(ask(con, "POST", "/v1/jobs", body = body, headers = list("Idempotency-Key" = key)), con)
}

checked_idempotency <- function(key) {
  key <- key %||% new_uuid()
  if (!is_text(key) || !grepl("^[\x20-\x7e]+$", key, useBytes = TRUE)) {
    wrong("idempotency_key must be plain text that can be printed")
  }
  key
}

nothing_else <- function(...) {
  if (...length()) {
    wrong("give what follows epsilon by its name, such as family = \"logistic\"")
  }
}

# The body of a job. Raises errors on what is missing or cannot be carried.
job_body <- function(formula, data, epsilon, family, delta, prior, sampler, weights, options,
                     max_rows, until, spend, con) {
  absent <- c(formula = missing(formula), data = missing(data), epsilon = missing(epsilon))
  if (any(absent)) {
    wrong(names(which(absent))[1], " is missing: a job has no default of it")
  }
  text <- formula_text(formula)
  if (!is_number(epsilon) || epsilon <= 0) {
    wrong("epsilon must be a number above 0: what the job may cost")
  }
  con <- connection(con)
  about <- dp_dataset(data, con)
  model <- list(formula = text)
  model$family <- family_text(family, text, about)
  if (!is.null(prior)) {
    model$prior <- if (inherits(prior, "dp_prior")) unclass(prior) else prior_body(prior)
  }
  if (!is.null(weights)) {
    model$weights <- weights
  }
  if (!is.null(options)) {
    model$options <- arrays(options)
  }
  privacy <- list(
    epsilon = if (is.null(until)) epsilon else list(up_to = epsilon, until = until),
    delta = delta %||% about$privacy$delta
  )
  if (!is.null(max_rows)) {
    privacy$max_rows <- max_rows
  }
  body <- list(dataset = about$id, model = model, privacy = privacy)
  if (!is.null(sampler)) {
    body$sampler <- arrays(if (is_text(sampler)) list(algorithm = sampler) else sampler)
  }
  if (!is.null(spend)) {
    body$spend <- spend
  }
  body
}

# Options as JSON has them: vectors of several values are arrays, single ones stay values.
arrays <- function(options) {
  if (!is.list(options) || is.null(names(options))) {
    wrong("options and samplers are lists by name, such as list(algorithm = \"dp_penalty\")")
  }
  lapply(options, function(value) {
    if (is.list(value)) arrays(value) else if (length(value) > 1L) as.list(value) else value
  })
}

by_type <- c(binary = "logistic", category = "multinomial", number = "linear", date = "linear")
links <- c(binomial = "logit", gaussian = "identity", poisson = "log", Gamma = "log")

# The name of a family; that of the response's column where there is none.
family_text <- function(family, formula, about) {
  if (is_text(family)) {
    return(family)
  }
  if (is.function(family)) {
    family <- family()
  }
  if (inherits(family, "family")) {
    link <- links[family$family]
    if (is.na(link) || link != family$link) {
      said <- paste0(names(links), "(\"", links, "\")", collapse = ", ")
      wrong("a ", family$family, " family with link ", family$link, " is not available: there is ",
            said, ", or a name such as \"negative_binomial\"")
    }
    return(tolower(family$family))
  }
  if (!is.null(family)) {
    wrong("family must be a name such as \"logistic\", or a family such as binomial()")
  }
  if (grepl("^[^~]*\\||^\\s*([sS]urv|cbind)\\s*\\([^~]*~", formula)) {
    return(NULL) # the response's form says it, and the service reads that
  }
  if (grepl("^[^~]*\\||^\\s*([sS]urv|cbind)\\s*\\(", formula)) {
    return(NULL) # the service reads it off the response
  }
  response <- gsub("^`|`$", "", trimws(sub("~.*", "", formula)))
  types <- stats::setNames(texts(about$columns, "type"), texts(about$columns, "name"))
  if (!response %in% names(types)) {
    wrong("the response ", response, " is no column of ", about$name, ": there is ",
          paste(utils::head(names(types), 10), collapse = ", "),
          ". For one that is computed give the family, such as family = \"linear\".")
  }
  chosen <- by_type[[types[[response]]]]
  message("family: ", chosen, ", as ", response, " is a ", types[[response]], " column")
  chosen
}

as_job <- function(answer, con) structure(answer, class = "dp_job", url = con$url)

#' Jobs
#'
#' `dp_job()` picks up a job by its id, `dp_jobs()` lists the newest, `dp_cancel()` ends one. Once a
#' job runs, what it has been charged stays charged.
#'
#' @param job A `dp_job`, a `dp_fit` or an id.
#' @param most How many jobs.
#' @param con Connection; by default the last one to the job's service, or of [dp_connect()].
#' @return `dp_job()` and `dp_cancel()`: a `dp_job` as it is now. `dp_jobs()`: a data frame with
#'   `id`, `formula`, `family`, `algorithm`, `epsilon`, `status` and `verdict`.
#' @examples
#' \dontrun{
#' dp_jobs()
#' dp_wait(dp_job("53c40a79-125f-46c4-bef4-ebdc7fc607ce"))
#' }
#' @export
dp_job <- function(job, con = NULL) {
  con <- connection_of(job, con)
  as_job(ask(con, "GET", paste0("/v1/jobs/", job_id(job))), con)
}

#' @rdname dp_job
#' @export
dp_jobs <- function(most = 20, con = NULL) {
  items <- ask_all(connection(con), "/v1/jobs", most)
  data.frame(
    id = texts(items, "id"),
    formula = vapply(items, function(item) model_of(item)$formula %||% NA_character_, ""),
    family = vapply(items, function(item) model_of(item)$family %||% NA_character_, ""),
    algorithm = texts(items, "algorithm"),
    epsilon = vapply(items, function(item) as.numeric(item$cost$epsilon), 0),
    status = texts(items, "status"),
    verdict = vapply(items, function(item) item$verdict$status %||% NA_character_, "")
  )
}

#' @rdname dp_job
#' @export
dp_cancel <- function(job, con = NULL) {
  con <- connection_of(job, con)
  as_job(ask(con, "POST", paste0("/v1/jobs/", job_id(job), "/cancel")), con)
}

job_id <- function(job) {
  id <- if (is.list(job)) job$id else job
  if (!is_text(id) || !is_id(id)) {
    wrong("job must be a job that dp_fit() made, a fit, or a job's id")
  }
  id
}

#' Wait for a job
#'
#' Shows its progress until it has ended, and gets what it released. A result that is not to be
#' believed warns with class `dpmcmcR_unreliable`.
#'
#' @param job A `dp_job`, or the id of a job.
#' @param timeout Seconds to wait at most.
#' @param scale `"original"`, in the units of the columns, or `"design"`, of the standardised ones.
#' @param con Connection; by default the last one to the job's service.
#' @return A `dp_fit`: see [dp_fit-methods]. Of a job of [dp_check_fit()] a `dp_check`.
#' @examples
#' \dontrun{
#' fit <- dp_wait(dp_fit(cured ~ dose, data = "clinic", epsilon = 1))
#' }
#' @export
dp_wait <- function(job, timeout = 600, scale = c("original", "design"), con = NULL) {
  scale <- match.arg(scale)
  con <- connection_of(job, con)
  ended <- wait_for(job_id(job), timeout, con)
  if (ended$status != "succeeded") {
    detail <- ended$error$detail %||% ""
    fail(paste0("the job ", ended$status, ": ", ended$error$code %||% ended$status, " ", detail),
         "dpmcmcR_job_failed", job = ended$id, code = ended$error$code %||% ended$status,
         detail = detail)
  }
  if (identical(ended$spec$task$kind, "predictive_check")) {
    found <- check_of(ended, con)
    warn_unreliable(found)
    return(found)
  }
  released(ended, scale, con)
}

wait_for <- function(id, timeout, con) {
  deadline <- Sys.time() + timeout
  cli::cli_progress_bar("sampling", total = 1)
  repeat {
    job <- ask(con, "GET", paste0("/v1/jobs/", id))
    if (job$status %in% c("succeeded", "failed", "cancelled")) {
      return(job)
    }
    if (Sys.time() > deadline) {
      fail(paste0("job ", id, " is still ", job$status, "; dp_wait() goes on with it"),
           "dpmcmcR_timeout", job = id)
    }
    cli::cli_progress_update(set = min(job$progress$step / max(1, job$progress$of), 1))
    Sys.sleep(0.2)
  }
}

#' @export
print.dp_job <- function(x, ...) {
  cat("<dp_job> ", x$id, "\n", sep = "")
  cat(subject(x), "\n", x$algorithm, ", epsilon ", signif(x$cost$epsilon, 4), ", delta ",
      x$cost$delta, ", ", coloured(x$status), "\n", sep = "")
  invisible(x)
}

# The model of a job, or of the fit that it checks.
model_of <- function(job) job$spec$model %||% job$spec$task$model

# Family and formula of a job, or what kind of job it is.
subject <- function(job) {
  model <- model_of(job)
  said <- if (is.null(model)) {
    paste("a", job$kind)
  } else {
    paste0(model$family, ": ", model$formula)
  }
  if (is.null(job$spec$task$model)) said else paste("a check of", said)
}

coloured <- function(status) {
  switch(status, succeeded = , reliable = cli::col_green(status),
         failed = , cancelled = , unreliable = cli::col_red(status), cli::col_yellow(status))
}

protected <- function(protects) {
  if (protects$unit == "row") {
    return("a row")
  }
  paste0("a person (named by ", protects$unit, ", at most ", protects$max_rows,
         if (protects$max_rows == 1) " row)" else " rows)")
}

#' @export
print.dp_plan <- function(x, ...) {
  cat(cli::style_bold("Plan"), " (public facts only, nothing spent)\n", sep = "")
  facts <- c(
    cost = paste0("epsilon ", signif(x$epsilon, 4), ", delta ", x$delta),
    protects = protected(x$protects),
    algorithm = x$algorithm,
    noise = if (!length(x$parameters)) unlist(x$reasons)[1],
    "chains x steps" = if (length(x$parameters)) paste(x$num_chains, "x", x$num_steps),
    "expected ESS" = if (!is.null(x$expected_ess)) format(round(x$expected_ess)),
    "expected width" = if (!is.null(x$expected_width)) {
      paste(signif(x$expected_width, 3), "times the posterior's")
    },
    "left afterwards" = paste("epsilon", if (is.null(x$remaining_after$epsilon)) "unknown" else
      rounded_down(x$remaining_after$epsilon)),
    affordable = if (x$affordable) cli::col_green("yes") else cli::col_red("no"),
    usable = if (x$usable) cli::col_green("yes") else
      paste0(cli::col_red("no"), ": it would be refused without accept_low_quality = TRUE")
  )
  cat(paste0("  ", format(names(facts)), "  ", facts, "\n"), sep = "")
  for (warning in x$warnings) {
    cat(cli::col_yellow("warning: "), warning, "\n", sep = "")
  }
  invisible(x)
}
