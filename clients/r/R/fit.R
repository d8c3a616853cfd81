quantiles <- c("q05", "q25", "q50", "q75", "q95")

#' What a fit released
#'
#' A `dp_fit` has what [dp_wait()] got of a job: all of it is paid for, and nothing here costs
#' anything. Draws leave the warm-up out. Intervals include the noise of privacy.
#'
#' @param object,x A `dp_fit`, or a posterior of [dp_posterior()].
#' @param parm Names of parameters; by default all.
#' @param level Probability of the intervals; by default 0.9, as everywhere in the service.
#' @param ... Ignored.
#' @return
#' * `summary()`: a data frame of class `summary.dp_fit` with a row for each parameter: `variable`,
#'   `mean`, `sd`, `q05` to `q95`, and of a fit `rhat`, `ess_bulk`, `ess_tail`. Printed, it stands
#'   below the verdict.
#' * `coef()`: posterior means. `vcov()`: covariance of the draws. `confint()`: a matrix with the
#'   ends of equal-tailed intervals of the draws.
#' * [posterior::as_draws_df()]: a `draws_df`.
#' * `formula()`: the model's formula as a text.
#' @name dp_fit-methods
#' @examples
#' \dontrun{
#' fit <- dp_wait(dp_fit(cured ~ dose, data = "clinic", epsilon = 1))
#' summary(fit)
#' posterior::summarise_draws(as_draws_df(fit))
#' }
NULL

# A succeeded job as a fit. Warns where it is not to be believed.
released <- function(job, scale, con) {
  if (job$kind != "chain") {
    wrong("job ", job$id, " is a ", job$kind, ", which has no coefficients")
  }
  path <- paste0("/v1/jobs/", job$id)
  summary <- ask(con, "GET", paste0(path, "/summary"), query = list(scale = scale))
  chain <- ask(con, "GET", paste0(path, "/chain"), query = list(scale = scale))
  fit <- structure(
    list(
      id = job$id, job = as_job(job, con), scale = scale, verdict = summary$verdict,
      parameters = parameter_table(summary$parameters),
      explanation = as.character(unlist(summary$explanation)), draws = chain_draws(chain)
    ),
    class = "dp_fit", url = con$url
  )
  warn_unreliable(fit)
  fit
}

warn_unreliable <- function(fit) {
  if (identical(fit$verdict$status, "unreliable")) {
    warning(warningCondition(fit$verdict$sentence, verdict = fit$verdict,
                             class = "dpmcmcR_unreliable", call = NULL))
  }
}

parameter_table <- function(items) {
  table <- data.frame(variable = texts(items, "name"))
  for (field in c("mean", "sd", quantiles)) {
    table[[field]] <- numbers(items, field)
  }
  if (any(vapply(items, function(item) "r_hat" %in% names(item), NA))) {
    table$rhat <- numbers(items, "r_hat")
    table$ess_bulk <- numbers(items, "ess_bulk")
    table$ess_tail <- numbers(items, "ess_tail")
  }
  table
}

# The draws of a chain's JSON, (chain, draw, parameter), without its warm-up.
chain_draws <- function(chain) {
  names <- as.character(unlist(chain$parameters))
  all <- array(
    as.numeric(unlist(chain$draws)),
    dim = c(length(names), chain$num_draws, chain$num_chains), dimnames = list(names, NULL, NULL)
  )
  kept <- seq_len(chain$num_draws) > chain$num_warmup
  posterior::as_draws_df(aperm(all[, kept, , drop = FALSE], c(2, 3, 1)))
}

#' @rdname dp_fit-methods
#' @rawNamespace S3method(as_draws_df, dp_fit)
as_draws_df.dp_fit <- function(x, ...) x$draws

#' @importFrom posterior as_draws
#' @rawNamespace S3method(as_draws, dp_fit)
as_draws.dp_fit <- function(x, ...) x$draws

#' @rdname dp_fit-methods
#' @export
summary.dp_fit <- function(object, ...) {
  structure(object$parameters, class = c("summary.dp_fit", "data.frame"),
            verdict = object$verdict, head = heading(object))
}

heading <- function(fit) {
  job <- fit$job
  cost <- paste0(job$algorithm, ", epsilon ", signif(job$cost$epsilon, 4), ", delta ",
                 job$cost$delta, "; protects ", protected(job$protects))
  c(subject(job), if (inherits(fit, "dp_posterior")) "free of charge, from what was released by",
    cost)
}

#' @export
print.summary.dp_fit <- function(x, ...) {
  cat(attr(x, "head"), sep = "\n")
  cat(verdict_text(attr(x, "verdict")), "\n", sep = "")
  shown <- data.frame(x$mean, x$sd, x$q05, x$q95)
  shown <- do.call(rbind, lapply(seq_len(nrow(shown)), function(k) {
    rounded(unlist(shown[k, ]), x$sd[k])
  }))
  shown <- matrix(shown, ncol = 4, dimnames = list(x$variable, c("mean", "sd", "5 %", "95 %")))
  if (!is.null(x$rhat)) {
    mixing <- cbind("R-hat" = formatC(x$rhat, digits = 3, format = "f"),
                    "ESS bulk" = formatC(x$ess_bulk, digits = 0, format = "f"))
    mixing[is.na(cbind(x$rhat, x$ess_bulk))] <- "-"
    shown <- cbind(shown, mixing)
  }
  print(shown, quote = FALSE, right = TRUE)
  invisible(x)
}

# Numbers as texts, all rounded to the second digit of the sd.
rounded <- function(values, sd) {
  if (!is.finite(sd) || sd <= 0) {
    return(format(values, digits = 4))
  }
  formatC(values, digits = max(0, 1 - floor(log10(sd))), format = "f")
}

verdict_text <- function(verdict) {
  if (is.null(verdict)) {
    return("not judged: this job ran before results had verdicts")
  }
  word <- sub(":.*", "", verdict$sentence)
  colour <- if (verdict$status == "reliable") cli::col_green else cli::col_red
  notes <- vapply(verdict$notes, function(note) paste0("\nnote: ", note$sentence), "")
  paste0(colour(word), substring(verdict$sentence, nchar(word) + 1), paste(notes, collapse = ""))
}

#' @export
print.dp_fit <- function(x, ...) {
  print(summary(x))
  invisible(x)
}

#' @rdname dp_fit-methods
#' @export
coef.dp_fit <- function(object, ...) {
  stats::setNames(object$parameters$mean, object$parameters$variable)
}

# Draws as a matrix (draw, parameter), all chains below each other.
draws_matrix <- function(fit) {
  draws <- as.matrix(posterior::as_draws_matrix(fit$draws))
  matrix(as.numeric(draws), nrow(draws), dimnames = list(NULL, colnames(draws)))
}

#' @rdname dp_fit-methods
#' @export
vcov.dp_fit <- function(object, ...) stats::cov(draws_matrix(object))

#' @rdname dp_fit-methods
#' @export
confint.dp_fit <- function(object, parm, level = 0.9, ...) {
  if (!is_number(level) || level <= 0 || level >= 1) {
    wrong("level must be a number between 0 and 1")
  }
  draws <- draws_matrix(object)
  if (!missing(parm)) {
    unknown <- if (is.numeric(parm)) setdiff(parm, seq_len(ncol(draws))) else
      setdiff(parm, colnames(draws))
    if (length(unknown)) {
      wrong("there is no parameter ", paste(unknown, collapse = ", "), ": there is ",
            paste(colnames(draws), collapse = ", "))
    }
    draws <- draws[, parm, drop = FALSE]
  }
  ends <- c((1 - level) / 2, (1 + level) / 2)
  found <- t(apply(draws, 2, stats::quantile, probs = ends, names = FALSE))
  dimnames(found) <- list(colnames(draws), paste(format(100 * ends, trim = TRUE), "%"))
  found
}

#' @rdname dp_fit-methods
#' @export
formula.dp_fit <- function(x, ...) x$job$spec$model$formula

#' A fit in words
#'
#' What was asked, what was found, how sure it is and what privacy did, in the service's sentences.
#' Of a result that is not to be believed no effect is told.
#'
#' @param fit A `dp_fit`.
#' @return The sentences, invisibly; they are printed.
#' @examples
#' \dontrun{
#' dp_explain(fit)
#' }
#' @export
dp_explain <- function(fit) {
  if (!inherits(fit, "dp_fit") || inherits(fit, "dp_posterior")) {
    wrong("fit must be a fit that dp_wait() returned")
  }
  cat(strwrap(fit$explanation, exdent = 2), sep = "\n")
  invisible(fit$explanation)
}
