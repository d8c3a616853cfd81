#' Data sets, as far as they are public
#'
#' `dp_datasets()` lists those that this user may see, `dp_dataset()` has one with its columns and
#' their declared bounds and categories. `dp_dummy()` makes rows from these declarations alone: they
#' say nothing of the true rows and cost nothing, and code can be tried with them before any budget
#' is spent.
#'
#' @param dataset Name or id of a data set.
#' @param rows Number of rows.
#' @param seed A whole number; the same one makes the same rows.
#' @param con Connection; by default the last one of [dp_connect()].
#' @return `dp_datasets()`: a data frame with `name`, `rows` (missing where persons are protected),
#'   `units` (rows or persons), `columns`, `epsilon` and `delta` of the whole budget, `status` and
#'   `id`. `dp_dataset()`: a list of class `dp_dataset`, all that the service tells. `dp_dummy()`: a
#'   data frame with factors for categories and dates for dates.
#' @examples
#' \dontrun{
#' dp_datasets()
#' dp_dataset("clinic")
#' dp_dummy("clinic", rows = 5)
#' }
#' @export
dp_datasets <- function(con = NULL) {
  items <- ask_all(connection(con), "/v1/datasets")
  data.frame(
    name = texts(items, "name"),
    rows = numbers(items, "rows"),
    units = numbers(items, "units"),
    columns = vapply(items, function(item) length(item$columns), 0L),
    epsilon = vapply(items, function(item) as.numeric(item$privacy$epsilon), 0),
    delta = vapply(items, function(item) as.numeric(item$privacy$delta), 0),
    status = texts(items, "status"),
    id = texts(items, "id")
  )
}

#' @rdname dp_datasets
#' @export
dp_dataset <- function(dataset, con = NULL) {
  con <- connection(con)
  answer <- ask(con, "GET", paste0("/v1/datasets/", dataset_id(dataset, con)))
  structure(answer, class = "dp_dataset")
}

#' @rdname dp_datasets
#' @export
dp_dummy <- function(dataset, rows = 100, seed = 0, con = NULL) {
  con <- connection(con)
  about <- dp_dataset(dataset, con)
  answer <- ask(con, "GET", paste0("/v1/datasets/", about$id, "/dummy"),
                query = list(rows = whole(rows, "rows"), seed = whole(seed, "seed")))
  columns <- lapply(answer$data, function(values) unlist(lapply(values, function(v) v %||% NA)))
  for (column in about$columns) {
    values <- columns[[column$name]]
    columns[[column$name]] <- if (!is.null(column$categories)) {
      factor(values, levels = unlist(column$categories))
    } else if (column$type == "date") {
      as.Date(as.character(values))
    } else {
      as.numeric(values)
    }
  }
  data.frame(columns, check.names = FALSE)
}

#' Budgets of data sets
#'
#' What a data set's budget is, and what of it is spent, reserved by jobs that have not ended, and
#' left. What is spent is composed: it is no sum of the jobs' epsilons.
#'
#' @inheritParams dp_datasets
#' @param dataset Name or id of a data set; by default all that this user may see.
#' @return A data frame with a row for each data set: `dataset` (its name), `epsilon`, `delta`,
#'   `spent`, `reserved`, `remaining` (epsilons at that delta) and `jobs`.
#' @examples
#' \dontrun{
#' dp_budget("clinic")
#' }
#' @export
dp_budget <- function(dataset = NULL, con = NULL) {
  con <- connection(con)
  sets <- ask_all(con, "/v1/datasets")
  items <- if (is.null(dataset)) {
    ask_all(con, "/v1/budget")
  } else {
    list(ask(con, "GET", paste0("/v1/datasets/", id_of(dataset, sets), "/budget")))
  }
  named <- texts(sets, "name")[match(texts(items, "dataset"), texts(sets, "id"))]
  part <- function(field) vapply(items, function(item) as.numeric(item[[field]]$epsilon %||% NA), 0)
  data.frame(
    dataset = ifelse(is.na(named), texts(items, "dataset"), named),
    epsilon = numbers(items, "epsilon"), delta = numbers(items, "delta"),
    spent = part("spent"), reserved = part("reserved"), remaining = part("remaining"),
    jobs = numbers(items, "jobs")
  )
}

dataset_id <- function(dataset, con) {
  if (is_text(dataset) && is_id(dataset)) dataset else id_of(dataset, ask_all(con, "/v1/datasets"))
}

# The id of the only data set with this name.
id_of <- function(dataset, sets) {
  if (!is_text(dataset)) {
    wrong("a data set is named by its name or its id, such as data = \"clinic\"; its rows stay ",
          "with the service")
  }
  names <- texts(sets, "name")
  ids <- texts(sets, "id")
  fits <- ids[names == dataset | ids == tolower(dataset)]
  if (length(fits) == 1L) {
    return(fits)
  }
  if (length(fits)) {
    wrong(length(fits), " data sets are called \"", dataset, "\". Give the id of one of them: ",
          paste(fits, collapse = ", "))
  }
  near <- agrep(dataset, names, ignore.case = TRUE, value = TRUE)
  hint <- if (length(near)) {
    paste0(" Did you mean ", paste(utils::head(near, 3), collapse = " or "), "?")
  } else if (length(names)) {
    paste0(" There is ", paste(utils::head(names, 10), collapse = ", "), ".")
  } else {
    " There is none at all."
  }
  wrong("there is no data set \"", dataset, "\" that you may see.", hint)
}

texts <- function(items, field) {
  vapply(items, function(item) as.character(item[[field]] %||% NA_character_), "")
}

numbers <- function(items, field) {
  vapply(items, function(item) as.numeric(item[[field]] %||% NA_real_), 0)
}

whole <- function(value, name) {
  if (!is_number(value) || value != round(value)) {
    wrong(name, " must be a whole number")
  }
  format(value, scientific = FALSE)
}

#' @export
print.dp_dataset <- function(x, ...) {
  size <- if (is.null(x$rows)) paste(x$units, "persons") else paste(x$rows, "rows")
  cat(cli::style_bold(x$name), ", ", size, ", epsilon ", x$privacy$epsilon, " at delta ",
      x$privacy$delta, "\n", sep = "")
  values <- vapply(x$columns, function(column) {
    said <- if (!is.null(column$categories)) {
      paste(unlist(column$categories), collapse = ", ")
    } else {
      paste(column$lower, "to", column$upper)
    }
    none <- if (isTRUE(column$missing)) "empty" else paste(unlist(column$missing), collapse = ", ")
    paste0(said, if (nzchar(none)) paste0("; none: ", none))
  }, "")
  print(data.frame(column = texts(x$columns, "name"), type = texts(x$columns, "type"), values),
        right = FALSE, row.names = FALSE)
  invisible(x)
}
