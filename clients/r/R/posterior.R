most_settings <- 100L # of one request

#' Ask a fit more, free of charge
#'
#' A job that used `noisy_quadratic` or `noisy_mean`, as the planner chooses, stores what it
#' released. From that alone the service answers these questions: nothing is charged, and they may be
#' asked as often as you like. The draws are new ones at each call.
#'
#' @param job A `dp_fit`, a `dp_job` that has succeeded, or the id of one.
#' @param prior A list of [dp_prior()]s by parameter; one that is not named keeps the job's. A prior
#'   may be text, such as `"normal(0, 0.02)"`; one alone, `"horseshoe()"`, `"spike_and_slab()"` or
#'   `"R2D2(0.5, 2)"`, is of all coefficients but intercepts.
#' @param num_draws Number of draws, 20,000 at most.
#' @param given A data frame with settings of all covariates to predict the response at: see
#'   [predict.dp_fit()].
#' @param contrasts Sums of parameters: a vector of weights by name, or a list of such vectors.
#' @param comparisons Differences of two settings: `list(given =, against =)` with a data frame of
#'   one row in each, or a list of such lists.
#' @param effects Average effects of a covariate over settings of all: `list(covariate =, given =)`,
#'   with `value` and `against` or without, for the derivative; or a list of such lists.
#' @param null Bayes factors of the model over the one in which these coefficients are fixed: a
#'   vector of values by name, or a list of such vectors.
#' @param scale `"original"`, in the units of the columns, or `"design"`, of the standardised ones.
#' @param con Connection; by default the last one to the job's service.
#' @return A list of class `dp_posterior`, which has the methods of [dp_fit-methods]; `priors` that
#'   applied, and the data frames `predictions`, `contrasts`, `comparisons`, `effects` and
#'   `bayes_factors` of what was asked. `log_bayes_factor` is a natural logarithm, above 0 in favour
#'   of the larger model.
#' @examples
#' \dontrun{
#' free <- dp_posterior(fit, prior = list(dose = dp_prior("laplace", scale = 0.5)))
#' summary(free)
#' dp_posterior(fit, contrasts = c(dose = 2), null = c(dose = 0))$bayes_factors
#' }
#' @export
dp_posterior <- function(job, prior = NULL, num_draws = 1000, given = NULL, contrasts = NULL,
                         comparisons = NULL, effects = NULL, null = NULL,
                         scale = c("original", "design"), con = NULL) {
  scale <- match.arg(scale)
  con <- connection_of(job, con)
  job <- if (inherits(job, "dp_fit")) job$job else dp_job(job, con)
  question <- list(num_draws = num_draws)
  question$prior <- if (length(prior)) prior_body(prior)
  question$given <- if (!is.null(given)) settings(given)
  question$contrasts <- if (!is.null(contrasts)) weights_body(contrasts, "contrasts")
  question$null <- if (!is.null(null)) weights_body(null, "null")
  question$comparisons <- if (!is.null(comparisons)) {
    lapply(several(comparisons, "given"), function(pair) {
      list(given = one_setting(pair$given), against = one_setting(pair$against))
    })
  }
  question$effects <- if (!is.null(effects)) {
    lapply(several(effects, "covariate"), function(effect) {
      effect$given <- settings(effect$given)
      effect
    })
  }
  answer <- ask(con, "POST", posteriors_of(job), body = question, query = list(scale = scale))
  free <- posterior_of(answer, job, question$prior, con)
  warn_unreliable(free)
  free
}

posteriors_of <- function(job) paste0("/v1/jobs/", job$id, "/posteriors")

# prior: as it was asked for, so that predict() can ask with the same one.
posterior_of <- function(answer, job, prior, con) {
  names <- as.character(unlist(answer$parameters))
  draws <- matrix(as.numeric(unlist(answer$draws)), ncol = length(names), byrow = TRUE,
                  dimnames = list(NULL, names))
  named <- function(items, field, name) {
    cbind(stats::setNames(data.frame(labels_of(items, field)), name), spreads(items))
  }
  structure(
    list(
      id = job$id, job = job, scale = answer$scale, verdict = answer$verdict, prior = prior,
      parameters = parameter_table(answer$summary), draws = posterior::as_draws_df(draws),
      priors = data.frame(
        variable = texts(answer$priors, "name"), kind = texts(answer$priors, "kind"),
        loc = numbers(answer$priors, "loc"), scale = numbers(answer$priors, "scale"),
        df = numbers(answer$priors, "df"), lower = numbers(answer$priors, "lower"),
        upper = numbers(answer$priors, "upper")
      ),
      predictions = predicted(answer$predictions, "expected"),
      contrasts = named(answer$contrasts, "weights", "contrast"),
      comparisons = compared(answer$comparisons), effects = effects_of(answer$effects),
      bayes_factors = data.frame(
        null = labels_of(answer$bayes_factors, "null"),
        log_bayes_factor = numbers(answer$bayes_factors, "log_bayes_factor"),
        error = numbers(answer$bayes_factors, "error")
      )
    ),
    class = c("dp_posterior", "dp_fit"), url = con$url
  )
}

# Weights, nulls: one named vector or a list of them, as a list of JSON objects.
weights_body <- function(weights, name) {
  sums <- if (is.list(weights)) weights else list(weights)
  lapply(unname(sums), function(one) {
    if (!is.numeric(one) || is.null(names(one)) || !all(nzchar(names(one)))) {
      wrong(name, " are numbers by the parameters' names, such as c(dose = 1)")
    }
    as.list(one)
  })
}

# One question, or a list of them, as a list. field: a member that a question has.
several <- function(questions, field) {
  if (field %in% names(questions)) list(questions) else unname(questions)
}

# A data frame as a list of JSON objects, one for each row. `names`: the columns that are sent.
settings <- function(rows, names = base::names(rows)) {
  if (!is.data.frame(rows) || !nrow(rows)) {
    wrong("settings of covariates are a data frame with a row for each, such as ",
          "data.frame(dose = 5)")
  }
  columns <- lapply(stats::setNames(names, names), function(name) {
    values <- rows[[name]]
    if (anyNA(values) || any(is.infinite(if (is.numeric(values)) values))) {
      wrong("the column ", name, " of the settings has missing or infinite values: nothing can be ",
            "predicted there")
    }
    if (is.numeric(values)) as.numeric(values) else as.character(values)
  })
  lapply(seq_len(nrow(rows)), function(k) lapply(columns, function(values) values[[k]]))
}

one_setting <- function(rows) {
  if (!is.data.frame(rows) || nrow(rows) != 1L) {
    wrong("given and against of a comparison are data frames of one row")
  }
  settings(rows)[[1]]
}

labels_of <- function(items, field) {
  vapply(items, function(item) {
    paste(names(item[[field]]), unlist(item[[field]]), collapse = ", ")
  }, "")
}

spreads <- function(items) {
  fields <- c("mean", "sd", quantiles)
  as.data.frame(stats::setNames(lapply(fields, function(field) numbers(items, field)), fields))
}

# Items as a data frame, with a row for each category where the response is one of several. label:
# of an item. part: of an item.
by_category <- function(items, part, label) {
  rows <- lapply(items, function(item) {
    shares <- item$probabilities
    if (!is.null(shares) && !is.null(item[[part]])) { # counts with zeros of their own kind
      return(cbind(label(item), spreads(list(item[[part]])), zero = shares[["0"]]$mean))
    }
    if (is.null(shares)) {
      if (is.null(item[[part]])) {
        wrong("a new row's response is one of two categories here: type = \"response\" has the ",
              "probability of the second")
      }
      return(cbind(label(item), spreads(list(item[[part]]))))
    }
    cbind(label(item), category = names(shares), spreads(unname(shares)), row.names = NULL)
  })
  do.call(rbind, rows)
}

predicted <- function(items, part) {
  by_category(items, part, function(item) {
    if (length(item$given)) data.frame(item$given, check.names = FALSE) else
      data.frame(row.names = 1L) # of a formula without covariates
  })
}

compared <- function(items) {
  rows <- by_category(items, "expected", function(item) {
    data.frame(given = labels_of(list(item), "given"), against = labels_of(list(item), "against"))
  })
  if (!is.null(rows) && !"category" %in% names(rows)) {
    rows$ratio_of <- texts(items, "multiplies")
    ratio <- spreads(lapply(items, function(item) item$ratio))
    rows[c("ratio", "ratio_q05", "ratio_q95")] <- ratio[c("mean", "q05", "q95")]
    if ("zero" %in% names(rows)) {
      odds <- spreads(lapply(items, function(item) item$odds))
      rows[c("odds_of_zero", "odds_q05", "odds_q95")] <- odds[c("mean", "q05", "q95")]
    }
  }
  rows
}

effects_of <- function(items) {
  by_category(items, "expected", function(item) {
    data.frame(covariate = item$covariate, value = as.character(item$value %||% NA),
               against = as.character(item$against %||% NA))
  })
}

#' @export
print.dp_posterior <- function(x, ...) {
  print(summary(x))
  for (part in c("predictions", "contrasts", "comparisons", "effects", "bayes_factors")) {
    if (NROW(x[[part]])) {
      cat("\n", gsub("_", " ", part), "\n", sep = "")
      print(x[[part]], digits = 3, row.names = FALSE)
    }
  }
  invisible(x)
}

#' Predict the response
#'
#' From what the job released, free of charge. Covariates beyond their declared bounds are refused:
#' nothing was fitted there.
#'
#' @param object A `dp_fit`, or a posterior of [dp_posterior()]: then under its priors.
#' @param newdata A data frame with all covariates of the formula; other columns of it are left
#'   aside. Factors stand for their labels.
#' @param type `"response"`: the mean response on its own scale, a probability or a mean.
#'   `"link"`: the linear predictor. `"new"`: the response of a new row, which varies about that mean.
#'   A response of several categories has a probability of each, whatever the type.
#' @param num_draws Number of draws behind each prediction.
#' @param ... Ignored.
#' @return A data frame: `newdata`, followed by `mean`, `sd` and the quantiles `q05` to `q95` of the
#'   draws, with a row for each row of `newdata`; of a response of several categories one for each
#'   row and `category`.
#' @examples
#' \dontrun{
#' predict(fit, newdata = data.frame(dose = c(2, 5, 8)))
#' }
#' @export
predict.dp_fit <- function(object, newdata, type = c("response", "link", "new"),
                           num_draws = 1000, ...) {
  type <- match.arg(type)
  if (missing(newdata)) {
    wrong("newdata is missing: the rows of the data set stay with the service")
  }
  part <- c(response = "expected", link = "predictor", new = "response")[[type]]
  asked <- settings(newdata, covariates_of(object, newdata))
  con <- connection_of(object, NULL)
  batches <- split(seq_along(asked), (seq_along(asked) - 1L) %/% most_settings)
  found <- lapply(batches, function(rows) {
    question <- list(num_draws = num_draws, given = asked[rows])
    question$prior <- object$prior
    predicted(ask(con, "POST", posteriors_of(object$job), body = question)$predictions, part)
  })
  found <- do.call(rbind, unname(found))
  numbers <- found[intersect(c("category", "mean", "sd", quantiles), names(found))]
  row <- rep(seq_len(nrow(newdata)), each = nrow(found) / nrow(newdata))
  cbind(newdata[row, , drop = FALSE], numbers, row.names = NULL)
}

# The columns of newdata that the right side of the fit's formula names.
covariates_of <- function(fit, newdata) {
  formula <- fit$job$spec$model$formula
  sides <- regmatches(formula, regexpr("~", formula), invert = TRUE)[[1]]
  right <- words_of(sides[2])
  if ("." %in% right) {
    about <- dp_dataset(fit$job$dataset, connection_of(fit, NULL))
    right <- c(right, setdiff(texts(about$columns, "name"), words_of(sides[1])))
  }
  intersect(names(newdata), right)
}

words_of <- function(text) {
  found <- regmatches(text, gregexpr("`[^`]+`|\"[^\"]*\"|'[^']*'|[\\p{L}\\p{M}\\p{N}._]+", text,
                                     perl = TRUE))[[1]]
  gsub("^[`\"']|[`\"']$", "", found)
}
