#' Snapshots of sources, and your address for mail
#'
#' `dp_sources()` lists the sources that the service knows, `dp_snapshot()` registers what a source
#' has now as a data set, and `dp_refresh()` registers its next version, which shares the budget:
#' these are for admins. `dp_email()` says where mail about access requests is sent to you.
#'
#' @param source A list of the source's name and one of `table`, `query` and `path`.
#' @param metadata A list: `name`, `privacy` and `columns`, as of an upload.
#' @param dataset Name or id of a data set that is a snapshot.
#' @param name Name of the next version; by default with the version's number.
#' @param address An address, or `NULL` for none.
#' @param timeout Seconds to wait for a snapshot. Who leaves sooner registers nothing.
#' @param con Connection; by default the last one of [dp_connect()].
#' @return `dp_sources()`: a data frame with `name`, `kind`, and the numbers of `tables` and
#'   `queries` that it offers. `dp_snapshot()`, `dp_refresh()`: the new data set, of class
#'   `dp_dataset`. `dp_email()`: the address that counts now, invisibly.
#' @examples
#' \dontrun{
#' dp_sources()
#' age <- list(name = "age", type = "number", lower = 0, upper = 120)
#' dp_snapshot(
#'   list(name = "clinic", table = "visits"),
#'   list(name = "visits", privacy = list(epsilon = 3, delta = 1e-6), columns = list(age))
#' )
#' dp_refresh("visits")
#' dp_email("ada@example.org")
#' }
#' @export
dp_sources <- function(con = NULL) {
  items <- ask_all(connection(con), "/v1/sources")
  offered <- function(what) vapply(items, function(item) length(item[[what]]), 0L)
  data.frame(name = texts(items, "name"), kind = texts(items, "kind"),
             tables = offered("tables"), queries = offered("queries"))
}

#' @rdname dp_sources
#' @export
dp_snapshot <- function(source, metadata, timeout = 3600, con = NULL) {
  taken(connection(con), "/v1/datasets/snapshots", list(source = source, metadata = metadata),
        timeout)
}

#' @rdname dp_sources
#' @export
dp_refresh <- function(dataset, name = NULL, timeout = 3600, con = NULL) {
  con <- connection(con)
  body <- if (is.null(name)) structure(list(), names = character()) else list(name = name)
  taken(con, paste0("/v1/datasets/", dp_dataset(dataset, con)$id, "/refresh"), body, timeout)
}

#' @rdname dp_sources
#' @export
dp_email <- function(address, con = NULL) {
  if (!is.null(address) && !is_text(address)) {
    wrong("address must be one text, or NULL for none")
  }
  user <- ask(connection(con), "PATCH", "/v1/users/me", body = list(email = address))
  invisible(user$email)
}

# The data set of a snapshot: the last event of the stream that answers.
taken <- function(con, path, body, timeout) {
  con$timeout <- timeout
  made <- ask(con, "POST", path, body = body, headers = list(Accept = "text/event-stream"))
  structure(made, class = "dp_dataset")
}
