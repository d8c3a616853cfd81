# The connection that functions use by default, and the last one to each address. Jobs and fits hold
# the address alone: a key would be written to disk with them.
session <- new.env(parent = emptyenv())
session$to <- list()

too_often <- 5L # times that a request is sent again because the service said: not so fast

#' Connect to a service
#'
#' Checks the address and the key's form; nothing is sent. The connection becomes the default of all
#' other functions. Without a call, they connect with the two environment variables.
#'
#' @param url Address of the service, such as `"http://127.0.0.1:8000"`.
#' @param key API key, which was shown once when the user was made. It is best kept in the
#'   environment (`~/.Renviron`); it is printed nowhere, nor part of any error.
#' @param timeout Seconds to wait for each answer.
#' @return A `dp_connection`, invisibly.
#' @examples
#' dp_connect("http://127.0.0.1:8000", key = "dpm_example")
#' @export
dp_connect <- function(url = Sys.getenv("DPMCMC_URL"), key = Sys.getenv("DPMCMC_KEY"),
                       timeout = 60) {
  address <- checked_url(url)
  key <- checked_key(key)
  if (!is_number(timeout) || timeout <= 0) {
    wrong("timeout must be a number of seconds above 0")
  }
  con <- structure(
    list(url = address, timeout = timeout, key = function() key), # str() shows no key
    class = "dp_connection"
  )
  session$connection <- con
  session$to[[address]] <- con
  invisible(con)
}

#' @export
print.dp_connection <- function(x, ...) {
  cat("<dp_connection> ", x$url, "\n", sep = "")
  invisible(x)
}

checked_url <- function(url) {
  example <- "such as http://127.0.0.1:8000"
  if (!is_text(url)) {
    wrong("which service? Give url, or set DPMCMC_URL, ", example)
  }
  if (!grepl("^https?://[^/?#@[:space:]]+(/[^?#@[:space:]]*)?$", url)) {
    wrong("the address of the service must begin with http:// or https:// and hold no name, ",
          "password or query, ", example)
  }
  sub("/+$", "", url)
}

checked_key <- function(key) {
  if (!is_text(key)) {
    wrong("who are you? Give key, or set DPMCMC_KEY to the key that was shown when the user was ",
          "made")
  }
  if (!grepl("^[\x21-\x7e]+$", key, useBytes = TRUE)) {
    wrong("the key has white space, a line end or characters that no key has: it is plain ASCII ",
          "text")
  }
  key
}

is_text <- function(value) is.character(value) && length(value) == 1L && !is.na(value) && nzchar(value)

is_number <- function(value) is.numeric(value) && length(value) == 1L && is.finite(value)

# The connection of a call: the one that was given, else the last one that was made.
connection <- function(con) {
  con <- con %||% session$connection %||% dp_connect()
  if (!inherits(con, "dp_connection")) {
    wrong("con must be a connection that dp_connect() made")
  }
  con
}

# The connection for a job or a fit: to the service that it is of.
connection_of <- function(made, con) {
  url <- attr(made, "url")
  con <- connection(con %||% session$to[[url %||% ""]])
  if (!is.null(url) && con$url != url) {
    wrong("this is of the service at ", url, ": connect to it first, dp_connect(\"", url, "\")")
  }
  con
}

# Send a request and return its JSON as a list. query, headers: named lists. Raises the errors of
# dpmcmcR_errors.
ask <- function(con, method, path, body = NULL, query = list(), headers = list()) {
  request <- httr2::request(paste0(con$url, path))
  request <- httr2::req_method(request, method)
  request <- httr2::req_auth_bearer_token(request, con$key())
  request <- httr2::req_user_agent(request, "dpmcmcR")
  headers <- utils::modifyList(list(Accept = "application/json"), headers)
  request <- httr2::req_headers(request, !!!headers)
  request <- httr2::req_url_query(request, !!!query)
  request <- httr2::req_timeout(request, con$timeout)
  request <- httr2::req_options(request, followlocation = FALSE) # the key goes nowhere else
  request <- httr2::req_error(request, is_error = function(response) FALSE)
  if (!is.null(body)) {
    request <- httr2::req_body_json(request, body)
  }
  for (attempt in 0:too_often) {
    response <- sent(request, con, headers[["Idempotency-Key"]])
    seconds <- pause(response)
    if (is.null(seconds) || attempt == too_often) {
      break
    }
    Sys.sleep(seconds)
  }
  answered(response)
}

sent <- function(request, con, idempotency_key) {
  response <- tryCatch(httr2::req_perform(request), error = identity)
  if (!inherits(response, "error")) {
    return(response)
  }
  reason <- conditionMessage(response)
  again <- if (!is.null(idempotency_key)) {
    paste0("\n  The job may have arrived: submit it again with idempotency_key = \"",
           idempotency_key, "\", which never makes a second one.")
  }
  fail(paste0("no service answers at ", con$url, ": ", reason, again), "dpmcmcR_unreached",
       idempotency_key = idempotency_key)
}

# Seconds to wait where the service's rate limit refused, else NULL.
pause <- function(response) {
  after <- httr2::resp_header(response, "retry-after") %||% ""
  if (httr2::resp_status(response) != 429L || !grepl("^[0-9]+$", after) ||
        !identical(problem_of(response)$code, "rate_limited")) {
    return(NULL)
  }
  as.numeric(after)
}

problem_of <- function(response) {
  body <- tryCatch(httr2::resp_body_json(response, check_type = FALSE), error = function(e) NULL)
  if (is.list(body)) body else list()
}

answered <- function(response) {
  status <- httr2::resp_status(response)
  if (status >= 400L) {
    refused(response, problem_of(response))
  }
  if (status >= 300L) {
    refused(response, list(code = "redirected",
                           title = "the address of the service leads elsewhere: give that one"))
  }
  kind <- httr2::resp_content_type(response)
  body <- if (identical(kind, "application/json")) {
    tryCatch(httr2::resp_body_json(response), error = function(e) NULL)
  } else if (identical(kind, "text/event-stream")) {
    ended(response)
  }
  if (is.null(body)) {
    refused(response, list(code = "no_json", title = "this is no answer of a dpmcmc service"))
  }
  body
}

# What a stream of events ended with. A problem is raised, a stream that broke off is NULL.
ended <- function(response) {
  events <- strsplit(httr2::resp_body_string(response), "\n\n", fixed = TRUE)[[1L]]
  last <- grep("^event: (dataset|problem)\n", events, value = TRUE)
  if (!length(last)) {
    return(NULL)
  }
  data <- sub("^event: [a-z]+\ndata: ", "", last[[length(last)]])
  told <- httr2::response(headers = "Content-Type: application/json", body = charToRaw(data))
  told <- httr2::resp_body_json(told)
  if (startsWith(last[[length(last)]], "event: problem")) {
    refused(response, told, told$status %||% 500L)
  }
  told
}

# Every item of a list, page after page.
ask_all <- function(con, path, most = Inf) {
  items <- list()
  query <- list()
  repeat {
    page <- ask(con, "GET", path, query = query)
    items <- c(items, page$items)
    if (is.null(page$next_cursor) || length(items) >= most) {
      return(utils::head(items, min(most, length(items))))
    }
    query <- list(cursor = page$next_cursor)
  }
}

# A random UUID. The session's own random numbers (set.seed) stay as they are.
new_uuid <- function() {
  bytes <- as.integer(openssl::rand_bytes(16))
  bytes[7] <- bitwOr(bitwAnd(bytes[7], 0x0fL), 0x40L)
  bytes[9] <- bitwOr(bitwAnd(bytes[9], 0x3fL), 0x80L)
  digits <- paste(sprintf("%02x", bytes), collapse = "")
  sub("^(.{8})(.{4})(.{4})(.{4})(.{12})$", "\\1-\\2-\\3-\\4-\\5", digits)
}

is_id <- function(text) {
  grepl("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", text, ignore.case = TRUE)
}
