#' dpmcmcR: Bayesian models of sensitive data, through a dpmcmc service
#'
#' The rows stay with the service. [dp_plan()] says what a fit would cost and bring, [dp_fit()]
#' submits it, [dp_wait()] returns the posterior, and [dp_posterior()] and `predict()` ask more of
#' what was released, free of charge. [dp_check_fit()] checks a fit against the rows. Only it and
#' [dp_fit()] cost any of a data set's privacy budget.
#'
#' @keywords internal
#' @aliases dpmcmcR-package
"_PACKAGE"

#' @importFrom posterior as_draws_df
#' @export
posterior::as_draws_df

`%||%` <- function(value, otherwise) if (is.null(value)) otherwise else value
