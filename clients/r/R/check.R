#' Check whether a fit fits the rows
#'
#' A posterior predictive check: a noisy histogram of how the rows lie in what the fit predicts for
#' them. It takes another look at the rows, so that each call of `dp_check_fit()` costs epsilon;
#' `dp_plan_check()` says what it would cost and which misfit would show, and spends nothing. Numbers,
#' counts and times are placed in their predictive distribution: under the model every bin has the
#' same share of the rows. Yes or no, and categories, are compared with their fitted probabilities.
#'
#' @param fit A `dp_fit`, a `dp_job` that has succeeded, or the id of one: a regression of yours.
#' @param epsilon What the check may cost. It has no default.
#' @param ... Must be empty: what follows is given by its name. Of `plot()`: for
#'   [graphics::barplot()].
#' @param bins Number of bins, from 4 to 20.
#' @param delta By default that of the fit.
#' @param accept_low_quality Take a check whose noise hides misfits that matter, which is refused
#'   otherwise.
#' @param idempotency_key A text; the same one never makes a second job. By default a new one.
#' @param con Connection; by default the last one to the fit's service.
#' @return `dp_plan_check()`: a `dp_plan`. `dp_check_fit()`: a `dp_job`, of which [dp_wait()] returns
#'   a list of class `dp_check`: `misfit`, whether the rows differ from the model by more than
#'   sampling and noise explain; `sentences`, what was found and what may fit better; `bins`, a data
#'   frame with `low`, `high`, `expected`, `share`, `noise_sd`, `sd`, `rows` and `differs` (`share` is
#'   missing where a bin has too few rows); `statistic`, `degrees` and `p_value` of the test of all
#'   bins; `detectable`, the least misfit that shows nine times in ten; `by`, and the `verdict`.
#'   `print()` has it in words, `as.data.frame()` returns the bins, and `plot()` draws them, beside
#'   what the model expects and with two sds of the noise, and returns them invisibly.
#' @examples
#' \dontrun{
#' fit <- dp_wait(dp_fit(visits ~ age, data = "clinic", epsilon = 1, family = "poisson"))
#' dp_plan_check(fit, epsilon = 0.2)
#' check <- dp_wait(dp_check_fit(fit, epsilon = 0.2))
#' check
#' plot(check)
#' }
#' @export
dp_check_fit <- function(fit, epsilon, ..., bins = 10, delta = NULL, accept_low_quality = FALSE,
                         idempotency_key = NULL, con = NULL) {
  nothing_else(...)
  key <- checked_idempotency(idempotency_key)
  con <- connection_of(fit, con)
  body <- check_body(fit, epsilon, bins, delta, con)
  body$accept_low_quality <- accept_low_quality
  as_job(ask(con, "POST", "/v1/jobs", body = body, headers = list("Idempotency-Key" = key)), con)
}

#' @rdname dp_check_fit
#' @export
dp_plan_check <- function(fit, epsilon, ..., bins = 10, delta = NULL, con = NULL) {
  nothing_else(...)
  con <- connection_of(fit, con)
  body <- check_body(fit, epsilon, bins, delta, con)
  structure(ask(con, "POST", "/v1/plans", body = body), class = "dp_plan", job = body)
}

check_body <- function(fit, epsilon, bins, delta, con) {
  if (missing(epsilon)) {
    wrong("epsilon is missing: a check has no default of it")
  }
  if (!is_number(epsilon) || epsilon <= 0) {
    wrong("epsilon must be a number above 0: what the check may cost")
  }
  if (!is_number(bins) || bins != round(bins)) {
    wrong("bins must be a whole number")
  }
  job <- if (inherits(fit, "dp_fit")) fit$job else dp_job(fit, con)
  task <- list(kind = "predictive_check", job = job$id, bins = as.integer(bins))
  list(dataset = job$dataset, task = task,
       privacy = list(epsilon = epsilon, delta = delta %||% job$cost$delta))
}

# What a check released.
check_of <- function(job, con) {
  answer <- ask(con, "GET", paste0("/v1/jobs/", job$id, "/result"))
  bins <- data.frame(
    low = numbers(answer$bins, "low"), high = numbers(answer$bins, "high"),
    expected = numbers(answer$bins, "expected"), share = numbers(answer$bins, "share"),
    noise_sd = numbers(answer$bins, "noise_sd"), sd = numbers(answer$bins, "sd"),
    rows = numbers(answer$bins, "rows"), differs = texts(answer$bins, "differs")
  )
  taken <- answer[c("family", "formula", "by", "statistic", "degrees", "p_value", "misfit",
                    "detectable")]
  structure(
    c(list(id = job$id, job = as_job(job, con), verdict = job$verdict,
           sentences = as.character(unlist(answer$sentences)), bins = bins), taken),
    class = "dp_check", url = con$url
  )
}

#' @export
print.dp_check <- function(x, ...) {
  cat("check of ", x$family, ": ", x$formula, "\n", sep = "")
  cat("predictive_check, epsilon ", signif(x$job$cost$epsilon, 4), ", delta ", x$job$cost$delta,
      "; protects ", protected(x$job$protects), "\n", sep = "")
  cat(verdict_text(x$verdict), "\n", sep = "")
  cat(strwrap(x$sentences, exdent = 2), sep = "\n")
  percent <- function(values) ifelse(is.na(values), "too few", sprintf("%.1f %%", 100 * values))
  shown <- cbind(expected = percent(x$bins$expected), released = percent(x$bins$share),
                 "noise sd" = ifelse(is.na(x$bins$noise_sd), "", percent(x$bins$noise_sd)),
                 differs = x$bins$differs)
  rownames(shown) <- bin_names(x$bins)
  print(shown, quote = FALSE, right = TRUE)
  invisible(x)
}

bin_names <- function(bins) paste(signif(bins$low, 3), "to", signif(bins$high, 3))

#' @rdname dp_check_fit
#' @param x A `dp_check`.
#' @param row.names,optional As of [as.data.frame()].
#' @export
as.data.frame.dp_check <- function(x, row.names = NULL, optional = FALSE, ...) {
  as.data.frame(x$bins, row.names = row.names, optional = optional)
}

#' @rdname dp_check_fit
#' @export
plot.dp_check <- function(x, ...) {
  bins <- x$bins
  low <- pmax(bins$share - 2 * bins$noise_sd, 0)
  high <- bins$share + 2 * bins$noise_sd
  happened <- x$by == "probability"
  drawn <- list(
    height = pmax(bins$share, 0), names.arg = bin_names(bins), las = 2, cex.names = 0.7,
    ylim = c(0, 1.25 * max(high, bins$expected, na.rm = TRUE)), border = NA,
    col = ifelse(nzchar(bins$differs), "#b4472e", "#9db4c8"),
    main = paste0(x$family, ": ", x$formula),
    ylab = if (happened) "share that happened" else "share of the rows",
    sub = if (x$misfit) "The rows differ from the model" else "No misfit that this check can see"
  )
  at <- do.call(graphics::barplot, utils::modifyList(drawn, list(...)))
  there <- which(!is.na(bins$share))
  graphics::segments(at[there], low[there], at[there], high[there], col = "#333333")
  graphics::segments(at - 0.5, bins$expected, at + 0.5, bins$expected, lty = 2, lwd = 2)
  colours <- c("#9db4c8", "#b4472e")
  graphics::legend("top", c("released", "differs", "expected", "2 sds of noise"), bty = "n",
                   horiz = TRUE, cex = 0.8, pch = c(15, 15, NA, NA), lty = c(NA, NA, 2, 1),
                   col = c(colours, "black", "#333333"))
  invisible(bins)
}
