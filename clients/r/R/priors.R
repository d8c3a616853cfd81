#' A prior of one standardised coefficient
#'
#' Priors are on the coefficients of the design, whose columns are (value - middle) / half range of
#' the declared bounds, whatever the scale of the results: `dp_prior(scale = 1)` of `age` says that
#' half of age's declared range changes the predictor by about 1 or less.
#'
#' A job takes normal priors without bounds. [dp_posterior()] takes all of them, free of charge.
#'
#' @param kind `"normal"`, `"laplace"`, `"student_t"`, `"cauchy"` or `"uniform"`.
#' @param loc,scale Location and scale; a uniform prior has none.
#' @param df Degrees of freedom of `"student_t"`.
#' @param lower,upper Bounds of any kind: `lower = 0` is its positive half.
#' @return A `dp_prior`.
#' @examples
#' dp_prior(scale = 1)
#' dp_prior("student_t", df = 4, scale = 1, lower = 0)
#' @export
dp_prior <- function(kind = c("normal", "laplace", "student_t", "cauchy", "uniform"), loc = NULL,
                     scale = NULL, df = NULL, lower = NULL, upper = NULL) {
  parts <- list(kind = match.arg(kind), loc = loc, scale = scale, df = df, lower = lower,
                upper = upper)
  parts <- parts[!vapply(parts, is.null, NA)]
  for (name in setdiff(names(parts), "kind")) {
    if (!is_number(parts[[name]])) {
      wrong(name, " of a prior must be a finite number")
    }
  }
  structure(parts, class = "dp_prior")
}

#' @export
print.dp_prior <- function(x, ...) {
  said <- paste(names(x)[-1], vapply(x[-1], format, ""), sep = " = ", collapse = ", ")
  cat("<dp_prior> ", x$kind, if (nzchar(said)) paste0("(", said, ")"), "\n", sep = "")
  invisible(x)
}

# Priors as the service takes them: by parameter, or one that is written and of all coefficients.
prior_body <- function(prior) {
  if (is_text(prior) && is.null(names(prior))) {
    return(prior)
  }
  prior <- as.list(prior)
  named <- length(names(prior)) == length(prior) && all(nzchar(names(prior)))
  each <- vapply(prior, function(one) inherits(one, "dp_prior") || is_text(one), NA)
  if (!named || !all(each)) {
    wrong("priors are given by parameter, such as list(age = dp_prior(scale = 1)), or alone as ",
          "text, such as \"R2D2(0.5, 2)\"")
  }
  lapply(prior, unclass)
}
